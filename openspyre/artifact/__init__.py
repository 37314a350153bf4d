"""Waist 1: the SuperDSC bundle. Frozen model, text forms, what must be true of it."""

from openspyre.artifact.directory import InvalidBundle
from openspyre.artifact.documented import DocumentedBundle, read_documented
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.fields import Problem
from openspyre.artifact.launch_files import write_launch

__all__ = ["DocumentedBundle", "Emitted", "InvalidBundle", "Problem", "read_documented", "write_launch"]
