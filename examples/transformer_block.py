"""A transformer block through torch.compile: one launch, the bits of eager, the CPU's result within rounding.

Run it with `python examples/transformer_block.py`. The block is a Llama's: RMS norms, grouped-query attention with rotary
positions, a SwiGLU MLP.
"""

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import torch_spyre

HIDDEN, HEADS, KV_HEADS, MLP, TOKENS = 512, 8, 2, 1408, 128
HEAD = HIDDEN // HEADS


class Attention(torch.nn.Module):
    """Grouped queries: four heads share a key and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.q = torch.nn.Linear(HIDDEN, HEADS * HEAD, bias=False)
        self.k = torch.nn.Linear(HIDDEN, KV_HEADS * HEAD, bias=False)
        self.v = torch.nn.Linear(HIDDEN, KV_HEADS * HEAD, bias=False)
        self.out = torch.nn.Linear(HEADS * HEAD, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k, v = (p(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for p in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(
            rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True, enable_gqa=True
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(torch.nn.Module):
    """Attention, then the MLP, each behind its norm and beside its residual."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = torch.nn.RMSNorm(HIDDEN), torch.nn.RMSNorm(HIDDEN)
        self.attention = Attention()
        self.gate = torch.nn.Linear(HIDDEN, MLP, bias=False)
        self.up = torch.nn.Linear(HIDDEN, MLP, bias=False)
        self.down = torch.nn.Linear(MLP, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before_attention(x), cos, sin)
        normed = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions: the halves of each head are turned against each other."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def rotary_tables(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    frequencies = 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
    angles = torch.outer(torch.arange(tokens), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def seconds(call: Callable[[], torch.Tensor], repeats: int = 20) -> float:
    """The middle one of some runs, the device idle before and after each."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        torch.spyre.synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    reference = Block()  # float32 on the CPU
    inputs = torch.randn(1, TOKENS, HIDDEN), *rotary_tables(TOKENS)
    expected = reference(*inputs)

    block = Block().to(torch.float16)
    block.load_state_dict(reference.state_dict())
    block.to("spyre")
    on_card = [tensor.to("spyre", torch.float16) for tensor in inputs]
    compiled = torch.compile(block)

    start = time.perf_counter()
    result = compiled(*on_card)
    torch.spyre.synchronize()
    print(f"first call, with compilation: {time.perf_counter() - start:.2f} s")

    error = (result.cpu().float() - expected).abs().max() / expected.abs().max()
    print(f"largest error against float32 on the CPU: {error:.5f} of the largest value")
    print(f"the bits of eager: {torch.equal(result.cpu(), block(*on_card).cpu())}\n")

    for report in torch_spyre.compile_report():
        print(f"{report}\n")

    print(f"eager    {1000 * seconds(lambda: block(*on_card)):7.2f} ms")
    print(f"compiled {1000 * seconds(lambda: compiled(*on_card)):7.2f} ms")


if __name__ == "__main__":
    main()
