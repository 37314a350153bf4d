"""Random bundles in the documented form: one op with whatever orders, divisions, gaps, broadcasts and places the format allows.

Tensors lie in memory or, copied there and back by ops of their own, in the scratchpads.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from math import prod

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Address, Execute, Function, Loop, Node, Parameter
from openspyre.artifact.superdsc import (
    Axis,
    Component,
    Constant,
    Indirection,
    Mask,
    Stick,
    SuperDsc,
    Tensor,
)
from openspyre.spec.encodings import encode_constant
from openspyre.spec.formats import DataFormats

FP16, FP32 = DataFormats.SEN169_FP16, DataFormats.IEEE_FP32
LABELS = ("mb", "x", "y", "i", "j")
UNARY = (
    "abs",
    "exp",
    "floor",
    "neg",
    "relufwd",
    "sqrt",
    "tanh",
    "sigmoid",
    "silu",
    "reciprocal",
    "identity",
    "softplus",
    "clip",
)
BINARY = ("add", "sub", "mul", "realdiv", "maximum", "minimum", "greaterthan", "lesserequal", "equal")
REDUCTIONS = ("sum", "max", "min", "mean")


@dataclass(frozen=True, slots=True)
class Random:
    """A bundle, the bytes of its arguments, and whether its numbers leave room for the last code."""

    said: str
    bundle: Bundle
    argument_bytes: tuple[int, ...]
    formats: tuple[DataFormats, ...]
    indices: dict[int, int] = field(default_factory=dict)  # argument -> its indices are below this


KINDS = (
    *("unary", "binary", "where", "reduction", "product", "fp8 product", "restickify", "cast"),
    *("gather", "scatter", "shuffle", "topk", "loop", "masked exp"),
)


def random_bundle(seed: int) -> Random:
    rng = random.Random(f"documented {seed}")
    make = _Maker(rng)
    kind = rng.choice(KINDS)
    make.product(fp8=True) if kind == "fp8 product" else getattr(make, kind.replace(" ", "_"))()
    return Random(f"{kind}: {make.told}", make.bundle(), tuple(make.sizes), tuple(make.formats), make.indices)


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ops: dict[str, SuperDsc] = {}
        self.body: list[Execute] = []
        self.nodes: tuple[Node, ...] = ()  # where the body stands in loops
        self.sizes: list[int] = []
        self.formats: list[DataFormats] = []
        self.indices: dict[int, int] = {}
        self.symbol = -1
        self.symbols: dict[int, Address] = {}
        self.scratch = 0
        self.told = ""
        self.symbolic = rng.random() < 0.7

    # --- iteration spaces
    def space(self, stick: str = "out", dims: int | None = None, stick_size: int | None = None) -> tuple[Axis, ...]:
        """Axes with the stick's somewhere among them; splits whose product is at most 32."""
        count = self.rng.randint(1, 3) if dims is None else dims
        labels = [*self.rng.sample(LABELS, count), stick]
        self.rng.shuffle(labels)
        cores, axes = 32, []
        for label in labels:
            sticks = stick_size if stick_size is not None else self.rng.choice((1, 1, 2, 3, 4))
            size = 64 * sticks if label == stick else self.rng.choice((1, 2, 3, 4, 6, 8, 12))
            parts = sticks if label == stick else size
            split = self.rng.choice([n for n in range(1, parts + 1) if parts % n == 0 and n <= cores])
            cores //= split
            axes.append(Axis(label, size, split))
        return tuple(axes)

    def divided(self, axes: tuple[Axis, ...]) -> tuple[tuple[int, ...], ...]:
        """Every slice on some core, in any order."""
        slices: list[tuple[int, ...]] = [()]
        for axis in axes:
            slices = [(*s, i) for i in range(axis.split) for s in slices]
        if self.rng.random() < 0.5:
            self.rng.shuffle(slices)
        return tuple(slices)

    # --- tensors
    def tensor(
        self,
        number: int,
        axes: tuple[Axis, ...],
        slices: tuple[tuple[int, ...], ...],
        role: str,
        stick: str,
        scales: dict[str, int] | None = None,
        form: DataFormats = FP16,
        scratch: bool = False,
        gaps: bool = True,
        absent: dict[str, int] | None = None,
        along: tuple[Stick, ...] | None = None,
    ) -> Tensor:
        order = [axis.label for axis in axes]
        self.rng.shuffle(order)
        met = {axis.label: (scales or {}).get(axis.label, 1) for axis in axes}
        behind = {}
        if gaps and not scratch and self.rng.random() < 0.3:
            label = self.rng.choice(order)
            if met[label] == 1:
                behind[label] = self.rng.choice((1, 2, 5)) * (64 if label == stick else 1)
        tensor = Tensor(
            name=f"Tensor{number}",
            role=role,
            format=form,
            order=tuple(order),
            sticks=along or (Stick(stick, form.elems_per_stick()),),
            scales=tuple((axis.label, met[axis.label]) for axis in axes),
            component=Component.SCRATCHPAD if scratch else Component.MEMORY,
            starts=(0,) * len(slices),
            gaps=tuple(behind.items()) or tuple((label, rows) for label, rows in (absent or {}).items() if rows),
        )
        own = tuple(replace(axis, size=axis.size - 2 * (absent or {}).get(axis.label, 0)) for axis in axes)
        return self.placed(tensor, own, slices, more=absent is None)

    def extents(self, tensor: Tensor, axes: tuple[Axis, ...]) -> dict[str, int]:
        found = {}
        for axis in axes:
            if axis.label not in tensor.order:
                continue
            size = axis.size if tensor.component is Component.MEMORY else axis.per_core
            along = prod(s.size for s in tensor.sticks if s.label == axis.label)
            found[axis.label] = -(-(size + tensor.gap(axis.label)) // along) if tensor.scale(axis.label) == 1 else 1
        return found

    def placed(
        self, tensor: Tensor, axes: tuple[Axis, ...], slices: tuple[tuple[int, ...], ...], more: bool = True
    ) -> Tensor:
        """`more`: the argument may go on behind the tensor."""
        extents = self.extents(tensor, axes)
        bytes_ = 128 * prod(extents.values())
        if tensor.component is Component.SCRATCHPAD:
            start = self.scratch
            self.scratch += bytes_
            return _moved(tensor, (start,) * len(slices))
        argument, offset = len(self.sizes), 128 * self.rng.choice((0, 0, 1, 7))
        self.sizes.append(offset + bytes_ + 128 * (self.rng.choice((0, 3)) if more else 0))
        self.formats.append(tensor.format)
        step, strides = 128, {}
        for label in tensor.order:
            strides[label] = step
            step *= extents[label]
        places = []
        for chosen in slices:
            at = offset
            for axis, index in zip(axes, chosen, strict=True):
                along = prod(s.size for s in tensor.sticks if s.label == axis.label)
                if axis.label in strides and tensor.scale(axis.label) == 1 and axis.label != tensor.indexed:
                    at += index * (axis.per_core // along) * strides[axis.label]
            places.append((argument, at))
        return _moved(tensor, tuple(self.start(*place) for place in places))

    def start(self, argument: int, byte: int) -> int:
        if not self.symbolic:
            return argument * (16 << 30) + byte
        self.symbols[self.symbol] = Address(argument, byte)
        self.symbol -= 1
        return self.symbol + 1

    # --- ops
    def op(
        self,
        name: str,
        axes: tuple[Axis, ...],
        slices: tuple[tuple[int, ...], ...],
        tensors: list[Tensor],
        constants: dict[str, float] | None = None,
        unit: str = "sfp",
        masks: tuple[Mask, ...] = (),
        accumulates: bool = False,
        index: int | None = None,
    ) -> None:
        number = len(self.ops)
        file = f"sdsc_{number}.json"
        named = [_named(tensor, place) for place, tensor in enumerate(tensors)]
        listed = range(len(named) if accumulates else len(named) - 1)
        self.ops[file] = SuperDsc(
            name=f"{number}_{name}",
            op=name,
            unit=unit,
            format=named[0].format,
            axes=axes,
            slices=slices,
            tensors=tuple(named),
            inputs=tuple(n for n in listed if n != index),
            outputs=(len(named) - 1,),
            index=index,
            constants=tuple(Constant(k, FP16, encode_constant(v, FP16)) for k, v in (constants or {}).items()),
            masks=masks,
        )
        used = dict.fromkeys(s for t in named if t.component is Component.MEMORY for s in t.starts if s < 0)
        self.body.append(Execute(file, tuple((s, self.symbols[s]) for s in used), 0))

    def run(
        self,
        name: str,
        axes: tuple[Axis, ...],
        slices: tuple[tuple[int, ...], ...],
        tensors: list[Tensor],
        **fields: object,
    ) -> None:
        """The op; what it has in the scratchpads is copied in before and out behind it."""
        self.told = f"{name} {[(a.label, a.size, a.split) for a in axes]} on {len(slices)}"
        for tensor in tensors[:-1]:
            if tensor.component is Component.SCRATCHPAD:
                self.copy(tensor, axes, slices, into=True)
        self.op(name, axes, slices, tensors, **fields)  # type: ignore[arg-type]
        if tensors[-1].component is Component.SCRATCHPAD:
            self.copy(tensors[-1], axes, slices, into=False)

    def copy(self, tensor: Tensor, axes: tuple[Axis, ...], slices: tuple[tuple[int, ...], ...], *, into: bool) -> None:
        """Between memory and the scratchpads, over the dims a tensor has; whole sticks where it has one value in each."""
        met = dict(tensor.scales)
        kept = [i for i, axis in enumerate(axes) if met[axis.label] == 1 or axis.label == tensor.stick]
        own = tuple(axes[i] if met[axes[i].label] == 1 else Axis(axes[i].label, tensor.elems_per_stick) for i in kept)
        chosen = tuple(tuple(s[i] if met[axes[i].label] == 1 else 0 for i in kept) for s in slices)
        labels = {axis.label for axis in own}
        order = tuple(label for label in tensor.order if label in labels)
        inside = replace(tensor, role="OUTPUT", order=order, scales=tuple((axis.label, 1) for axis in own))
        outside = self.tensor(0, own, chosen, "OUTPUT", tensor.stick, None, tensor.format, gaps=False)
        self.op("identity", own, chosen, [outside, inside] if into else [inside, outside])

    def scratch_sometimes(self) -> bool:
        return self.rng.random() < 0.35

    def operand(
        self, number: int, axes: tuple[Axis, ...], slices: tuple[tuple[int, ...], ...], form: DataFormats = FP16
    ) -> Tensor:
        """All of the op's dims, or some of them broadcast; sometimes one value a stick."""
        met = {axis.label: -1 for axis in axes if axis.label != "out" and self.rng.random() < 0.25}
        if self.rng.random() < 0.2:
            met["out"] = -2
        return self.tensor(number, axes, slices, "OUTPUT", "out", met, form, self.scratch_sometimes())

    def pointwise(self, name: str, operands: int, constants: dict[str, float] | None = None) -> None:
        axes = self.space()
        slices = self.divided(axes)
        form = (
            FP32 if name in ("add", "mul", "sub", "abs", "neg", "exp", "maximum") and self.rng.random() < 0.2 else FP16
        )
        tensors = [self.operand(n, axes, slices, form) for n in range(operands)]
        tensors.append(self.tensor(operands, axes, slices, "OUTPUT", "out", None, form, self.scratch_sometimes()))
        self.run(name, axes, slices, tensors, constants=constants)

    def unary(self) -> None:
        name = self.rng.choice(UNARY)
        numbers = {"softplus": {"softplusBeta": 1.0, "softplusThresh": 20.0}, "clip": {"clipMin": -1.0, "clipMax": 0.5}}
        self.pointwise(name, 1, numbers.get(name))

    def binary(self) -> None:
        self.pointwise(self.rng.choice(BINARY), 2)

    def where(self) -> None:
        self.pointwise("where3", 3)

    def masked_exp(self) -> None:
        axes = self.space()
        slices = self.divided(axes)
        size = next(axis.size for axis in axes if axis.label == "out")
        masks = (Mask("out", self.rng.randint(1, size - 1)),)
        tensors = [
            self.tensor(0, axes, slices, "OUTPUT", "out", scratch=self.scratch_sometimes()),
            self.tensor(1, axes, slices, "OUTPUT", "out", scratch=self.scratch_sometimes()),
        ]
        self.run("exp", axes, slices, tensors, constants={"samv-maskvalue": float("-inf")}, masks=masks)

    def reduction(self) -> None:
        name = self.rng.choice(REDUCTIONS)
        axes = self.space(dims=self.rng.randint(1, 3))
        stick = self.rng.random() < 0.6
        folded = "out" if stick else self.rng.choice([axis.label for axis in axes if axis.label != "out"])
        split = next(axis.split for axis in axes if axis.label == folded)
        slices = self.divided(axes)
        scratch = [self.scratch_sometimes() for _ in range(2)]
        source = self.tensor(0, axes, slices, "OUTPUT", "out", scratch=scratch[0])
        target = self.tensor(1, axes, slices, "OUTPUT", "out", {folded: -2 if stick else -1}, scratch=scratch[1])
        constants, masks = ({"scaling_factor": 1 / 32} if name == "mean" else {}), ()
        if stick and split == 1 and self.rng.random() < 0.5:
            size = next(axis.size for axis in axes if axis.label == "out")
            masks = (Mask("out", self.rng.randint(1, size - 1)),)
            constants["samv-maskvalue"] = {"max": float("-inf"), "min": float("inf")}.get(name, 0.0)
        self.run(
            name if stick else f"{name}nonstick",
            axes,
            slices,
            [source, target],
            constants=constants,
            masks=masks,
            accumulates=True,
        )

    def product(self, *, fp8: bool = False) -> None:
        batch = self.rng.sample(("x", "y"), self.rng.randint(0, 2))
        cores, axes = 32, []
        labels = [*batch, "mb", "out", "in"]
        self.rng.shuffle(labels)
        for label in labels:
            sticks = self.rng.choice((1, 1, 2, 4))
            stick = 128 if fp8 and label == "in" else 64
            size = stick * sticks if label in ("out", "in") else self.rng.choice((1, 2, 3, 8))
            parts = sticks if label in ("out", "in") else size
            split = self.rng.choice([n for n in range(1, parts + 1) if parts % n == 0 and n <= cores])
            cores //= split
            axes.append(Axis(label, size, split))
        space = tuple(axes)
        slices = self.divided(space)
        shared = set(batch) if self.rng.random() < 0.3 else set()
        dims = {
            "INPUT": {"mb", "in", *batch},
            "KERNEL": {"in", "out", *batch} - shared,
            "OUTPUT": {"mb", "out", *batch},
        }
        sticks = {"INPUT": "in", "KERNEL": "out", "OUTPUT": "out"}
        tensors, before, after = [], [], []
        for number, (role, held) in enumerate(dims.items()):
            own = tuple(axis for axis in space if axis.label in held)
            picked = [i for i, axis in enumerate(space) if axis.label in held]
            chosen = tuple(tuple(s[i] for i in picked) for s in slices)
            form = DataFormats.SEN143_FP8 if fp8 and role != "OUTPUT" else FP16
            pairs = (Stick("in", 2), Stick("out", 64)) if fp8 and role == "KERNEL" else None  # two rows of k in a stick
            scratch = not fp8 and self.scratch_sometimes()
            tensor = self.tensor(number, own, chosen, role, sticks[role], None, form, scratch, not fp8, along=pairs)
            tensors.append(tensor)
            if tensor.component is Component.SCRATCHPAD:
                (after if role == "OUTPUT" else before).append((tensor, own, chosen))
        self.told = f"{[(a.label, a.size, a.split) for a in space]} shared {sorted(shared)}"
        for tensor, own, chosen in before:
            self.copy(tensor, own, chosen, into=True)
        # What lies behind the last element of k is read as zero, whatever is in memory; with a split it ends in the last part.
        depth = next(axis for axis in space if axis.label == "in")
        end = depth.size - self.rng.choice((0, 0, 1, 30) if depth.split > 1 else (0, 0, 1, 30, depth.size // 2))
        self.told += f" k ends at {end}"
        masks = (Mask("in", end),) if end < depth.size else ()
        self.op(f"batchmatmul{'fp8' * fp8}", space, slices, tensors, {"samv-maskvalue": 0.0}, "pt", masks)
        for tensor, own, chosen in after:
            self.copy(tensor, own, chosen, into=False)

    def restickify(self) -> None:
        axes = (*self.space(dims=self.rng.randint(0, 2)), Axis("k", 64 * self.rng.choice((1, 2))))
        slices = self.divided(axes)
        # Padding to whole sticks of a dim that is no stick on the other side is not in memory there; such a dim is not divided.
        absent = {axis.label: self.rng.choice((0, 1, 7, 58)) if axis.split == 1 else 0 for axis in axes}
        tensors = [
            self.tensor(0, axes, slices, "OUTPUT", "out", gaps=False, absent={"k": absent["k"]}),
            self.tensor(1, axes, slices, "KERNEL", "k", gaps=False, absent={"out": absent["out"]}),
        ]
        self.told = str([(a.label, a.size, a.split) for a in axes]) + f", without {absent}"
        self.op("ReStickifyOpHBM", axes, slices, tensors)

    def cast(self) -> None:
        axes = self.space()
        slices = self.divided(axes)
        up = self.rng.random() < 0.5
        forms = (FP16, FP32) if up else (FP32, FP16)
        tensors = [
            self.tensor(n, axes, slices, role, "out", form=form, gaps=False)
            for n, (role, form) in enumerate(zip(("OUTPUT", "KERNEL"), forms, strict=True))
        ]
        self.told = f"{'up' if up else 'down'} {[(a.label, a.size, a.split) for a in axes]}"
        self.op("dl16tofp32" if up else "fp32todl16", axes, slices, tensors)

    def indexed(self, *, reads: bool) -> None:
        rows, held = self.rng.choice((1, 5, 16, 32)), self.rng.choice((40, 100))
        axes = (Axis("mb", rows), Axis("out", 64 * self.rng.choice((1, 2, 3))))
        slices: tuple[tuple[int, ...], ...] = ((0, 0),)
        index = Tensor("Tensor0", "KERNEL_IDX", DataFormats.SENUINT32, ("mb",), (Stick("mb", 32),), (("mb", 1),), Component.MEMORY,
                       (0,), indirection=Indirection.INDEX)  # fmt: skip
        index = self.placed(index, (axes[0],), ((0,),))
        self.indices[len(self.sizes) - 1] = held if reads else 0
        self.formats[-1] = DataFormats.IEEE_INT32
        table = Tensor("T", "OUTPUT", FP16, ("out", "mb"), (Stick("out", 64),), (("mb", 1), ("out", 1)), Component.MEMORY, (0,),
                       indirection=Indirection.VALUE, indexed="mb")  # fmt: skip
        argument = len(self.sizes)
        self.sizes.append(held * axes[1].size * 2)
        self.formats.append(FP16)
        table = _moved(table, (self.start(argument, 0),))
        if not reads:
            self.indices[argument - 1] = -held  # each index once: who writes last is nobody's promise
        dense = self.tensor(2, axes, slices, "OUTPUT", "out", gaps=False)
        self.told = f"{rows} rows of {held}"
        self.op("identity", axes, slices, [index, table, dense] if reads else [index, dense, table], index=0)

    def gather(self) -> None:
        self.indexed(reads=True)

    def scatter(self) -> None:
        self.indexed(reads=False)

    def shuffle(self) -> None:
        """From a division by rows to one by columns, in the scratchpads, on as many cores."""
        cores = self.rng.choice((2, 4))
        rows, sticks = cores * self.rng.choice((1, 2, 3)), cores * self.rng.choice((1, 2))
        parts = {
            "rows": (Axis("mb", rows, cores), Axis("out", 64 * sticks, 1)),
            "columns": (Axis("mb", rows, 1), Axis("out", 64 * sticks, cores)),
        }
        order = list(parts)
        self.rng.shuffle(order)
        held = []
        for name in order:
            axes = parts[name]
            slices = self.divided(axes)
            tensor = self.tensor(0, axes, slices, "OUTPUT", "out", scratch=True)
            own = tuple(tuple(zip(("mb", "out"), chosen, strict=True)) for chosen in slices)
            held.append((axes, slices, tensor, replace(tensor, owners=own)))
        self.copy(held[0][2], held[0][0], held[0][1], into=True)
        self.op("shuffle", held[1][0], held[1][1], [held[0][3], held[1][3]])
        self.copy(held[1][2], held[1][0], held[1][1], into=False)
        self.told = f"{rows} x {64 * sticks} from {order[0]} on {cores}"

    def topk(self) -> None:
        length, kept = self.rng.choice((8, 20)), self.rng.choice((1, 2, 4))
        axes = (
            Axis("mb", kept, self.rng.choice([n for n in (1, 2) if kept % n == 0])),
            Axis("x", 128, self.rng.choice((1, 2))),
            Axis("out", length),
        )
        slices = self.divided(axes)
        tensors = []
        for number, (role, label) in enumerate((("OUTPUT", "out"), ("KERNEL", "mb"))):
            own = tuple(axis for axis in axes if axis.label in (label, "x"))
            picked = [i for i, axis in enumerate(axes) if axis.label in (label, "x")]
            tensors.append(
                self.tensor(number, own, tuple(tuple(s[i] for i in picked) for s in slices), role, "x", gaps=False)
            )
        name = self.rng.choice(("topkvalue", "topkindex"))
        self.told = f"{name} {kept} of {length}"
        self.op(name, axes, slices, tensors)

    def loop(self) -> None:
        """Tiles of a longer tensor, one after another: copied in, computed in the scratchpads, copied out."""
        tiles = self.rng.choice((2, 3))
        axes = (Axis("mb", self.rng.choice((2, 4)), self.rng.choice((1, 2))), Axis("out", 64 * self.rng.choice((1, 2))))
        slices = self.divided(axes)
        self.symbolic = True
        inside = [self.tensor(n, axes, slices, "OUTPUT", "out", scratch=True) for n in range(2)]
        behind = (("mb", (tiles - 1) * axes[0].size),)
        outside = []
        for number in range(2):
            plain = Tensor(
                f"Tensor{number}", "OUTPUT", FP16, ("mb", "out"), (Stick("out", 64),), (("mb", 1), ("out", 1)), Component.MEMORY,
                (0,) * len(slices), behind,
            )  # fmt: skip
            outside.append(self.placed(plain, axes, slices))
        self.op("identity", axes, slices, [outside[0], inside[0]])
        self.op("relufwd", axes, slices, inside)
        self.op("identity", axes, slices, [inside[1], outside[1]])
        step = axes[0].size * 128
        moving = tuple(
            replace(node, symbols=tuple((s, replace(a, advance=(step,))) for s, a in node.symbols))
            for node in self.body
        )
        self.nodes = (Loop(tiles, moving),)
        self.told = f"{tiles} tiles of {[(a.label, a.size, a.split) for a in axes]}"

    def bundle(self) -> Bundle:
        names = [Parameter(f"arg_{number}_base_addr") for number in range(len(self.sizes))] if self.symbolic else []
        return Bundle("random", Function(tuple(names), self.nodes or tuple(self.body)), self.ops)


def _moved(tensor: Tensor, starts: tuple[int, ...]) -> Tensor:
    return replace(tensor, starts=starts)


def _named(tensor: Tensor, number: int) -> Tensor:
    return replace(tensor, name=f"Tensor{number}")
