// What torch asks of the numbers given to random operators. The first call of a key asks torch itself; later ones,
// which may bring other numbers, are asked here, in torch's words.
#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace torch_spyre {

// `first` is the place of the operator's first argument on the stack.
using DrawCheck = void (*)(const torch::jit::Stack& stack, size_t first);
DrawCheck draw_check(const std::string& op);  // nullptr where nothing can be wrong; "uniform_", "random_.from"

}  // namespace torch_spyre
