"""Documented bundles to programs: what the hardware's ops compute, step by step, at the places the bundle names."""

from openspyre.backend.superdsc.lowering import compile_documented, lowering_problems
from openspyre.backend.superdsc.shared import compile_emitted

__all__ = ["compile_emitted", "compile_documented", "lowering_problems"]
