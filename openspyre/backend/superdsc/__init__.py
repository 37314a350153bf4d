"""Documented bundles to programs: what the hardware's ops compute, step by step, at the places the bundle names."""

from openspyre.backend.superdsc.lowering import compile_documented, lowering_problems

__all__ = ["compile_documented", "lowering_problems"]
