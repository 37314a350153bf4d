"""The back end: a bundle becomes a program of the card, and its steps are joined. It knows nothing of the compiler."""

from openspyre.backend.fusion import Fused, FuseSteps
from openspyre.backend.host_form import fused_on_host, host_form
from openspyre.backend.superdsc.shared import compile_emitted

__all__ = ["FuseSteps", "Fused", "compile_emitted", "fused_on_host", "host_form"]
