"""Waist 1: the SuperDSC bundle. Frozen model, text forms, what must be true of it."""

from openspyre.artifact.bundle import Bundle, read_bundle
from openspyre.artifact.directory import InvalidBundle
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.fields import Problem
from openspyre.artifact.launch_files import write_launch

__all__ = ["Bundle", "Emitted", "InvalidBundle", "Problem", "read_bundle", "write_launch"]
