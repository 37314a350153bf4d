"""Operators on the card in fp16, against torch's CPU kernels in fp32 on the same shapes; every call is waited for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bench.registry import ONE, case
from bench.timing import Effort, Pair

ELEMENTS = (2048, 4096)  # 8 M


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product (m, k) @ (k, n)."""

    m: int
    k: int
    n: int

    def __str__(self) -> str:
        return f"{self.m}x{self.k} @ {self.k}x{self.n}"


def _products(*rows: int) -> list[Product]:
    return [Product(m, k, n) for m in rows for k, n in ((4096, 4096), (4096, 11008))]


def _pair(statement: str, **tensors: torch.Tensor) -> Pair:
    """The statement on fp16 tensors of the card, then a wait; on fp32 tensors of the CPU."""
    names = {"F": torch.nn.functional, "torch": torch, "wait": torch.spyre.synchronize}
    card = {name: tensor.half().to("spyre") for name, tensor in tensors.items()}
    return Pair(f"{statement}; wait()", statement, names | card, names | tensors)


def _product(product: Product) -> Pair:
    return _pair("a @ b", a=torch.randn(product.m, product.k), b=torch.randn(product.k, product.n))


@case("matmul {}", asked=1.0, goal=0.9, baseline="torch fp32", over=_products(256, 1024))
def tall_product(product: Product, effort: Effort) -> Pair:
    """M of 256 and more."""
    return _product(product)


@case("matmul {}", asked=0.7, goal=0.5, baseline="torch fp32", over=_products(16, 64))
def flat_product(product: Product, effort: Effort) -> Pair:
    """M of 16 to 64."""
    return _product(product)


@case("matmul {}", asked=0.5, goal=0.3, baseline="torch fp32", over=_products(4, 8))
def few_rows(product: Product, effort: Effort) -> Pair:
    """M of 4 to 8."""
    return _product(product)


@case("matmul {}", asked=0.65, goal=0.55, baseline="torch fp32", over=_products(1))
def one_row(product: Product, effort: Effort) -> Pair:
    """M of 1."""
    return _product(product)


POINTWISE = ("x + y", "F.silu(x)", "F.gelu(x)", "torch.exp(x)", "F.silu(x) * y")
ROWS = ("torch.softmax(x, -1)", "F.rms_norm(x, (4096,))", "F.layer_norm(x, (4096,))", "x.sum(-1)", "x.sum(0)")


@case("{}, 8 M elements", asked=1.0, goal=0.75, baseline="torch fp32", over=POINTWISE)
def pointwise(statement: str, effort: Effort) -> Pair:
    """x and y are (2048, 4096)."""
    return _pair(statement, x=torch.randn(ELEMENTS), y=torch.randn(ELEMENTS))


@case("{}, 8 M elements", asked=1.1, goal=0.75, baseline="torch fp32", over=ROWS)
def rows(statement: str, effort: Effort) -> Pair:
    """x is (2048, 4096)."""
    return _pair(statement, x=torch.randn(ELEMENTS))


@case("launch of x + y, 64 elements", asked=2.5, goal=1.3, baseline="torch fp32", threads=ONE)
def launch(effort: Effort) -> Pair:
    """1,000 calls, one wait."""
    x = torch.randn(64)
    names = {"wait": torch.spyre.synchronize}
    card = {"x": x.half().to("spyre"), "y": x.half().to("spyre")}
    calls = "for _ in range(1000): x + y"
    return Pair(f"{calls}\nwait()", calls, names | card, names | {"x": x, "y": x})


@case("launch and wait of x + y, 64 elements", asked=5.0, baseline="torch fp32", threads=ONE)
def launch_and_wait(effort: Effort) -> Pair:
    """One call, one wait: beside the launches in a row above."""
    return _pair("x + y", x=torch.randn(64), y=torch.randn(64))


ATTENTION = {"": "", ", causal": ", is_causal=True"}


@case("attention of 8 heads, 512 x 512 x 64{}", asked=1.1, baseline="torch fp32", over=ATTENTION)
def attention(kind: str, effort: Effort) -> Pair:
    """torch has one fused kernel, the card two contractions and a softmax between them."""
    statement = f"F.scaled_dot_product_attention(q, k, v{ATTENTION[kind]})"
    return _pair(statement, **{name: torch.randn(1, 8, 512, 64) for name in "qkv"})


@case("x.t().contiguous(), 8 M elements", asked=1.5, baseline="torch fp32")
def transpose(effort: Effort) -> Pair:
    """The stick moves to the other dim."""
    return _pair("x.t().contiguous()", x=torch.randn(ELEMENTS))


@case("index_select of 8192 rows of 2048", asked=1.2, baseline="torch fp32")
def gather(effort: Effort) -> Pair:
    """Rows in random order."""
    table, index = torch.randn(8192, 2048), torch.randperm(8192)
    names = {"wait": torch.spyre.synchronize}
    card = {"x": table.half().to("spyre"), "i": index.to("spyre")}
    return Pair("x.index_select(0, i); wait()", "x.index_select(0, i)", names | card, {"x": table, "i": index})
