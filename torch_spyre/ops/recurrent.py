"""Cells of LSTM and GRU. torch sends out-of-tree devices to its fused cells; here they are composed of the card's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor


def _with_bias(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def _lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    gates = _with_bias(input_gates, input_bias) + _with_bias(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    i, f, g, o = workspace.chunk(4, 1)
    squashed = cy.tanh()
    grad_cell = torch.zeros_like(cy) if grad_cy is None else grad_cy
    grad_o = torch.zeros_like(cy)
    if grad_hy is not None:
        grad_cell = grad_cell + grad_hy * o * (1 - squashed * squashed)
        grad_o = grad_hy * squashed * o * (1 - o)
    grad_gates = torch.cat(
        [grad_cell * g * i * (1 - i), grad_cell * cx * f * (1 - f), grad_cell * i * (1 - g * g), grad_o], 1
    )
    return grad_gates, grad_cell * f, grad_gates.sum(0) if has_bias else None


def _gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    ir, ii, inew = _with_bias(input_gates, input_bias).chunk(3, 1)
    hr, hi, hnew = _with_bias(hidden_gates, hidden_bias).chunk(3, 1)
    reset, update = (ir + hr).sigmoid(), (ii + hi).sigmoid()
    new = (inew + reset * hnew).tanh()
    return new + update * (hx - new), torch.cat([reset, update, new, hx, hnew], 1)


def _gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    reset, update, new, hx, hnew = workspace.chunk(5, 1)
    grad_new = grad_hy * (1 - update) * (1 - new * new)
    grad_update = grad_hy * (hx - new) * update * (1 - update)
    grad_reset = grad_new * hnew * reset * (1 - reset)
    grad_input = torch.cat([grad_reset, grad_update, grad_new], 1)
    grad_hidden = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    bias = (grad_input.sum(0), grad_hidden.sum(0)) if has_bias else (None, None)
    return grad_input, grad_hidden, grad_hy * update, *bias


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "_thnn_fused_gru_cell": _gru_cell,
    "_thnn_fused_gru_cell_backward": _gru_cell_backward,
}
