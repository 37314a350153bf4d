"""From the IR, once its passes have run, to a bundle."""

from openspyre.compiler.emit.bundle import emit

__all__ = ["emit"]
