"""One composite at work: its expression, primitive by primitive, as ops on temps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from openspyre.compiler.ir import Access, Buffer, Constant, Dim, Iota, Op, Role, Scalar
from openspyre.spec.addressing import row_major
from openspyre.spec.encodings import float_of
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Fold, Kind, OpClass, Precision
from openspyre.spec.ops.expression import Lane, Tracer, trace
from openspyre.spec.ops.row_expression import FOLD, MOMENTS, ROW

WIDE, SLIM, TRUTH, PLACE = "float32", "float16", "bool", "int64"
_FOLDS = {
    "sum": "sum",
    "mean": "mean",
    "max": "amax",
    "min": "amin",
    "any": "amax",
    "all": "amin",
    "prod": "prod",
    "arg_max": "argmax",
}
_SAME = ("int_to_bool", "int_to_float", "copy")  # truth values are 0 and 1, whole numbers are floats here
_LOGIC = {"and": "mul", "or": "maximum", "xor": "ne"}  # of truth values, which are 0 and 1
_KNOWN = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt, "neg": np.negative}


@dataclass(frozen=True, slots=True)
class Held:
    """A value in memory or in a launch's number: where, and along which of the op's dims it varies."""

    operand: Access | Scalar
    dims: frozenset[int]

    @property
    def dtype(self) -> str:
        return self.operand.dtype


@dataclass(frozen=True, slots=True)
class Known:
    """A number."""

    value: float


Source = Held | Known


@cache
def rows_of_primitives(op_class: OpClass) -> dict[str, str]:
    """Primitive -> the row of this class that computes just that."""
    found: dict[str, str] = {}
    for row in TABLE.values():
        count = row.operands + len(row.scalars)
        own = OpClass.EXTENSION if row.widened is not None else row.op_class  # it is one where it is not widened
        if row.kind is not Kind.POINTWISE or own is not op_class or row.body is None or not row.floats:
            continue
        code = trace(row.body, (Lane.FLOAT,) * count)
        if len(code.instructions) == 1 and code.instructions[0].sources == tuple(range(count)):
            found.setdefault(code.instructions[0].opcode, row.name)
    return found


class Expansion:
    """Makes the ops of the values asked for, each after what it needs."""

    def __init__(self, op: Op, tracer: Tracer, precision: Precision) -> None:
        self.op, self.lanes = op, tracer.lanes
        self.steps = {number: (opcode, sources) for opcode, number, sources in tracer.steps}
        self.reduced = frozenset(d for d, dim in enumerate(op.dims) if dim.reduced)
        self.own = WIDE if precision is Precision.FP32 else _own_dtype(op)
        self.values: dict[int, Source] = {
            n: Known(_number(bits, self.lanes[n])) for bits, n in tracer.constants.items()
        }
        self.values |= {number: self._operand(number) for number in range(len(op.inputs))}
        self.targets: dict[int, Access] = {}
        self.narrowed: set[Source] = set()  # what an op is to read in 16 bits, and compute in them
        self.origin = op.origin.changed(
            "decomposition", "ExpandComposites", f"{op.row} is made of several ops of the card"
        )
        self.buffers: list[Buffer] = []
        self.ops: list[Op] = []

    def store(self, results: list[int]) -> None:
        """Computes the results into the op's outputs."""
        results = [self._origin(number) for number in results]
        for number, output in zip(results, self.op.outputs, strict=True):
            if number not in self.values:
                self.targets.setdefault(number, output)
        for number, output in zip(results, self.op.outputs, strict=True):
            found = self._value(number)
            if not (isinstance(found, Held) and found.operand == output):
                self._into("cast", (found,), output)

    def _origin(self, number: int) -> int:
        """The value that a conversion without an op is the same as."""
        while number in self.steps and self.steps[number][0] in _SAME:
            (number,) = self.steps[number][1]
        return number

    def _operand(self, number: int) -> Source:
        operand = self.op.inputs[number]
        if isinstance(operand, Constant):
            return Known(operand.value)
        if isinstance(operand, Iota):
            raise InternalError(f"{self.op.name}: {self.op.row!r} counts, a composite does not")
        if isinstance(operand, Scalar):
            return Held(operand, frozenset())
        return Held(operand, self._moving(operand))

    def _moving(self, access: Access) -> frozenset[int]:
        pairs = enumerate(zip(access.strides, self.op.dims, strict=True))
        return frozenset(d for d, (stride, dim) in pairs if stride and dim.size > 1)

    # --- values -------------------------------------------------------------------------------------------------------

    def _value(self, number: int) -> Source:
        if number not in self.values:
            opcode, sources = self.steps[number]
            given = tuple(self._value(source) for source in sources)
            self.values[number] = self._computed(opcode, given, number)
        return self.values[number]

    def _computed(self, opcode: str, given: tuple[Source, ...], number: int) -> Source:
        target = self.targets.get(number)
        if all(isinstance(source, Known) for source in given):
            return _folded(opcode, [source.value for source in given if isinstance(source, Known)])
        if opcode in MOMENTS:
            return self._moments(sources=self.steps[number][1], wanted=opcode)
        if opcode.startswith(FOLD):
            return self._fold(_FOLDS[opcode.removeprefix(FOLD)], given[0], target)
        if opcode.startswith(ROW):
            return self._row(opcode.removeprefix(ROW), given, target)
        if opcode == "select":
            return self._row("where", given, target)
        if opcode in rows_of_primitives(OpClass.HARDWARE):
            return self._row(rows_of_primitives(OpClass.HARDWARE)[opcode], given, target)
        return self._derived(opcode, given, target)

    def _derived(self, opcode: str, given: tuple[Source, ...], target: Access | None) -> Source:
        """Primitives that are several ops of the card, or none."""
        x = given[0]
        match opcode:
            case "widen":
                return self._as(x, WIDE, target)
            case "narrow":
                self.narrowed.add(found := self._as(x, SLIM, target))
                return found
            case "bool_to_float":
                return self._as(x, self.own, target)
            case "float_to_bool":
                return self._row("ne", (x, Known(0.0)), target)
            case _ if opcode in _SAME:
                return x
            case "fma":
                return self._row("add", (self._row("mul", given[:2]), given[2]), target)
            case "is_nan":
                return self._row("ne", (x, x), target)
            case "is_inf":
                return self._row("eq", (self._row("abs", given), Known(float("inf"))), target)
            case "ceil":
                return self._row("neg", (self._row("floor", (self._row("neg", given),)),), target)
            case "trunc":
                up = self._row("neg", (self._row("floor", (self._row("neg", given),)),))
                return self._row("where", (self._row("lt", (x, Known(0.0))), up, self._row("floor", given)), target)
            case "round":
                return self._rounded(x, target)
            case "and" | "or" | "xor" if all(isinstance(s, Held) and s.dtype == TRUTH for s in given):
                return self._row(_LOGIC[opcode], given, target)
            case "sub_i" if isinstance(x, Known) and isinstance(given[1], Held) and given[1].dtype == TRUTH:
                return self._row("eq", (given[1], Known(0.0)), target)  # 1 less a truth value: not
        if opcode in rows_of_primitives(OpClass.EXTENSION):
            return self._row(rows_of_primitives(OpClass.EXTENSION)[opcode], given, target)
        raise InternalError(
            f"{self.op.name}: {self.op.row!r} is called a composite, but no ops of the card are {opcode!r}"
        )

    def _rounded(self, x: Source, target: Access | None) -> Source:
        """Halves to even: up where more than a half is left, or a half above an odd number."""
        size = self._row("abs", (x,))
        whole = self._row("floor", (size,))
        left, halved = self._row("sub", (size, whole)), self._row("mul", (whole, Known(0.5)))
        odd = self._row("ne", (halved, self._row("floor", (halved,))))
        half = self._row("mul", (self._row("eq", (left, Known(0.5))), odd))
        up = self._row("maximum", (self._row("gt", (left, Known(0.5))), half))
        near = self._row("where", (up, self._row("add", (whole, Known(1.0))), whole))
        return self._row("where", (self._row("lt", (x, Known(0.0))), self._row("neg", (near,)), near), target)

    # --- ops ----------------------------------------------------------------------------------------------------------

    def _row(self, name: str, given: tuple[Source, ...], target: Access | None = None) -> Held:
        row = TABLE[name]
        wide = not row.mixes_formats and any(isinstance(s, Held) and s.dtype == WIDE for s in given)
        chosen = {s.dtype for s in (given[1:] if name == "where" else given) if isinstance(s, Held)}
        narrowed = any(source in self.narrowed for source in given)
        kind = WIDE if wide else TRUTH if chosen == {TRUTH} else SLIM if narrowed else self.own
        if wide:
            given = tuple(self._as(s, WIDE) if isinstance(s, Held) and s.dtype != TRUTH else s for s in given)
        return self._emit(name, given, TRUTH if row.compares else kind, target)

    def _as(self, source: Source, dtype: str, target: Access | None = None) -> Source:
        """In another format; numbers of a launch are fp32 in their registers whatever they were rounded to."""
        if isinstance(source, Known) or isinstance(source.operand, Scalar) or source.dtype == dtype:
            return source
        return self._emit("cast", (source,), dtype, target)

    def _fold(self, name: str, source: Source, target: Access | None) -> Held:
        if not isinstance(source, Held):
            raise InternalError(f"{self.op.name}: {self.op.row!r} folds a number")
        kept = source.dims - self.reduced
        dtype = PLACE if TABLE[name].fold is Fold.ARG_MAX else source.dtype
        output = target if target is not None and target.dtype == dtype else self._temp(dtype, kept)
        self._add(name, (source,), output, self._moving(output) | source.dims, self.reduced)
        return Held(output, kept)

    def _moments(self, sources: tuple[int, ...], wanted: str) -> Held:
        """Both at once, side by side in one stick."""
        numbers = [n for n, step in self.steps.items() if step[1] == sources and step[0] in MOMENTS]
        source = self._value(sources[0])
        assert isinstance(source, Held)
        kept = source.dims - self.reduced
        size = (*(self.op.dims[d].size for d in sorted(kept)), 2)
        name, order = f"{self.op.name}.exx2", list(range(len(size)))
        layout = SpyreTensorLayout(list(size), list(row_major(size)), WIDE, order, ElementArrangement.EXX2)
        self.buffers.append(Buffer(name, WIDE, size, row_major(size), Role.TEMP, layout))
        strides = self._strides(kept, row_major(size)[:-1])
        both = [Access(name, place, strides, WIDE) for place in range(2)]
        dims = sorted(kept | source.dims | self.reduced)
        self.ops.append(
            replace(
                self.op,
                name=f"{self.op.name}.exx2",
                row="exx2",
                dims=tuple(self.op.dims[d] for d in dims),
                inputs=(self._picked(source, dims),),
                outputs=tuple(replace(a, strides=tuple(a.strides[d] for d in dims)) for a in both),
                attributes=(),
            )
        )
        for number in numbers:
            self.values[number] = Held(both[MOMENTS.index(self.steps[number][0])], kept)
        return Held(both[MOMENTS.index(wanted)], kept)

    def _emit(self, name: str, given: tuple[Source, ...], dtype: str, target: Access | None) -> Held:
        dims = frozenset().union(*(source.dims for source in given if isinstance(source, Held)))
        if target is not None and target.dtype == dtype:
            self._into(name, given, target)
            return Held(target, dims)
        temp = self._temp(dtype, dims)
        self._add(name, given, temp, dims)
        return Held(temp, dims)

    def _into(self, name: str, given: tuple[Source, ...], target: Access) -> None:
        """All that the target has is written, though the value may be the same along some of its dims."""
        self._add(name, given, target, self._moving(target))

    def _temp(self, dtype: str, dims: frozenset[int]) -> Access:
        size = tuple(self.op.dims[d].size for d in sorted(dims))
        name = f"{self.op.name}.t{len(self.buffers)}"
        self.buffers.append(Buffer(name, dtype, size, row_major(size), Role.TEMP))
        return Access(name, 0, self._strides(dims, row_major(size)), dtype)

    def _strides(self, dims: frozenset[int], own: tuple[int, ...]) -> tuple[int, ...]:
        along = dict(zip(sorted(dims), own, strict=True))
        return tuple(along.get(d, 0) for d in range(len(self.op.dims)))

    def _add(
        self,
        name: str,
        given: tuple[Source, ...],
        target: Access,
        walked: frozenset[int],
        reduced: frozenset[int] = frozenset(),
    ) -> None:
        dims = sorted(walked | reduced)
        inputs = tuple(self._known(s, given, target) if isinstance(s, Known) else self._picked(s, dims) for s in given)
        self.ops.append(
            Op(
                f"{self.op.name}.{len(self.ops)}_{name}",
                name,
                tuple(Dim(self.op.dims[d].name, self.op.dims[d].size, d in reduced) for d in dims),
                inputs,
                (replace(target, strides=tuple(target.strides[d] for d in dims)),),
                origin=self.origin,
                hints=self.op.hints,
            )
        )

    def _picked(self, source: Held, dims: list[int]) -> Access | Scalar:
        if isinstance(source.operand, Scalar):
            return source.operand
        return replace(source.operand, strides=tuple(source.operand.strides[d] for d in dims))

    def _known(self, number: Known, given: tuple[Source, ...], target: Access) -> Constant:
        """Rounded to the format of the tensors it meets."""
        met = [s.dtype for s in given if isinstance(s, Held) and isinstance(s.operand, Access) and s.dtype != TRUTH]
        kinds = met or ([target.dtype] if target.dtype != TRUTH else [self.own])
        return Constant.of(number.value, WIDE if WIDE in kinds else kinds[0])


def _number(bits: int, lane: Lane) -> float:
    return float_of(bits) if lane is Lane.FLOAT else float(np.uint32(bits).view(np.int32))


def _own_dtype(op: Op) -> str:
    """The format a composite rounds to: its result's, or its operands' where it compares."""
    kinds = [o.dtype for o in (*op.outputs, *op.inputs) if not isinstance(o, Iota) and "float" in o.dtype]
    return kinds[0] if kinds else "float16"


def _folded(opcode: str, values: list[float]) -> Known:
    if opcode not in _KNOWN:
        raise InternalError(f"no number is made of {values} by {opcode!r}")
    with np.errstate(all="ignore"):
        return Known(float(_KNOWN[opcode](*map(np.float32, values))))
