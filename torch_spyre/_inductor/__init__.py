"""The documented import names around planning: `config`, `spyre_hint`, `propagate_named_dims`."""

from openspyre.spec.retired import OPTIONS
from torch_spyre._inductor.hints import spyre_hint

__all__ = ["OPTIONS_WITHOUT_EFFECT", "spyre_hint"]

OPTIONS_WITHOUT_EFFECT = frozenset({"co_optimizing_lx_planning", *OPTIONS})
