"""Bundles to programs: what the hardware's ops compute, step by step, at the places the bundle names."""

from openspyre.backend.superdsc.lowering import compile_bundle, lowering_problems

__all__ = ["compile_bundle", "lowering_problems"]
