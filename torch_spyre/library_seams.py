"""What we change in other libraries that people run models with: one row each, like those about torch in `torch_seams.py`.

A row acts when its module has been imported, and no library is imported for it. Where a library has a hook for devices it does not
know, that is taken and no row is needed. What stands in place of the libraries' own: `device/libraries.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LibrarySeam:
    """A symbol of a module; `hooked`: by the library's own registration, else it is replaced."""

    module: str
    symbol: str
    why: str
    remove_when: str
    hooked: bool = False

    @property
    def library(self) -> str:
        return self.module.partition(".")[0]


LIBRARY_SEAMS: tuple[LibrarySeam, ...] = (
    LibrarySeam(
        "safetensors",
        "safe_open",
        'opens on the CPU what is wanted on spyre and moves tensor by tensor: load_file(device="spyre")',
        "safetensors asks torch for the devices there are",
    ),
    LibrarySeam(
        "accelerate.state",
        "PartialState.default_device",
        "Accelerator() and Trainer take the card: the list of devices is fixed",
        "accelerate asks torch.accelerator",
    ),
    LibrarySeam(
        "accelerate.utils.modeling",
        "get_max_memory",
        'device_map="auto" fills the cards before the host: the list of devices is fixed',
        "accelerate asks torch.accelerator",
    ),
    LibrarySeam(
        "transformers.training_args",
        "TrainingArguments._setup_devices",
        "Trainer takes the card unless use_cpu is set: the list of devices is fixed",
        "transformers takes accelerate's device",
    ),
    LibrarySeam(
        "transformers.utils.import_utils",
        "is_torch_bf16_gpu_available",
        "Trainer(bf16=True) is accepted: the list of devices is fixed",
        "transformers asks torch.accelerator",
    ),
    LibrarySeam(
        "transformers.modeling_utils",
        "PreTrainedModel._finalize_model_loading",
        "weights that device_map= brought to the card one by one are tiled for use, as `.to` tiles them",
        "torch has a hook for devices that lay out weights",
    ),
    LibrarySeam(
        "transformers.modeling_utils",
        "caching_allocator_warmup",
        "a model that is larger than the card is told so, with what to do about it",
        "transformers tells it",
    ),
    LibrarySeam(
        "transformers.pipelines.base",
        "Pipeline.__init__",
        "a pipeline takes the card by its number, or where no device is given, and leaves a model there: the list of devices is fixed",
        "transformers asks torch.accelerator",
    ),
    LibrarySeam(
        "transformers.generation.utils",
        "GenerationMixin._valid_auto_compile_criteria",
        'cache_implementation="static" compiles decoding by itself, as on other accelerators: the list of devices is fixed',
        "transformers asks the device",
    ),
    LibrarySeam(
        "transformers.generation.utils",
        "GenerationMixin._prepare_static_cache",
        "a cache of fixed size has whole pieces of 256 places, so that a longer prompt seldom compiles decoding again",
        "transformers takes a granularity for it",
    ),
    LibrarySeam(
        "transformers.cache_utils",
        "Cache.update",
        'cache_implementation="offloaded" keeps all layers but one on the host: it asks CUDA for its streams',
        "transformers asks torch.accelerator for the stream",
    ),
    LibrarySeam(
        "transformers.integrations.moe",
        "_grouped_mm_fallback",
        "mixtures of experts: products in groups on the card, in graphs without a cut; torch.library.register_kernel",
        "transformers calls torch's grouped_mm in graphs for every dtype",
        hooked=True,
    ),
)
