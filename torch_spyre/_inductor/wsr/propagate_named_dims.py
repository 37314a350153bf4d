"""The later place of `torch_spyre._inductor.propagate_named_dims`."""

from torch_spyre._inductor.propagate_named_dims import declare_tensor_dim, name_tensor_dims, tensor_dim_names

__all__ = ["declare_tensor_dim", "name_tensor_dims", "tensor_dim_names"]
