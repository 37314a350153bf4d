"""Planning options under their documented names; `with config.patch(sencores=4):`, or as a decorator, changes them for a while.

An option applies to what is compiled while it is in force; programs that are already compiled stay as they are. `sencores`,
`core_id_k_fast_emission`, and those about scratchpads and the pool (`planner` among them) have an effect. The others are accepted
and kept so that existing code runs: what they steer does not exist here yet, or (marked "always") cannot be switched off.
"""

import sys

from openspyre.spec import environment
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

# Temporaries that never live together share bytes of the pool (HBM_POOL_PLANNING; hbm_planning is its older name).
hbm_pool_planning: bool = environment.Settings.read().hbm_pool_planning
hbm_planning: bool = True

# Names of dims and all hints are ignored (SPYRE_INDUCTOR_IGNORE_HINTS; the other is its older name).
ignore_hints: bool = environment.Settings.read().ignore_hints
ignore_work_division_hints: bool = False

# No effect yet: joint search of divisions and scratchpads; copies of inputs and outputs are always on.
co_optimizing_lx_planning: bool = False
lx_boundary_clones: bool = False

# No effect yet: choice of layouts, division of work, tiles.
global_stick_optimizer: bool = True
chunk_large_tensors: bool = False
max_buckets: int = 32
min_default_granularity: int = 4
unroll_loops: bool = True

# Always: addresses are symbols.
bundle_symbolic_args: bool = True

_module = sys.modules[__name__]
resolve("torch.utils._config_module.install_config_module")(_module)


class _Config(type(_module)):  # type: ignore[misc]
    """Launches look up their programs by the options in force; they are told when one changes."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        _torch.forget_planning_number()


object.__setattr__(_module, "__class__", _Config)
