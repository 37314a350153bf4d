// The method that takes the place of torch.Tensor.to.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_spyre {

// A method descriptor that calls `taking_layout` where device_layout= is given, and torch's own otherwise.
pybind11::object tensor_to(pybind11::object torchs_own, pybind11::object taking_layout);

}  // namespace torch_spyre
