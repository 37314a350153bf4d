// The CPU's operator where the CPU has a kernel for the dtype, and a wider dtype where it has none.
#pragma once

#include <ATen/core/stack.h>

namespace c10 {
class OperatorHandle;
}

namespace torch_spyre {

// Runs an operator on the CPU. If that has no kernel for a dtype ("not implemented for 'Half'"), operands of it are
// taken in a wider one (float32; int64, then float64) and results get the dtypes that torch gives the operator.
// `wide` takes 16-bit floats as float32 from the start.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack& stack, bool wide);

}  // namespace torch_spyre
