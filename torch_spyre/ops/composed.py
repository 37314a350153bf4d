"""Operators composed of others in Python: one function is eager's kernel and the decomposition that graphs get.

So both doors compute the same steps. Most are torch's own decompositions; `_OWN` are those torch has not, or not for us.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.ops import (
    attention_layers,
    compositions,
    convolution_gradients,
    embedding_gradient,
    fused_optimizers,
    group_norm,
    grouped,
    image_padding,
    memory_formats,
    norm_gradients,
    places,
    pools,
    recurrent,
    resampling,
    sampling,
    scaled_product,
    searching,
)
from torch_spyre.torch_seams import hide_from_dynamo, resolve

Composition = Callable[..., Any]

_OWN: dict[str, Composition] = {
    **attention_layers.COMPOSITIONS,
    **compositions.COMPOSITIONS,
    **convolution_gradients.COMPOSITIONS,
    **embedding_gradient.COMPOSITIONS,
    **fused_optimizers.COMPOSITIONS,
    **group_norm.COMPOSITIONS,
    **grouped.COMPOSITIONS,
    **image_padding.COMPOSITIONS,
    **norm_gradients.COMPOSITIONS,
    **places.COMPOSITIONS,
    **recurrent.COMPOSITIONS,
    **pools.COMPOSITIONS,
    **resampling.COMPOSITIONS,
    **sampling.COMPOSITIONS,
    **scaled_product.COMPOSITIONS,
    **searching.COMPOSITIONS,
}
_OF_TORCH = (
    "_batch_norm_with_update",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit.no_stats",
    "addr",
    "addr.out",
    "affine_grid_generator",
    "batch_norm_backward",
    "binary_cross_entropy_backward",
    "deg2rad",
    "deg2rad.out",
    "deg2rad_",
    "glu",
    "hann_window",
    "hann_window.periodic",
    "huber_loss",
    "huber_loss_backward",
    "isneginf",
    "isposinf",
    "linalg_cross",
    "linalg_cross.out",
    "logit_backward",
    "logspace",
    "logspace.out",
    "mse_loss",
    "mse_loss_backward",
    "multi_margin_loss",
    "multilabel_margin_loss_forward",
    "mvlgamma",
    "mvlgamma_",
    "native_batch_norm",
    "native_batch_norm_backward",
    "native_group_norm_backward",
    "nll_loss2d_backward",
    "nll_loss2d_forward",
    "nll_loss_backward",
    "nll_loss_forward",
    "norm.Scalar",
    "norm.ScalarOpt_dim",
    "norm.ScalarOpt_dim_dtype",
    "norm.ScalarOpt_dtype",
    "pixel_unshuffle",
    "rad2deg",
    "rad2deg.out",
    "rad2deg_",
    "renorm",
    "renorm.out",
    "renorm_",
    "sinc",
    "sinc.out",
    "sinc_",
    "smooth_l1_loss",
    "smooth_l1_loss_backward",
    "soft_margin_loss",
    "soft_margin_loss.out",
    "soft_margin_loss_backward",
    "soft_margin_loss_backward.grad_input",
    "special_entr",
    "special_entr.out",
    "special_log_ndtr",
    "special_log_ndtr.out",
    "special_xlog1py",
    "special_xlog1py.other_scalar",
    "special_xlog1py.out",
    "special_xlog1py.self_scalar",
)
_OF_TORCH_IN_FORMAT = ("_adaptive_avg_pool2d",)  # torch's compositions that forget the memory format
# What torch decomposes above autograd when it traces: gradients are those of the steps, in eager mode as well.
_ABOVE_AUTOGRAD = (
    "multi_margin_loss",
    "multilabel_margin_loss_forward",
    "upsample_bicubic2d",
    "upsample_bilinear2d",
    "upsample_linear1d",
    "upsample_trilinear3d",
)
_kept: list[torch.library.Library] = []
ADOPTED: dict[
    Any, Composition
] = {}  # operators of other libraries, for graphs; eager has them by torch.library.register_kernel


def table() -> dict[Any, Composition]:
    """Overload -> the function that composes it."""
    of_torch = resolve("torch._decomp.decomposition_table")
    named = {_overload(name): function for name, function in _OWN.items()}
    in_format = {
        _overload(name): memory_formats.following_its_input(of_torch[_overload(name)]) for name in _OF_TORCH_IN_FORMAT
    }
    return named | in_format | {_overload(name): of_torch[_overload(name)] for name in _OF_TORCH}


def adopt(overload: Any, function: Composition) -> None:
    """Graphs compose another library's operator by this function from now on."""
    ADOPTED[overload] = function


def register() -> None:
    """Give the dispatcher these kernels: once, when the device is first used."""
    library = torch.library.Library("aten", "IMPL")
    for overload, function in table().items():
        library.impl(overload.name().removeprefix("aten::"), _kernel(function), "PrivateUse1")
    for name, function in places.EAGER.items():  # sizes that depend on data: graphs are cut there
        library.impl(name, _kernel(function), "PrivateUse1")
    for name in _ABOVE_AUTOGRAD:
        library.impl(name, _kernel(table()[_overload(name)]), "AutogradPrivateUse1")
    _kept.append(library)


def _kernel(function: Composition) -> Composition:
    """A frame of ours, where a call after a graph break would be a frame that Dynamo compiles (it counts a kernel's writes twice).

    autocast has done its part before a kernel is called: what a kernel computes with has the dtypes of its operands.
    """

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        if torch.is_autocast_enabled(DEVICE_NAME):
            with torch.autocast(DEVICE_NAME, enabled=False):
                return function(*arguments, **keywords)
        return function(*arguments, **keywords)

    hide_from_dynamo(kernel, callees=True)
    return kernel


def _overload(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")
