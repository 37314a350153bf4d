// Functions of torch that take device_layout=, without being replaced.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_spyre {

// From now on `function` (a method or function of C, as torch.Tensor.to or torch.empty) calls `taking_layout` where
// device_layout= is given and not None. It stays the object it was: torch, Dynamo and users compare it by identity.
void take_device_layout(const pybind11::object& function, pybind11::object taking_layout);

bool takes_device_layout(const pybind11::object& function);

}  // namespace torch_spyre
