"""How programs are planned: what switches and `config` say about scratchpads and the pool, handed down as one value."""

from dataclasses import dataclass

PLANNERS = ("timed", "documented")  # what is fastest, or what the reference's front end would do
LAYOUT_SOLVERS = ("greedy", "firstfit", "bestfit", "simulated_annealing", "exact", "cpsat")


@dataclass(frozen=True, slots=True)
class Planning:
    """The defaults of the switches."""

    strategy: str = "timed"  # one of PLANNERS

    scratchpads: bool = True  # tensors may stay in the cores' scratchpads
    solver: str = "greedy"  # which of LAYOUT_SOLVERS finds their places
    relayout: bool = True  # slices may go from core to core where a consumer divides a tensor differently
    all_ops: bool = False  # results of any op may stay, not only of those that the documents list
    co_optimise: bool = False  # documented: divisions are changed so that more can stay; timed always looks for such
    k_fast: bool = True  # cores next to each other add up a product
    whole_layouts: bool = True  # layouts are chosen for the program as a whole
    drop_copies: bool = True  # copies that need not be are not made
    ignore_hints: bool = False  # names of dims and hints are dropped
    reduction_tiling: bool = True  # dims that are reduced may be tiled
    span_tiling: bool = False  # ops of which a core would reach too far are tiled
    clock_tiling: bool = (
        True  # timed: chains whose tensors do not fit into scratchpads are tiled where the clock says that it pays
    )
    pool: bool = True  # temporaries that never live together share bytes of the pool


PLANNING = Planning()
