// Eager operators: a boxed kernel that finds a compiled program by the call's key and launches it, without Python after
// the first call of a key (D7).
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "operators/plans.h"
#include "operators/scalar_key.h"

namespace c10 {
class OperatorHandle;
}

namespace torch_spyre {

// Compiles a call (in Python); defined in bindings.cpp.
CallPlan compile_call(const std::string& op, const torch::jit::Stack& stack, size_t arguments);

// Schema arguments that are launch scalars, by name; all others are part of the key. False if aten has no such
// overload.
bool register_eager(const std::string& op, const std::map<std::string, ScalarKey>& supplied_at_launch);

struct EagerCounts {
  int64_t launches = 0, compilations = 0, programs = 0;
};
EagerCounts eager_counts();
void limit_eager_plans(size_t per_operator);  // beyond it, the half that was not used for longest is forgotten
void clear_eager_cache();
void forget_eager_constants();  // with their plans, which the next call makes anew

}  // namespace torch_spyre
