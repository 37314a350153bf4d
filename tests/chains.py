"""Normalisations as the card's ops, one by one, each rounding to its format: IR programs to be fused."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role, Scalar
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout


@dataclass
class Chain:
    """Ops over an outer dim and a row of the last; `along` is the dim that is reduced."""

    size: tuple[int, ...]
    along: int
    dtype: str
    buffers: list[Buffer] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)

    def argument(
        self, name: str, role: Role = Role.INPUT, dims: tuple[int, ...] | None = None, dtype: str = ""
    ) -> Access:
        dims = tuple(range(len(self.size))) if dims is None else dims
        size = tuple(self.size[d] for d in dims)
        kind = dtype or self.dtype
        layout = SpyreTensorLayout(list(size), kind)
        self.buffers.append(Buffer(name, kind, size, row_major(size), role, layout))
        return self._access(name, dims, kind)

    def _access(self, name: str, dims: tuple[int, ...], dtype: str) -> Access:
        strides = dict(zip(dims, row_major(tuple(self.size[d] for d in dims)), strict=True))
        return Access(name, 0, tuple(strides.get(d, 0) for d in range(len(self.size))), dtype)

    def scalar(self, name: str, dtype: str = "") -> Scalar:
        self.scalars.append(Scalar(name, dtype or self.dtype))
        return self.scalars[-1]

    def op(self, row: str, *given: Access | Scalar, dtype: str = "", into: Access | None = None) -> Access:
        """A pointwise op over all dims that an operand moves along."""
        kind = dtype or next(o.dtype for o in given if isinstance(o, Access))
        dims = sorted({d for o in given if isinstance(o, Access) for d, stride in enumerate(o.strides) if stride})
        dims = list(range(len(self.size))) if into is not None else dims
        target = into or self._temp(tuple(dims), kind)
        self._add(row, given, (target,), dims, ())
        return target

    def fold(self, row: str, source: Access, dtype: str = "") -> Access:
        kept = tuple(d for d, stride in enumerate(source.strides) if stride and d != self.along)
        target = self._temp(kept, dtype or source.dtype)
        self._add(row, (source,), (target,), list(range(len(self.size))), (self.along,))
        return target

    def moments(self, source: Access) -> tuple[Access, Access]:
        kept = tuple(d for d in range(len(self.size)) if d != self.along)
        both = (self._temp(kept, "float32"), self._temp(kept, "float32"))
        self._add("exx2", (source,), both, list(range(len(self.size))), (self.along,), (("zero_mean", False),))
        return both

    def _temp(self, dims: tuple[int, ...], dtype: str) -> Access:
        name, size = f"t{len(self.buffers)}", tuple(self.size[d] for d in dims)
        self.buffers.append(Buffer(name, dtype, size, row_major(size), Role.TEMP))
        return self._access(name, dims, dtype)

    def _add(self, row, given, targets, dims, reduced, attributes=()) -> None:
        def picked(o):
            return o if isinstance(o, Scalar) else replace(o, strides=tuple(o.strides[d] for d in dims))

        self.ops.append(
            Op(
                f"{len(self.ops)}_{row}",
                row,
                tuple(Dim(f"d{d}", self.size[d], d in reduced) for d in dims),
                tuple(map(picked, given)),
                tuple(map(picked, targets)),
                attributes,
            )
        )

    def program(self, name: str) -> Program:
        return Program(name, tuple(self.buffers), tuple(self.ops), tuple(self.scalars))


def softmax(chain: Chain) -> None:
    x, out = chain.argument("x"), chain.argument("out", Role.OUTPUT)
    largest = chain.fold("amax", x)
    weights = chain.op("exp", chain.op("sub", x, largest))
    chain.op("div", weights, chain.fold("sum", weights), into=out)


def log_softmax(chain: Chain) -> None:
    x, out = chain.argument("x"), chain.argument("out", Role.OUTPUT)
    shifted = chain.op("sub", x, chain.fold("amax", x))
    total = chain.fold("sum", chain.op("exp", shifted))
    chain.op("sub", shifted, chain.op("log", total), into=out)


def masked_softmax(chain: Chain) -> None:
    x, mask = chain.argument("x"), chain.argument("mask")
    out = chain.argument("out", Role.OUTPUT)
    scores = chain.op("add", chain.op("mul", x, chain.scalar("scale")), mask)
    weights = chain.op("exp", chain.op("sub", scores, chain.fold("amax", scores)))
    chain.op("div", weights, chain.fold("sum", weights), into=out)


def rms_norm(chain: Chain) -> None:
    x, weight = chain.argument("x"), chain.argument("weight", dims=(chain.along,))
    out, eps = chain.argument("out", Role.OUTPUT), chain.scalar("eps")
    share = chain.fold("mean", chain.op("mul", x, x))
    scale = chain.op("rsqrt", chain.op("add", share, eps))
    chain.op("mul", chain.op("mul", x, scale), weight, into=out)


def wide_rms_norm(chain: Chain) -> None:
    """As models write it: in fp32, and back."""
    x, weight = chain.argument("x"), chain.argument("weight", dims=(chain.along,))
    out, eps = chain.argument("out", Role.OUTPUT), chain.scalar("eps", "float32")
    wide = chain.op("cast", x, dtype="float32")
    share = chain.fold("mean", chain.op("mul", wide, wide))
    scale = chain.op("rsqrt", chain.op("add", share, eps))
    narrow = chain.op("cast", chain.op("mul", wide, scale), dtype=chain.dtype)
    chain.op("mul", weight, narrow, into=out)


def layer_norm(chain: Chain) -> None:
    x, out = chain.argument("x"), chain.argument("out", Role.OUTPUT)
    weight, bias = (chain.argument(name, dims=(chain.along,)) for name in ("weight", "bias"))
    mean, squares = chain.moments(x)
    scale = chain.op("layernormscale", mean, squares, chain.scalar("eps", "float32"))
    chain.op("layernormnorm", x, mean, scale, weight, bias, dtype=chain.dtype, into=out)


def layer_norm_written_out(chain: Chain) -> None:
    x, weight = chain.argument("x"), chain.argument("weight", dims=(chain.along,))
    out, eps = chain.argument("out", Role.OUTPUT), chain.scalar("eps")
    centred = chain.op("sub", x, chain.fold("mean", x))
    variance = chain.fold("mean", chain.op("mul", centred, centred))
    scale = chain.op("rsqrt", chain.op("add", variance, eps))
    chain.op("mul", chain.op("mul", centred, scale), weight, into=out)


def variance(chain: Chain) -> None:
    x = chain.argument("x")
    kept = tuple(d for d in range(len(chain.size)) if d != chain.along)
    out = chain.argument("out", Role.OUTPUT, kept)
    centred = chain.op("sub", x, chain.fold("mean", x))
    mean = chain.fold("mean", chain.op("mul", centred, centred))
    chain.ops.append(
        Op("last", "mul", tuple(Dim(f"d{d}", chain.size[d]) for d in kept),
           tuple(replace(o, strides=tuple(o.strides[d] for d in kept)) if isinstance(o, Access) else o
                 for o in (mean, chain.scalar("correction"))),
           (replace(out, strides=tuple(out.strides[d] for d in kept)),))
    )  # fmt: skip


CHAINS: tuple[Callable[[Chain], None], ...] = (
    softmax, log_softmax, masked_softmax, rms_norm, wide_rms_norm, layer_norm, layer_norm_written_out, variance,
)  # fmt: skip


def program_of(make: Callable[[Chain], None], size: tuple[int, ...], along: int, dtype: str) -> Program:
    chain = Chain(size, along % len(size), dtype)
    make(chain)
    return chain.program(make.__name__)
