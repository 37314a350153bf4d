"""Planning options under their documented names; `with config.patch(sencores=4):`, or as a decorator, changes them for a while.

An option applies to what is compiled while it is in force; programs that are already compiled stay as they are. `sencores`,
`planner` and `core_id_k_fast_emission` have an effect today. The others are accepted and kept so that existing code runs: what they steer does not exist here yet, or (marked
"always") cannot be switched off.
"""

import sys

from openspyre.spec import environment
from torch_spyre.torch_seams import resolve

# Cores that work is divided over, 1 to 32; starts as SENCORES says.
sencores: int = environment.Settings.read().sencores
# How work is divided, as OPENSPYRE_PLANNER says: "documented" is the reference planner's way, the only one so far.
planner: str = environment.Settings.read().planner
# Whether cores next to each other add up a product; starts as SPYRE_CORE_ID_K_FAST_EMISSION says.
core_id_k_fast_emission: bool = environment.Settings.read().core_id_k_fast_emission

# No effect yet: scratchpads.
lx_planning: bool = True
allow_all_ops_in_lx_planning: bool = False
co_optimizing_lx_planning: bool = False
lx_boundary_clones: bool = False
dxp_lx_frac_avail: float = 0.2
layout_solver: str = "greedy"

# No effect yet: choice of layouts, division of work, tiles.
global_stick_optimizer: bool = True
ignore_work_division_hints: bool = False
chunk_large_tensors: bool = False
max_buckets: int = 32
min_default_granularity: int = 4
unroll_loops: bool = True

# Always: temporaries share one pool, and addresses are symbols.
hbm_planning: bool = True
bundle_symbolic_args: bool = True

resolve("torch.utils._config_module.install_config_module")(sys.modules[__name__])
