"""Bundles in the documented form, made by hand: what a front end of somebody else would write. For tests and the demo."""

from __future__ import annotations

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Address, Execute, Function, Parameter
from openspyre.artifact.superdsc import Axis, Component, Constant, Stick, SuperDsc, Tensor
from openspyre.spec.formats import DataFormats

FP16 = DataFormats.SEN169_FP16


def softmax(rows: int, columns: int, cores: int) -> Bundle:
    """Six ops over a tensor divided by rows: the middle ones live in the scratchpads alone."""
    return Maker(rows, columns, cores).softmax()


class Maker:
    def __init__(self, rows: int, columns: int, cores: int) -> None:
        self.axes = (Axis("mb", rows, cores), Axis("out", columns, 1))
        self.slices = tuple((core, 0) for core in range(cores))
        self.cores = cores
        self.bytes_per_core = rows // cores * (columns // 64) * 128
        self.ops: dict[str, SuperDsc] = {}
        self.body: list[Execute] = []
        self.next_symbol = -1

    def tensor(self, number: int, place: int | None, *, one_lane: bool = False) -> Tensor:
        """`place`: a byte of the scratchpads; None: symbols, one for each core."""
        starts = (place or 0,) * self.cores if place is not None else self._symbols()
        return Tensor(
            name=f"Tensor{number}",
            role="OUTPUT",
            format=FP16,
            order=("mb", "out"),
            sticks=(Stick("out", 64),),
            scales=(("mb", 1), ("out", -2 if one_lane else 1)),
            component=Component.MEMORY if place is None else Component.SCRATCHPAD,
            starts=starts,
        )

    def _symbols(self) -> tuple[int, ...]:
        found = tuple(self.next_symbol - core for core in range(self.cores))
        self.next_symbol -= self.cores
        return found

    def op(
        self,
        name: str,
        tensors: list[Tensor],
        argument: int | None = None,
        constants: tuple[Constant, ...] = (),
        accumulates: bool = False,
    ) -> None:
        """`argument`: the launch's, for the one tensor of the op that lies in memory."""
        number = len(self.ops)
        listed = range(len(tensors)) if accumulates else range(len(tensors) - 1)
        file = f"sdsc_{number}.json"
        self.ops[file] = SuperDsc(
            name=f"{number}_{name}",
            op=name,
            unit="sfp",
            format=FP16,
            axes=self.axes,
            slices=self.slices,
            tensors=tuple(tensors),
            inputs=tuple(listed),
            outputs=(len(tensors) - 1,),
            constants=constants,
        )
        rows_per_core = self.axes[0].per_core
        symbols = [symbol for tensor in tensors for symbol in tensor.starts if symbol < 0]
        places = tuple((symbol, Address(argument, core * rows_per_core * 128)) for core, symbol in enumerate(symbols))
        self.body.append(Execute(file, places, 0))

    def softmax(self) -> Bundle:
        row, x = 0, 4096  # bytes in the scratchpads: one value per row, and the rows
        self.op("identity", [self.tensor(0, None), self.tensor(1, x)], argument=0)
        self.op("max", [self.tensor(0, x), self.tensor(1, row, one_lane=True)], accumulates=True)
        self.op("sub", [self.tensor(0, x), self.tensor(1, row, one_lane=True), self.tensor(2, x)])
        self.op("exp", [self.tensor(0, x), self.tensor(1, x)])
        self.op("sum", [self.tensor(0, x), self.tensor(1, row, one_lane=True)], accumulates=True)
        self.op("realdiv", [self.tensor(0, x), self.tensor(1, row, one_lane=True), self.tensor(2, None)], argument=1)
        parameters = (Parameter("arg_0_base_addr"), Parameter("arg_1_base_addr"))
        return Bundle("softmax", Function(parameters, tuple(self.body)), self.ops)
