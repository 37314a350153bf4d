"""The card in torch.profiler: what is shown of it. The profiler itself is native, csrc/torch/profiler."""

from torch_spyre.profiler.options import ProfilerOptions, configure, is_available, options

__all__ = ["ProfilerOptions", "configure", "is_available", "options"]
