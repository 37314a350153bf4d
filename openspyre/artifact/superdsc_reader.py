"""Reads `sdsc_<i>.json` of whichever front end into a `SuperDsc`. Unknown fields are noted, wrong ones are problems."""

from __future__ import annotations

import re
from math import prod

from openspyre.artifact.extensions.description import Description
from openspyre.artifact.extensions.record import EXTENSION
from openspyre.artifact.extensions.record_reader import parse_extension
from openspyre.artifact.fields import MAX_INT, Fields, Problems, brief
from openspyre.artifact.json_types import Json
from openspyre.artifact.provenance_reader import read_provenance
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
from openspyre.spec.formats import DataFormats
from openspyre.spec.machine import SPYRE

_TENSOR = re.compile(r"(\w+)-idx(\d{1,4})")
_KEY = re.compile(r"\[(\d{1,4}), 0, 0\]")
_DIM = re.compile(r"([a-z]{1,8})_")
MAX_TENSORS = 64


def read_superdsc(tree: Json, problems: Problems) -> SuperDsc | None:
    """The op a file states; None, with problems that name fields, if it states none."""
    if not isinstance(tree, dict) or len(tree) != 1:
        problems.add("", tree, "an object with one entry, the op's name")
        return None
    ((name, body),) = tree.items()
    top = Fields(body, brief(name)[1:-1], problems)
    found = _Reader(name, top, problems).read()
    return None if problems.found else found


class _Reader:
    def __init__(self, name: str, top: Fields, problems: Problems) -> None:
        self.name, self.top, self.problems = name, top, problems
        dscs = list(top.inners("dscs_", most=1))
        self.dsc = Fields({}, "dscs_", problems)
        if len(dscs) == 1 and len(dscs[0].values) == 1:
            ((op, _),) = dscs[0].values.items()
            self.dsc = dscs[0].inner(op)
        else:
            problems.add(f"{top.path}.dscs_", top.values.get("dscs_"), "a list of one object with one op")

    def read(self) -> SuperDsc | None:
        axes = self.axes()
        if self.problems.found:
            return None
        slices = self.slices(axes)
        roles = self.roles(axes)
        nodes = list(self.dsc.inners("scheduleTree_", MAX_TENSORS))
        labels = list(self.dsc.inners("labeledDs_", MAX_TENSORS))
        if len(nodes) != len(labels) or not nodes:
            self.problems.say(
                f"{self.dsc.path}.scheduleTree_", f"{len(nodes)} nodes", f"one per labeledDs_ ({len(labels)})"
            )
        if self.problems.found:
            return None
        tensors = tuple(
            self.tensor(number, node, label, axes, roles, len(slices))
            for number, (node, label) in enumerate(zip(nodes, labels, strict=True))
        )
        op = next(self.dsc.inners("computeOp_", 1), Fields({}, "computeOp_", self.problems))
        form = self.format_of(op.inner("attributes_"))
        names = {tensor.name: number for number, tensor in enumerate(tensors)}
        index = (
            self.references(op, "indirectAccessIndexLabeledDs", names)
            if "indirectAccessIndexLabeledDs" in op.values
            else ()
        )
        return SuperDsc(
            name=self.name,
            op=op.text("opFuncName"),
            unit=op.choice("exUnit", ["sfp", "pt"]),
            format=form,
            axes=axes,
            slices=slices,
            tensors=tensors,
            inputs=self.references(op, "inputLabeledDs", names),
            outputs=self.references(op, "outputLabeledDs", names),
            index=index[0] if index else None,
            constants=self.constants(),
            masks=self.masks(axes),
            provenance=read_provenance(self.top.values.get("debug_handle_")),
            extension=self.extension(),
        )

    def extension(self) -> Description | None:
        if EXTENSION not in self.top.values:
            return None
        return parse_extension(self.top.inner(EXTENSION))

    # --- the op as a whole
    def axes(self) -> tuple[Axis, ...]:
        sizes = self.dsc.inner("N_")
        splits = self.top.inner("numWkSlicesPerDim_")
        found = []
        for key in sizes.values:
            match = _DIM.fullmatch(key)
            if key in ("name_", "paddingSizes_") or match is None:
                continue
            size = sizes.integer(key, 1, 1 << 40)
            split = splits.integer(match[1], 1, SPYRE.cores) if match[1] in splits.values else 1
            if size % split:
                self.problems.say(f"{splits.path}.{match[1]}", str(split), f"a divisor of the size {size}")
            found.append(Axis(match[1], size, split))
        for label in splits.values.keys() - {axis.label for axis in found}:
            self.problems.say(f"{splits.path}.{label}", "a dim", f"one of N_: {', '.join(a.label for a in found)}")
        if not found:
            self.problems.say(sizes.path, "no dims", "at least one, as out_: 64")
        self.per_core(found)
        return tuple(found)

    def per_core(self, axes: list[Axis]) -> None:
        stages = self.dsc.inner("dataStageParam_").inner("0").inner("ss_")
        for axis in axes:
            key = f"{axis.label}_"
            if key in stages.values and stages.integer(key, 1) != axis.per_core:
                self.problems.say(f"{stages.path}.{key}", str(stages.values[key]), f"N_ / split = {axis.per_core}")

    def slices(self, axes: tuple[Axis, ...]) -> tuple[tuple[int, ...], ...]:
        cores = self.top.integer("numCoresUsed_", 1, SPYRE.cores)
        table = self.top.inner("coreIdToWkSlice_")
        if set(table.values) != {str(core) for core in range(cores)}:
            self.problems.say(table.path, f"cores {brief(sorted(table.values))}", f"cores 0 to {cores - 1}")
            return ()
        product = prod(axis.split for axis in axes)
        if cores % product:
            self.problems.say(
                f"{self.top.path}.numCoresUsed_", str(cores), f"a multiple of all splits together ({product})"
            )
        found = []
        for core in range(cores):
            entry = table.inner(str(core))
            found.append(
                tuple(
                    entry.integer(axis.label, 0, axis.split - 1) if axis.label in entry.values or axis.split > 1 else 0
                    for axis in axes
                )
            )
        if len(set(found)) != product and not self.problems.found:
            self.problems.say(table.path, f"{len(set(found))} different slices", f"each of {product} slices computed")
        return tuple(found)

    def roles(self, axes: tuple[Axis, ...]) -> dict[str, tuple[tuple[str, ...], tuple[Stick, ...]]]:
        info = self.dsc.inner("primaryDsInfo_")
        labels = {axis.label for axis in axes}
        found = {}
        for role in info.values:
            entry = info.inner(role)
            order, sticks, sizes = (
                entry.texts("layoutDimOrder_"),
                entry.texts("stickDimOrder_"),
                entry.integers("stickSize_", 1),
            )
            if not set(order) | set(sticks) <= labels:
                self.problems.add(
                    f"{entry.path}.layoutDimOrder_", list(order), f"dims of N_: {', '.join(sorted(labels))}"
                )
            if (
                len(set(order)) != len(order)
                or len(sizes) != len(sticks)
                or not sticks
                or not set(sticks) <= set(order)
            ):
                self.problems.add(
                    f"{entry.path}.stickDimOrder_",
                    list(sticks),
                    "dims of its layoutDimOrder_, each with its stickSize_",
                )
                continue
            found[role] = (order, tuple(Stick(label, size) for label, size in zip(sticks, sizes, strict=True)))
        return found

    def masks(self, axes: tuple[Axis, ...]) -> tuple[Mask, ...]:
        entries = self.dsc.inner("coordinateMasking_")
        found = []
        for label, ranges in entries.values.items():
            axis = next((axis for axis in axes if axis.label == label), None)
            match ranges:
                case [[int(valid), int(padding)]] if axis and valid >= 0 and valid + padding == axis.size:
                    found.append(Mask(label, valid))
                case _:
                    whole = "" if axis is None else f", together {axis.size}"
                    self.problems.add(f"{entries.path}.{label}", ranges, f"[[valid, padding]]{whole}")
        return tuple(found)

    def constants(self) -> tuple[Constant, ...]:
        found = self.dsc.values.get("constantInfo_")
        if found == "{}" or found == {} or found is None:
            return ()
        table = self.dsc.inner("constantInfo_")
        constants = []
        for key in table.values:
            entry = table.inner(key)
            data = entry.inner("data_").inner("data_")
            match data.values:
                case {"[0, 0, 0]": [int(bits), *_]} if 0 <= bits < 1 << 32:
                    constants.append(Constant(entry.text("name_"), self.format_of(entry), bits))
                case _:
                    self.problems.add(data.path, data.values, '{"[0, 0, 0]": [bits]}')
        return tuple(constants)

    def format_of(self, entry: Fields) -> DataFormats:
        return DataFormats[entry.choice("dataFormat_", [form.name for form in DataFormats])]

    def references(self, op: Fields, field: str, names: dict[str, int]) -> tuple[int, ...]:
        found = []
        for text in op.texts(field):
            match = _TENSOR.fullmatch(text)
            if match is None or match[1] not in names:
                self.problems.add(f"{op.path}.{field}", text, "a tensor of labeledDs_, as Tensor0-idx0")
            else:
                found.append(names[match[1]])
        return tuple(found)

    # --- one tensor
    def tensor(
        self,
        number: int,
        node: Fields,
        label: Fields,
        axes: tuple[Axis, ...],
        roles: dict[str, tuple[tuple[str, ...], tuple[Stick, ...]]],
        cores: int,
    ) -> Tensor:
        role = label.choice("dsType_", list(roles) or ["OUTPUT"])
        role_order, sticks = roles.get(role, ((), (Stick("out", 64),)))
        form = self.format_of(label)
        scales = label.integers("scale_", -2, len(role_order))
        order = node.texts("layoutDimOrder_")
        if sorted(order) != sorted(role_order):
            self.problems.add(
                f"{node.path}.layoutDimOrder_", list(order), f"the dims of {role}: {', '.join(role_order)}"
            )
        if node.integer("ldsIdx_", 0) != number or label.integer("ldsIdx_", 0) != number:
            self.problems.say(f"{node.path}.ldsIdx_", str(node.values.get("ldsIdx_")), str(number))
        if form.elems_per_stick() < 1 or prod(stick.size for stick in sticks) != form.elems_per_stick():
            sizes = [stick.size for stick in sticks]
            self.problems.say(
                f"{label.path}.dataFormat_",
                f"{form.name} in sticks of {sizes}",
                "a format with as many elements in 128 bytes",
            )
        if "wordLength" in label.values and form.elems_per_stick() > 0:
            self.expect_integer(label, "wordLength", 128 // form.elems_per_stick())
        component = Component(node.choice("component_", list(Component)))
        indirection = Indirection(node.choice("indirectAllocType_", list(Indirection)))
        return Tensor(
            name=label.text("dsName_"),
            role=role,
            format=form,
            order=order,
            sticks=sticks,
            scales=tuple(zip(role_order, scales, strict=False)),
            component=component,
            starts=self.starts(node, component, cores),
            gaps=self.gaps(node, order),
            indirection=indirection,
            indexed=self.indexed(node, order) if indirection is Indirection.VALUE else None,
            owners=self.owners(node, axes, cores),
        )

    def expect_integer(self, fields: Fields, name: str, wanted: int) -> None:
        if fields.integer(name, 0) != wanted:
            self.problems.say(f"{fields.path}.{name}", str(fields.values.get(name)), str(wanted))

    def starts(self, node: Fields, component: Component, cores: int) -> tuple[int, ...]:
        table = node.inner("startAddressCoreCorelet_").inner("data_")
        found: dict[int, int] = {}
        for key, value in table.values.items():
            match = _KEY.fullmatch(key)
            if match is None or not isinstance(value, str) or not re.fullmatch(r"-?\d{1,19}", value):
                self.problems.add(f"{table.path}.{brief(key)[1:-1]}", value, 'a number as text at "[core, 0, 0]"')
                return (0,) * cores
            found[int(match[1])] = int(value)
        if set(found) != set(range(cores)):
            self.problems.say(table.path, f"addresses of {len(found)} cores", f"one for each of {cores}")
            return (0,) * cores
        limit = SPYRE.scratchpad_bytes_per_core if component is Component.SCRATCHPAD else MAX_INT
        for core, start in sorted(found.items()):
            if start >= limit or (start < 0 and component is Component.SCRATCHPAD) or (start >= 0 and start % 128):
                where = "in a scratchpad" if component is Component.SCRATCHPAD else "of memory, or a symbol"
                self.problems.say(f"{table.path}.[{core}, 0, 0]", str(start), f"the first byte of a stick {where}")
                return (0,) * cores
        return tuple(found[core] for core in range(cores))

    def gaps(self, node: Fields, order: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
        if "backGapCore_" not in node.values:
            return ()
        table = node.inner("backGapCore_")
        found = []
        for label in table.values:
            entry = table.inner(label)
            values = {str(value) for value in entry.values.values()}
            text = next(iter(values), "")
            if label not in order or len(values) != 1 or not re.fullmatch(r"\d{1,15}", text):
                self.problems.add(f"{table.path}.{label}", entry.values, "one gap of elements, the same for all cores")
            else:
                found.append((label, int(text)))
        return tuple(found)

    def indexed(self, node: Fields, order: tuple[str, ...]) -> str | None:
        sizes = node.integers("maxDimSizes_", -1, len(order))
        chosen = [label for label, size in zip(order, sizes, strict=False) if size == 1]
        if len(chosen) != 1:
            self.problems.add(f"{node.path}.maxDimSizes_", list(sizes), "1 at the one dim that the index chooses along")
            return None
        return chosen[0]

    def owners(self, node: Fields, axes: tuple[Axis, ...], cores: int) -> tuple[tuple[tuple[str, int], ...], ...]:
        coordinates = node.values.get("coordinates_")
        table = coordinates.get("coreIdToWkSlice_") if isinstance(coordinates, dict) else None
        if not table:
            return ()
        fields = node.inner("coordinates_").inner("coreIdToWkSlice_")
        if set(fields.values) != {str(core) for core in range(cores)}:
            self.problems.say(fields.path, f"{len(fields.values)} cores", f"one entry for each of {cores}")
            return ()
        sizes = {axis.label: axis.size for axis in axes}
        return tuple(
            tuple((label, entry.integer(label, 0, sizes[label])) for label in entry.values if label in sizes)
            for entry in (fields.inner(str(core)) for core in range(cores))
        )
