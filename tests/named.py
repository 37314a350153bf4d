"""Tensors with named dims, for tests of hints."""

from torch_spyre._inductor.propagate_named_dims import declare_tensor_dim, name_tensor_dims


def name_dims(tensors, names=()):
    """Declares the names with the sizes that the tensors have; tensors behind the last names get none."""
    for tensor, called in zip(tensors, names, strict=False):
        for name, size in zip(called, tensor.shape, strict=True):
            declare_tensor_dim(name, size)
        name_tensor_dims(tensor, called)
