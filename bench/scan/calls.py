"""What the scan calls: pointwise rows from the op table, every other operator by a statement.

A name is the aten operator, with a word behind it where one operator is called in several ways. The largest tensor of a
call has about a million elements. `operands.py` says what the letters are.
"""

from __future__ import annotations

from dataclasses import dataclass

from openspyre.spec.ops import TABLE, Kind, Row
from openspyre.spec.ops.row import Samples

_NUMBERS = {
    "alpha": "1.5", "beta": "2.0", "threshold": "3.0", "negative_slope": "0.125", "value": "-0.75", "min_val": "-1.0",
    "max_val": "1.25", "lambd": "0.5", "scale": "1.5", "input_scale": "0.5",
}  # fmt: skip
_NAMED = {"elu_backward": ("grad_output", "self_or_result")}  # operands that are not aten's first arguments


@dataclass(frozen=True, slots=True)
class Call:
    """One line of the scan. `samples` is where a row of the table wants its operands from."""

    name: str
    statement: str
    samples: Samples | None = None

    @property
    def operator(self) -> str:
        """The aten operator that is called."""
        return self.name.partition(" ")[0]


def _of_row(row: Row) -> Call:
    operator = row.aten[0].partition(".")[0]
    names = _NAMED.get(row.name)
    given = [f"{names[k]}=s{k}" if names else f"s{k}" for k in range(row.operands)]
    given += [f"{name}={value!r}" for name, value in row.fixed if value is not None]
    given += [f"{name}={_NUMBERS[name]}" for name in row.scalars]
    name = operator if operator == row.name else f"{operator} {row.name}"
    return Call(name, f"aten.{operator}({', '.join(given)})", row.samples)


_BY_MASK = ("where", "masked_fill")  # rows whose operands are not all of one dtype: statements below


_REDUCED = {
    "sum": "x.sum({})", "mean": "x.mean({})", "amax": "x.amax({})", "amin": "x.amin({})", "argmax": "x.argmax({})",
    "argmin": "x.argmin({})", "any": "x.any({})", "all": "x.all({})", "prod": "x.prod({})", "var": "x.var({})",
    "std": "x.std({})", "max": "x.max({})", "min": "x.min({})", "nansum": "x.nansum({})",
    "linalg_vector_norm": "torch.linalg.vector_norm(x, dim={})", "count_nonzero": "x.count_nonzero({})",
    "var_mean": "torch.var_mean(x, {})", "std_mean": "torch.std_mean(x, {})", "aminmax": "torch.aminmax(x, dim={})",
    "logsumexp": "x.logsumexp({})", "norm": "aten.norm.ScalarOpt_dim(x, 3.0, [{}])",
}  # fmt: skip
_WAYS = {"": "-1", " along dim 0": "0", " of all": "None"}
_NOT_WHOLE = (
    "aminmax",
    "prod",
    "argmin",
    "norm",
    "logsumexp",
    "max",
    "min",
)  # ways with None that torch has not, or spells otherwise


def _reductions() -> list[Call]:
    return [
        Call(name + way, statement.format(dim))
        for name, statement in _REDUCED.items()
        for way, dim in _WAYS.items()
        if dim != "None" or name not in _NOT_WHOLE
    ]


_STATEMENTS = {
    # reductions of everything that torch spells otherwise
    "max of all": "x.max()", "min of all": "x.min()", "prod of all": "x.prod()",
    # rows
    "_softmax": "x.softmax(-1)", "_softmax along dim 0": "x.softmax(0)", "_log_softmax": "x.log_softmax(-1)",
    "_safe_softmax": "aten._safe_softmax(x, -1)",
    "_softmax_backward_data": "aten._softmax_backward_data(x, y, -1, x.dtype)",
    "_log_softmax_backward_data": "aten._log_softmax_backward_data(x, y, -1, x.dtype)",
    "native_layer_norm": "F.layer_norm(x, (1024,), v, v)", "_fused_rms_norm": "F.rms_norm(x, (1024,), v)",
    "native_layer_norm_backward": "aten.native_layer_norm_backward(x, y, (1024,), c, c, v, v, [True, True, True])",
    "_fused_rms_norm_backward": "aten._fused_rms_norm_backward(x, y, (1024,), c, v, [True, True])",
    "native_group_norm": "F.group_norm(image, 4, w, w)",
    "native_group_norm_backward": "aten.native_group_norm_backward(image, other, g, g, w, 4, 16, 16384, 4, [True, True, True])",
    "native_batch_norm": "F.batch_norm(image, w, e, w, w)",
    "native_batch_norm in training": "F.batch_norm(image, None, None, w, w, training=True)",
    "native_batch_norm_backward": "aten.native_batch_norm_backward(image, other, w, w, e, w, e, True, 1e-5, [True, True, True])",
    "_native_batch_norm_legit": "aten._native_batch_norm_legit(image, w, w, True, 0.1, 1e-5)",
    "_batch_norm_with_update": "aten._batch_norm_with_update_functional(image, w, w, w, e, 0.1, 1e-5)",
    "batch_norm_backward": "aten.batch_norm_backward(image, other, w, w, e, w, e, True, 1e-5, [True, True, True], e[:0])",
    "renorm": "x.renorm(2, 0, 1.0)",
    "_scaled_dot_product_fused_attention_overrideable": "F.scaled_dot_product_attention(heads, heads, heads)",
    "_scaled_dot_product_fused_attention_overrideable causal": "F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)",
    # contractions
    "mm": "x @ thin", "mm of a transposed": "x.t() @ thin", "mm of one row": "x[:1] @ y", "mv": "x @ v", "addmm": "torch.addmm(narrow, x, thin)",
    "addmv": "torch.addmv(v, x, v)", "bmm": "batch @ batch", "bmm of small": "smalls @ smalls", "baddbmm": "torch.baddbmm(batch, batch, batch)",
    "addbmm": "torch.addbmm(batch[0], batch, batch)", "addr": "torch.addr(x, v, v)", "dot": "torch.dot(flat, flat)",
    "convolution": "F.conv2d(image, kernel, padding=1)", "convolution of points": "F.conv2d(image, point)",
    "convolution depthwise": "F.conv2d(image, depth, padding=1, groups=16)",
    "convolution of small images": "F.conv2d(small_images, kernels, padding=1)",
    "convolution of patches": "F.conv2d(image, patch, stride=8)",
    "convolution of one dim": "F.conv1d(signal, kernel1, padding=1)",
    "convolution_backward": "aten.convolution_backward(image, other, square, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])",
    # pools and images
    "max_pool2d_with_indices": "F.max_pool2d(image, 2)", "max_pool2d_with_indices of 3": "F.max_pool2d(image, 3, 2, 1)",
    "max_pool2d_with_indices and where": "F.max_pool2d(image, 2, return_indices=True)",
    "avg_pool2d": "F.avg_pool2d(image, 2)", "avg_pool2d of 3": "F.avg_pool2d(image, 3, 2, 1)",
    "_adaptive_avg_pool2d": "F.adaptive_avg_pool2d(image, 8)", "_adaptive_avg_pool2d to one": "F.adaptive_avg_pool2d(image, 1)",
    "upsample_nearest2d": "F.interpolate(quarter, scale_factor=2.0)",
    "upsample_nearest1d": "F.interpolate(half_signal, scale_factor=2.0)",
    "upsample_bilinear2d": "F.interpolate(quarter, scale_factor=2.0, mode='bilinear')",
    "upsample_bilinear2d of corners": "F.interpolate(quarter, size=(128, 128), mode='bilinear', align_corners=True)",
    "upsample_bicubic2d": "F.interpolate(quarter, scale_factor=2.0, mode='bicubic')",
    "upsample_linear1d": "F.interpolate(half_signal, scale_factor=2.0, mode='linear')",
    "upsample_trilinear3d": "F.interpolate(volume, scale_factor=2.0, mode='trilinear')",
    "grid_sampler_2d": "F.grid_sample(image, grid, align_corners=False)",
    "affine_grid_generator": "F.affine_grid(turn, (4, 1, 256, 512), align_corners=False)",
    "pixel_shuffle": "F.pixel_shuffle(image, 2)", "pixel_unshuffle": "F.pixel_unshuffle(image, 2)",
    "reflection_pad1d": "F.pad(signal, (3, 3), mode='reflect')", "reflection_pad2d": "F.pad(image, (3, 3, 3, 3), mode='reflect')",
    "reflection_pad3d": "F.pad(image[None], (1, 1, 1, 1, 1, 1), mode='reflect')",
    "replication_pad1d": "F.pad(signal, (3, 3), mode='replicate')", "replication_pad2d": "F.pad(image, (3, 3, 3, 3), mode='replicate')",
    "replication_pad3d": "F.pad(image[None], (1, 1, 1, 1, 1, 1), mode='replicate')",
    "reflection_pad1d_backward": "aten.reflection_pad1d_backward(signal, signal[..., 3:-3], (3, 3))",
    "reflection_pad2d_backward": "aten.reflection_pad2d_backward(image, image[..., 3:-3, 3:-3], (3, 3, 3, 3))",
    "reflection_pad3d_backward": "aten.reflection_pad3d_backward(image, image[..., 1:-1, 1:-1, 1:-1], (1, 1, 1, 1, 1, 1))",
    "constant_pad_nd": "F.pad(image, (3, 3, 3, 3))", "unfold of patches": "F.unfold(image, 3, padding=1)",
    # moves
    "clone": "x.clone()", "clone of a transposed": "x.t().contiguous()", "clone of permuted heads": "heads.permute(0, 2, 1, 3).contiguous()",
    "clone of permuted images": "image.permute(0, 2, 3, 1).contiguous()", "clone of permuted channels": "image.permute(1, 0, 3, 2).contiguous()",
    "clone of a slice": "x[3:1000, 5:900].contiguous()", "clone of every second": "x[:, ::2].contiguous()", "clone of one expanded": "v.expand(1024, 1024).contiguous()",
    "clone of a column expanded": "c.expand(1024, 1024).contiguous()", "unfold": "x.unfold(1, 16, 16).transpose(1, 2).contiguous()",
    "unfold of windows": "narrow.unfold(0, 16, 1).contiguous()",
    "view of other rows": "(x.view(512, 2048) + 1)", "view of short rows": "(x.view(-1, 32) + 1)",
    "cat": "torch.cat([x, y])", "cat along dim 1": "torch.cat([x, y], 1)", "cat of odd parts": "torch.cat([x[:, :500], y[:, 3:]], 1)",
    "stack": "torch.stack([x, y], -1)", "repeat": "narrow.repeat(1, 16)", "repeat_interleave": "narrow.repeat_interleave(16, 1)",
    "roll": "x.roll((3, 5), (0, 1))", "flip": "x.flip(1)", "flip along dim 0": "x.flip(0)", "tril": "x.tril()", "triu": "x.triu()",
    "copy to float32": "x.to(torch.float32)", "copy to float16": "x.to(torch.float16)", "copy to int64": "x.to(torch.int64)", "copy to bool": "x.to(torch.bool)",
    "copy into a slice": "x[:, 3:900].copy_(y[:, 3:900])", "fill": "x.fill_(1)", "zero": "x.zero_()",
    # indices
    "index_select": "x.index_select(0, order)", "index_select along dim 1": "x.index_select(1, order)", "gather": "x.gather(1, places)", "gather along dim 0": "x.gather(0, places)",
    "take": "x.take(all_places)", "embedding": "F.embedding(order, x)", "index": "x[order]", "index of pairs": "x[order, order.flip(0)]", "index of elements": "x[order[:, None], order]",
    "index_add": "x.index_add(0, order, y)", "index_copy": "x.index_copy(0, order, y)", "index_fill": "x.index_fill(0, order[:512], 1)", "index_put": "x.index_put((order,), y)",
    "index_put adding": "x.index_put((order,), y, accumulate=True)", "scatter": "x.scatter(1, places, y)", "scatter of a number": "x.scatter(1, places, 1)",
    "scatter_add": "x.scatter_add(1, places, y)", "scatter_add along dim 0": "x.scatter_add(0, places, y)", "scatter_reduce": "x.scatter_reduce(1, places, y, 'amax')",
    "embedding_dense_backward": "aten.embedding_dense_backward(x, order, 1024, -1, False)", "masked_scatter": "x.masked_scatter(mask, y)",
    # order
    "sort": "x.sort(-1)", "sort along dim 0": "x.sort(0)", "topk": "x.topk(8)", "cumsum": "x.cumsum(-1)", "cumsum along dim 0": "x.cumsum(0)", "cumprod": "x.cumprod(-1)",
    # creation
    "arange": "torch.arange(1048576, dtype=x.dtype, device=x.device)", "eye": "torch.eye(1024, dtype=x.dtype, device=x.device)",
    "linspace": "torch.linspace(0, 1, 1048576, dtype=x.dtype, device=x.device)", "logspace": "torch.logspace(0, 1, 1048576, dtype=x.dtype, device=x.device)",
    "hann_window": "torch.hann_window(1048576, dtype=x.dtype, device=x.device)", "full": "torch.full((1024, 1024), 1, dtype=x.dtype, device=x.device)",
    # random numbers
    "bernoulli": "torch.bernoulli(chance)", "cauchy": "x.cauchy_()", "exponential": "x.exponential_()", "geometric": "x.geometric_(0.5)", "log_normal": "x.log_normal_()",
    "native_dropout": "F.dropout(x, 0.5)", "normal": "x.normal_()", "normal_functional": "aten.normal_functional(x)", "random": "x.random_(100)", "uniform": "x.uniform_()",
    "native_dropout_backward": "aten.native_dropout_backward(x, mask, 2.0)", "multinomial": "torch.multinomial(chance[:64], 8, replacement=True)",
    "multinomial without return": "torch.multinomial(chance[:64], 8)",
    "randperm": "torch.randperm(1048576, device=x.device)", "rrelu_with_noise": "F.rrelu(x, training=True)", "rrelu_with_noise_functional": "aten.rrelu_with_noise_functional(x, y, 0.125, 0.3, True)",
    # losses
    "mse_loss": "F.mse_loss(x, y)", "mse_loss_backward": "aten.mse_loss_backward(x, y, x, 0)", "smooth_l1_loss": "F.smooth_l1_loss(x, y)",
    "smooth_l1_loss_backward": "aten.smooth_l1_loss_backward(x, x, y, 0, 1.0)", "huber_loss": "F.huber_loss(x, y)", "huber_loss_backward": "aten.huber_loss_backward(x, x, y, 0, 1.0)",
    "binary_cross_entropy": "F.binary_cross_entropy(chance, chance)", "binary_cross_entropy_backward": "aten.binary_cross_entropy_backward(x, chance, chance, None, 0)",
    "soft_margin_loss": "F.soft_margin_loss(x, y)", "soft_margin_loss_backward": "aten.soft_margin_loss_backward(x, x, y, 0)",
    "nll_loss_forward": "F.nll_loss(x, order)", "nll_loss_backward": "aten.nll_loss_backward(v, x, order, None, 0, -100, one)",
    "nll_loss2d_forward": "F.nll_loss(image, classes)", "nll_loss2d_backward": "aten.nll_loss2d_backward(image[:, 0], image, classes, None, 0, -100, one)",
    "multi_margin_loss": "F.multi_margin_loss(x, order)", "multilabel_margin_loss_forward": "F.multilabel_margin_loss(x, places)",
    # recurrent cells and layers
    "_thnn_fused_lstm_cell": "aten._thnn_fused_lstm_cell(gates, gates, cells, None, None)[:2]",
    "_thnn_fused_gru_cell": "aten._thnn_fused_gru_cell(gates[:, :768], gates[:, :768], cells, None, None)[0]",
    # pointwise that is composed
    "celu": "F.celu(x)", "deg2rad": "x.deg2rad()", "rad2deg": "x.rad2deg()", "glu": "F.glu(x)", "glu_backward": "aten.glu_backward(x[:, :512], y, -1)", "isneginf": "x.isneginf()",
    "isposinf": "x.isposinf()", "log_sigmoid_forward": "F.logsigmoid(x)", "log_sigmoid_backward": "aten.log_sigmoid_backward(x, y, chance)", "logit_backward": "aten.logit_backward(x, chance)",
    "nan_to_num": "x.nan_to_num()", "round to decimals": "x.round(decimals=2)", "sinc": "x.sinc()", "special_entr": "torch.special.entr(chance)",
    "special_log_ndtr": "torch.special.log_ndtr(x)", "special_xlog1py": "torch.special.xlog1py(x, chance)", "linalg_cross": "torch.linalg.cross(triples, triples)", "mvlgamma": "(chance + 2).mvlgamma(2)",
    # pointwise with operands that are broadcast, numbers and masks
    "equal": "torch.equal(x, y)",
    "histc": "torch.histc(x, 64)",
    "nonzero": "mask.nonzero()", "nonzero_static": "torch.nonzero_static(mask, size=524288)",
    "bucketize": "torch.bucketize(x, edges)",
    "searchsorted": "torch.searchsorted(edges, x)",
    "sgn": "x.sgn()", "__lshift__": "aten.__lshift__(x, 1)", "__rshift__": "aten.__rshift__(x, 1)", "add of a row": "x + v", "add of a column": "x + c", "add of a number": "x + 1", "add of a transposed": "x + y.t()", "add in place": "x.add_(y)", "where": "torch.where(mask, x, y)",
    "where of a number": "torch.where(mask, x, 0)", "masked_fill": "x.masked_fill(mask, 1)", "eq of a number": "x == 1", "add of mixed": "x + single", "clamp of numbers": "x.clamp(0, 1)", "pow of 2": "x ** 2",
}  # fmt: skip


# Served operators that no statement calls, and why.
NOT_SCANNED = {
    "_native_multi_head_attention": "a layer: its products and softmax are scanned",
    "_transformer_encoder_layer_fwd": "a layer: its products, softmax and norms are scanned",
    "_scaled_mm": "8-bit floats alone",
    "_grouped_mm": "bfloat16 alone",
    "_fused_adam": "lists of tensors, in place",
    "_fused_adamw": "lists of tensors, in place",
    "_fused_sgd": "lists of tensors, in place",
    "_index_put_impl": "what index_put calls",
    "_thnn_fused_gru_cell_backward": "takes a workspace that no CPU kernel makes",
    "_thnn_fused_lstm_cell_backward_impl": "takes a workspace that no CPU kernel makes",
}


def calls() -> list[Call]:
    """All of the scan, in the order of the op table, then of the statements."""
    rows = [
        _of_row(row) for row in TABLE.values() if row.kind is Kind.POINTWISE and row.aten and row.name not in _BY_MASK
    ]
    return [*rows, *_reductions(), *(Call(name, text) for name, text in _STATEMENTS.items())]
