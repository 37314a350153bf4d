"""Products of matrices and vectors: mm, bmm, mv, dot, and addmm, baddbmm, addmv, which add beta * self to alpha * product.

torch makes matmul and linear of these; a weight given as W.t() is read as it lies. The product is rounded to the result's
format before anything is added (contract N4).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from openspyre.compiler.ir import Access, Dim, Iota, Op, Scalar
from openspyre.spec.addressing import row_major
from torch_spyre.ops import convolution
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, dtype_name, on_card
from torch_spyre.ops.plans import CallPlan

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_INTEGERS = (torch.int64, torch.int32)
# Names of the two factors, per operator; `self` is what is added where it is neither of them.
_FACTORS = (
    ("mat1", "mat2"),
    ("batch1", "batch2"),
    ("mat", "vec"),
    ("self", "mat2"),
    ("self", "vec"),
    ("self", "tensor"),
)
_OTHERS = {"self", "beta", "alpha", "out"}


class Product(NamedTuple):
    """A product's iteration space, k last, and the strides of its factors and of a result of shape `size` along it."""

    row: str
    dims: tuple[Dim, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    size: tuple[int, ...]


def serves(binding: Binding) -> bool:
    return _factor_names({argument.name for argument in binding.arguments}) is not None or convolution.serves(binding)


def _factor_names(names: set[str]) -> tuple[str, str] | None:
    return next((pair for pair in _FACTORS if set(pair) <= names and names - set(pair) <= _OTHERS), None)


def compile_call(call: Call) -> CallPlan | None:
    if convolution.serves(call.binding):
        return convolution.compile_call(call)
    names = _factor_names(set(call.given))
    if names is None:
        return None
    a, b = (call.given[name] for name in names)
    added = None if "self" in names else call.given["self"]
    tensors = [tensor for tensor in (a, b, added, call.written) if tensor is not None]
    if not all(on_card(t) and t.dtype == a.dtype for t in tensors):
        return None
    if a.dtype not in _FLOATS and (a.dtype not in _INTEGERS or added is not None):
        return None
    _ = call.outcome  # wrong shapes are torch's errors
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    product = product_of(a, b)
    if a.shape[-1] == 0:
        _without_terms(call, builder, product, added)
        return builder.plan()
    factors = builder.read(a, product.first), builder.read(b, product.second)
    if added is None:
        own = call.result.stride if call.written is None else call.written.stride()
        builder.add(Op("product", product.row, product.dims, factors, (builder.result((*own, 0)),)))
    else:
        temp = _rounded_product(builder, product, factors, dtype_name(a.dtype))
        _add(call, builder, product, temp, added)
    return builder.plan()


def product_of(a: torch.Tensor, b: torch.Tensor) -> Product:
    """Matrices of floats go to the matrix unit; with a vector on the right, and for integers, products are summed as such."""
    k = Dim("k", a.shape[-1], reduced=True)
    outer = tuple(Dim(f"b{i}" if i < a.dim() - 2 else "m", extent) for i, extent in enumerate(a.shape[:-1]))
    if b.dim() == 1:
        second = (*(0,) * len(outer), b.stride(0))
        return Product("sum_of_products", (*outer, k), a.stride(), second, tuple(a.shape[:-1]))
    dims = (*outer, Dim("n", b.shape[-1]), k)
    first = (*a.stride()[:-1], 0, a.stride(-1))
    second = (*b.stride()[:-2], 0, b.stride(-1), b.stride(-2))
    row = "batchmatmul" if a.dtype in _FLOATS else "sum_of_products"
    return Product(row, dims, first, second, (*a.shape[:-1], b.shape[-1]))


def _rounded_product(builder: ProgramBuilder, product: Product, factors: tuple[Access, Access], dtype: str) -> Access:
    stride = row_major(product.size)
    name = builder.temp("product", dtype, product.size, stride)
    builder.add(Op("product", product.row, product.dims, factors, (Access(name, 0, (*stride, 0), dtype),)))
    return Access(name, 0, stride, dtype)


def _without_terms(call: Call, builder: ProgramBuilder, product: Product, added: torch.Tensor | None) -> None:
    """A sum without terms is 0."""
    dims, zeros = product.dims[:-1], (Iota(0, (0,) * len(product.size)),)
    if added is None:
        builder.add(Op("zeros", "iota", dims, zeros, (builder.result(),)))
        return
    stride, dtype = row_major(product.size), dtype_name(added.dtype)
    temp = Access(builder.temp("zeros", dtype, product.size, stride), 0, stride, dtype)
    builder.add(Op("zeros", "iota", dims, zeros, (temp,)))
    _add(call, builder, product, temp, added)


def _add(call: Call, builder: ProgramBuilder, product: Product, temp: Access, added: torch.Tensor) -> None:
    """beta * self + alpha * product. Where a number is 1 its op is spared; where beta is 0, self is not looked at, as in torch."""
    dims, target = product.dims[:-1], builder.result()
    alpha, beta = (_factor(call, builder, name, added.dtype) for name in ("alpha", "beta"))
    if beta == 0:
        _scaled(builder, dims, temp, alpha, target)
        return
    summand = builder.read(added, added.expand(product.size).stride())
    first = _scaled(builder, dims, summand, beta, None)
    second = _scaled(builder, dims, temp, alpha, None)
    builder.add(Op("sum", "add", dims, (first, second), (target,)))


def _factor(call: Call, builder: ProgramBuilder, name: str, dtype: torch.dtype) -> Scalar | int:
    """A number of the call: one that its key tells from others, or whatever the launch brings."""
    value = call.given[name]
    known = [number for row in call.binding.rows for fixed, number in row.fixed if fixed == name]
    if not isinstance(value, torch.Tensor) and value in known:
        return int(value)
    place = [argument.name for argument in call.binding.arguments].index(name)
    return builder.scalar(place, "float32" if dtype is torch.float32 else "float16")


def _scaled(
    builder: ProgramBuilder, dims: tuple[Dim, ...], x: Access, factor: Scalar | int, target: Access | None
) -> Access:
    """x times a number; without an op if the number is 1 and nobody asks for another place."""
    if factor == 1 and target is None:
        return x
    if target is None:
        size = tuple(dim.size for dim in dims)
        name = builder.temp(f"scaled{len(builder.ops)}", x.dtype, size, row_major(size))
        target = Access(name, 0, row_major(size), x.dtype)
    row, inputs = ("cast", (x,)) if isinstance(factor, int) else ("mul", (x, factor))
    builder.add(Op(f"scale{len(builder.ops)}", row, dims, inputs, (target,)))
    return target
