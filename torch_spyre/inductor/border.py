"""The border to Inductor: every name of its that we use, resolved through the seams' table and nowhere else."""

from torch_spyre.torch_seams import resolve

ir = resolve("torch._inductor.ir")
V = resolve("torch._inductor.virtualized.V")
PythonWrapperCodegen = resolve("torch._inductor.codegen.wrapper.PythonWrapperCodegen")
SubgraphPythonWrapperCodegen = resolve("torch._inductor.codegen.wrapper.SubgraphPythonWrapperCodegen")
BaseScheduling = resolve("torch._inductor.scheduler.BaseScheduling")
BackendFeature = resolve("torch._inductor.codegen.common.BackendFeature")
DeviceOpOverrides = resolve("torch._inductor.codegen.common.DeviceOpOverrides")
register_backend_for_device = resolve("torch._inductor.codegen.common.register_backend_for_device")
register_device_op_overrides = resolve("torch._inductor.codegen.common.register_device_op_overrides")
CustomGraphModulePass = resolve("torch._inductor.custom_graph_pass.CustomGraphModulePass")
register_interface_for_device = resolve("torch._dynamo.device_interface.register_interface_for_device")
OrderedSet = resolve("torch.utils._ordered_set.OrderedSet")
PythonPrinter = resolve("torch.utils._sympy.printers.PythonPrinter")
decompositions = resolve("torch._inductor.decomposition.decompositions")
fast_random_decomps = resolve("torch._inductor.decomposition.fast_random_decomps")
has_side_effect = resolve("torch.fx.node.has_side_effect")
OpOverload = resolve("torch._ops.OpOverload")
tree_leaves = resolve("torch.utils._pytree.tree_leaves")
tree_map_only = resolve("torch.utils._pytree.tree_map_only")
make_wrapper_subclass = resolve("torch.Tensor._make_wrapper_subclass")
