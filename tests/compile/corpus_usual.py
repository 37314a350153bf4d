"""What fp16 models are made of: losses, norms, convolutions, attention, activations, each with its gradient where it is trained."""

import torch
import torch.nn.functional as F
from graphs import graph, half, int64, truth


def with_gradients(function):
    """A loss, and what it gives back to each of its floating-point operands."""

    def both(*given):
        leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in given]
        loss = function(*leaves)
        return (loss.detach(), *torch.autograd.grad(loss, [x for x in leaves if x.requires_grad]))

    return both


def step_of_adamw(weight, gradient, first, second):
    first = first.lerp(gradient, 0.1)
    second = second * 0.999 + 0.001 * gradient * gradient
    down = (second / (1 - 0.999**3)).sqrt() + 1e-8
    return weight * (1 - 1e-5) - 1e-3 * (first / (1 - 0.9**3)) / down, first, second


def rope_of_halves(x, cos, sin):
    a, b = x[..., :32], x[..., 32:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def rope_of_pairs(x, cos, sin):
    a, b = x.view(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def routed(x, weight):
    chosen = (x @ weight).softmax(-1).topk(2, -1).values
    return chosen / chosen.sum(-1, keepdim=True)


def from_the_best(logits):
    values, places = logits.topk(8, -1)
    return (values / 0.7).softmax(-1), places


def trained(name, function, *inputs):
    return graph(name, with_gradients(function), *inputs, bundles=2)


LOGITS, LABELS, ROWS = half(32, 100), int64(32, high=100), half(8, 100)
Q, ANGLES = half(2, 4, 64, 64), half(16, 32)
CHANNELS = half(64)

GRAPHS = (
    graph("conv2d_stem", lambda x, w, b: F.relu(F.conv2d(x, w, b, stride=2, padding=3)), half(1, 3, 32, 32), half(64, 3, 7, 7, low=-0.2, high=0.2), CHANNELS),
    graph("conv1d_in_fp16", lambda x, w, b: F.conv1d(x, w, b, padding=1), half(2, 64, 50), half(128, 64, 3, low=-0.2, high=0.2), half(128)),
    graph("conv2d_depthwise_in_fp16", lambda x, w: F.conv2d(x, w, padding=1, groups=64), half(1, 64, 14, 14), half(64, 1, 3, 3)),
    graph("conv1d_of_mamba", lambda x, w, b: F.silu(F.conv1d(x, w, b, padding=3, groups=64)[..., :32]), half(1, 64, 32), half(64, 1, 4), CHANNELS),
    graph("max_pool_in_fp16", lambda x: F.max_pool2d(x, 3, 2, 1), half(1, 64, 28, 28)),
    graph("avg_pool_in_fp16", lambda x: F.avg_pool2d(x, 2), half(1, 64, 28, 28)),
    graph("global_pool_in_fp16", lambda x: F.adaptive_avg_pool2d(x, (1, 1)).flatten(1), half(2, 64, 7, 7)),
    graph("pool_to_half_the_size", lambda x: F.adaptive_avg_pool2d(x, 7), half(1, 64, 14, 14)),
    graph("nearest_upsampling_of_channels", lambda x: F.interpolate(x, scale_factor=2), half(1, 64, 8, 8)),
    graph("group_norm_and_silu", lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)), half(2, 64, 8, 8), CHANNELS, CHANNELS),
    graph("instance_norm_in_fp16", F.instance_norm, half(2, 8, 16, 16)),
    graph("batch_norm_of_training_in_fp16", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, True), half(4, 64, 7, 7), CHANNELS, half(64, low=0.5), CHANNELS, CHANNELS),
    trained("layer_norm_with_gradients", lambda x, w, b: F.layer_norm(x, (128,), w, b).sum(), half(16, 128), half(128), half(128)),
    trained("rms_norm_with_gradients", lambda x, w: F.rms_norm(x, (128,), w).sum(), half(16, 128), half(128)),
    graph("cross_entropy_in_fp16", F.cross_entropy, LOGITS, LABELS),
    graph("cross_entropy_smoothed", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), LOGITS, LABELS),
    graph("cross_entropy_of_probabilities", lambda x, t: F.cross_entropy(x, t.softmax(-1)), LOGITS, LOGITS),
    trained("cross_entropy_with_gradients", F.cross_entropy, LOGITS, LABELS),
    trained("nll_with_gradients", lambda x, t: F.nll_loss(x.log_softmax(-1), t), LOGITS, LABELS),
    trained("mse_with_gradients", F.mse_loss, LOGITS, LOGITS),
    trained("l1_and_huber_with_gradients", lambda a, b: F.l1_loss(a, b) + F.huber_loss(a, b) + F.smooth_l1_loss(a, b), LOGITS, LOGITS),
    trained("bce_of_logits_with_gradients", lambda a: F.binary_cross_entropy_with_logits(a, (a.detach() > 0).half()), LOGITS),
    graph("bce", lambda a, t: F.binary_cross_entropy(a.sigmoid(), t.sigmoid()), LOGITS, LOGITS),
    trained("kl_with_gradients", lambda a, b: F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"), LOGITS, LOGITS),
    graph("cosines", lambda a, b: F.cosine_similarity(a, b).mean(), LOGITS, LOGITS),
    graph("gelus", lambda x: F.gelu(x) + F.gelu(x, approximate="tanh"), ROWS),
    trained("gelu_with_gradients", lambda x: F.gelu(x).sum(), ROWS),
    trained("gelu_tanh_with_gradients", lambda x: F.gelu(x, approximate="tanh").sum(), ROWS),
    graph("silu_softplus_mish", lambda x: F.silu(x) + F.softplus(x) + F.mish(x), ROWS),
    graph("units_of_all_kinds", lambda x: F.elu(x) + F.selu(x) + F.leaky_relu(x) + F.hardswish(x) + F.relu6(x), ROWS),
    graph("celu", F.celu, ROWS),
    graph("tanh_and_sigmoids", lambda x: torch.tanh(x) + torch.sigmoid(x) + F.logsigmoid(x) + F.softsign(x), ROWS),
    trained("swiglu_with_gradients", lambda x, a, b: (F.silu(x @ a) * (x @ b)).sum(), half(16, 64), half(64, 128), half(64, 128)),
    graph("sdpa_of_groups", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.2), Q, half(2, 2, 64, 64), half(2, 2, 64, 64)),
    graph("sdpa_of_a_mask", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), half(2, 4, 10, 64), half(2, 4, 20, 64), half(2, 4, 20, 64), truth(2, 1, 10, 20)),
    graph("sdpa_of_the_past", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), Q, Q, Q),
    graph("rope_of_halves", rope_of_halves, half(2, 4, 16, 64), ANGLES, ANGLES),
    graph("rope_of_pairs", rope_of_pairs, half(2, 4, 16, 64), ANGLES, ANGLES),
    graph("sampling_from_the_best", from_the_best, half(4, 60)),
    graph("largest_logit", lambda x: x.argmax(-1), half(4, 1000)),
    graph("largest_logit_and_its_place", lambda x: x.max(-1), half(4, 1000)),
    graph("router_in_fp16", routed, half(16, 64), half(64, 8)),
    graph("step_of_adamw", step_of_adamw, half(64, 128), half(64, 128), half(64, 128), half(64, 128, low=0)),
    graph("variances", lambda x: (x.var(-1), x.std(0), x.var(unbiased=False)), half(16, 100)),
    graph("softmax_of_every_dim", lambda x: (x.softmax(0), x.softmax(1), x.softmax(2), x.log_softmax(1)), half(4, 16, 100)),
    graph("logsumexp_of_rows", lambda x: x.logsumexp(-1), half(16, 100)),
    graph("masked_softmax", lambda x, m: x.masked_fill(m, float("-inf")).softmax(-1), half(4, 16, 16), truth(16, 16)),
    graph("step_of_a_cache", lambda cache, new, i: cache.index_copy_(2, i, new), half(1, 4, 64, 64), half(1, 4, 1, 64), int64(1, high=60)),
    graph("joined_and_split", lambda a, b: torch.cat((a, b), -1).split(50, -1), ROWS, half(8, 50)),
    graph("powers_and_norms", lambda x: x**2 + x**3 + x.norm(dim=-1, keepdim=True), ROWS),
    graph("both_triangles", lambda x: x.tril() + x.triu(1), half(4, 64, 64)),
    graph("folds_of_all_kinds", lambda x: (x.sum(), x.mean(1), x.amax(0), x.amin(-1), x.sum((0, 2))), half(4, 16, 100)),
    graph("clamped_where_larger", lambda x, y: torch.where(x > y, x.clamp(-1, 1), y.minimum(x)), ROWS, ROWS),
)  # fmt: skip
