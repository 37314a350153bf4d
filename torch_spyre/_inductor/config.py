"""Planning options under their documented names; `with config.patch(sencores=4):`, or as a decorator, changes them for a while.

An option holds for all calls while it is in force, those of graphs that were compiled with others among them: each set of options
has its own programs. As in all of torch's configs, what is set is set for one thread.
"""

import sys
import warnings

from openspyre.spec import environment, errors, retired
from torch_spyre import _torch
from torch_spyre.torch_seams import resolve

# Cores that work is divided over, 1 to 32; starts as SENCORES says.
sencores: int = environment.Settings.read().sencores
# Whether cores next to each other add up a product; starts as SPYRE_CORE_ID_K_FAST_EMISSION says.
core_id_k_fast_emission: bool = environment.Settings.read().core_id_k_fast_emission

# "timed": plans that run fastest; "documented": as the reference's front end plans. Starts as OPENSPYRE_PLANNER says.
planner: str = environment.Settings.read().planner

# Scratchpads: whether tensors stay in them (LX_PLANNING), the fraction that the back end keeps (DXP_LX_FRAC_AVAIL), what finds places
# (LAYOUT_SOLVER), copies from core to core (SPYRE_LX_PLANNER_RELAYOUT), and whether results of any op may stay.
lx_planning: bool = environment.Settings.read().lx_planning
dxp_lx_frac_avail: float = environment.Settings.read().lx_reserved
layout_solver: str = environment.Settings.read().layout_solver
lx_planner_relayout: bool = environment.Settings.read().lx_relayout
allow_all_ops_in_lx_planning: bool = False
# Whether the planner "documented" changes divisions so that more stays (CO_OPTIMIZING_LX_PLANNING); "timed" does so by itself.
co_optimizing_lx_planning: bool = environment.Settings.read().co_optimizing_lx_planning

# Temporaries that never live together share bytes of the pool (HBM_POOL_PLANNING; hbm_planning is its older name).
hbm_pool_planning: bool = environment.Settings.read().hbm_pool_planning
hbm_planning: bool = True

# Names of dims and all hints are ignored (SPYRE_INDUCTOR_IGNORE_HINTS; the other is its older name).
ignore_hints: bool = environment.Settings.read().ignore_hints
ignore_work_division_hints: bool = False
# Whether hints may tile a dim that is reduced (SPYRE_INDUCTOR_ENABLE_REDUCTION_TILING); whether ops of which one core would reach too
# far into a tensor are left to be cut into parts instead of being tiled (SPYRE_INDUCTOR_IGNORE_SPAN_OVERFLOW_HINTS).
enable_reduction_tiling: bool = environment.Settings.read().reduction_tiling
ignore_span_overflow_hints: bool = environment.Settings.read().ignore_span_overflow_hints
# Whether the planner "timed" tiles chains whose tensors do not fit into the scratchpads (OPENSPYRE_CLOCK_TILING).
clock_tiling: bool = environment.Settings.read().clock_tiling

# Layouts are chosen for the whole program (GLOBAL_STICK_OPTIMIZER), or each by itself; copies are all made (DISABLE_COPY_OPT).
global_stick_optimizer: bool = environment.Settings.read().global_stick_optimizer
disable_copy_opt: bool = environment.Settings.read().disable_copy_opt

# A dim that changes and whose largest size is known (torch._dynamo.mark_dynamic(x, 0, min=, max=)) is padded to at most so many sizes
# (MAX_BUCKETS), multiples of min; without min of a number that is no smaller than this (MIN_DEFAULT_GRANULARITY).
max_buckets: int = environment.Settings.read().max_buckets
min_default_granularity: int = environment.Settings.read().min_default_granularity

# No options any more: that is how it always is (openspyre/spec/retired.py says why), and whoever sets one is told.
lx_boundary_clones: bool = True
chunk_large_tensors: bool = True
unroll_loops: bool = False
bundle_symbolic_args: bool = True

_module = sys.modules[__name__]
resolve("torch.utils._config_module.install_config_module")(_module)


class _Config(type(_module)):  # type: ignore[misc]
    """Launches look up their programs by the options in force; they are told when one changes."""

    always = {name: getattr(_module, name) for name in retired.OPTIONS}

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if self.always.get(name, value) != value:
            warnings.warn(f"config.{name}={value!r}: {retired.OPTIONS[name].note}", errors.OptionWarning, stacklevel=3)
        _torch.forget_planning_number()


object.__setattr__(_module, "__class__", _Config)
