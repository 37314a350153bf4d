"""Fusion: a pass on programs. Steps that hand a value on through memory become one step."""

from openspyre.backend.fusion.fuse_steps import Fused, FuseSteps

__all__ = ["FuseSteps", "Fused"]
