"""The documented import names around planning: `config`, `spyre_hint`, `propagate_named_dims`."""

from torch_spyre._inductor.hints import spyre_hint

__all__ = ["OPTIONS_WITHOUT_EFFECT", "spyre_hint"]

OPTIONS_WITHOUT_EFFECT = frozenset({
    "lx_boundary_clones", "global_stick_optimizer", "ignore_work_division_hints", "chunk_large_tensors",
    "max_buckets", "min_default_granularity", "unroll_loops", "bundle_symbolic_args",
})  # fmt: skip
