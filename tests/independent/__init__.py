"""A second reader of Spyre bundles: numpy and the documented fields, and not one line of openspyre.

It is the oracle for bundles that others wrote and for those that our compiler writes, so it must stay apart:
nothing here imports openspyre or torch_spyre, and fields named `openspyre_*` are not read.
"""

from .machine import run

__all__ = ["run"]
