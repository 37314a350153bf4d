"""Changes divisions so that more tensors can stay in the scratchpads, as CO_OPTIMIZING_LX_PLANNING of the documents does."""

from __future__ import annotations

from dataclasses import dataclass

from openspyre.compiler.ir import Program
from openspyre.compiler.passes.plan_by_clock import divided
from openspyre.compiler.timed.chains import divisions
from openspyre.compiler.timed.co_optimised import co_optimised, co_optimised_over_all
from openspyre.compiler.timed.priced_op import Bounds
from openspyre.spec.machine import SPYRE, Machine


@dataclass(frozen=True, slots=True)
class CoOptimise:
    """`all_divisions`: every legal division is tried, as the documents do with their exact solver."""

    machine: Machine = SPYRE
    all_divisions: bool = False
    relayout: bool = True
    all_ops: bool = False
    k_fast: bool = True

    def run(self, program: Program) -> Program:
        search = co_optimised_over_all if self.all_divisions else co_optimised
        bounds = Bounds(self.machine, self.k_fast)
        found = divisions(program, bounds, search, relayout=self.relayout, all_ops=self.all_ops)
        return divided(program, found)
