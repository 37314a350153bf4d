"""The documented import names around planning: `config`, `spyre_hint`, `propagate_named_dims`."""

from torch_spyre._inductor.hints import spyre_hint

__all__ = ["OPTIONS_WITHOUT_EFFECT", "spyre_hint"]

OPTIONS_WITHOUT_EFFECT = frozenset({
    "co_optimizing_lx_planning", "lx_boundary_clones", "global_stick_optimizer", "chunk_large_tensors",
    "max_buckets", "min_default_granularity", "unroll_loops", "bundle_symbolic_args",
})  # fmt: skip
