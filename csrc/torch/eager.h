// Eager operators: a boxed kernel that finds a compiled program by the call's key and launches it, without Python after
// the first call of a key (D7).
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "layout.h"
#include "record.h"
#include "scalar_key.h"

namespace c10 {
class OperatorHandle;
}

namespace torch_spyre {

// How one result of a call comes to be.
struct ResultPlan {
  int argument = -1;  // >= 0: the call's own tensor (in place, out=), counted over the flattened tensors
  c10::ScalarType dtype = c10::ScalarType::Half;
  std::vector<int64_t> size, stride;
  openspyre::ShapePtr shape;
};

// Where a launch scalar comes from.
struct ScalarPlan {
  enum class Encoding : uint8_t { Float, Sen169, Int };
  int argument = 0;  // position in the operator's arguments
  Encoding encoding = Encoding::Float;
};

// A compiled call. `symbols`: flattened tensor i, or -1 - r for result r.
struct CallPlan {
  bool fallback = false;
  uint64_t program = 0;
  std::vector<int> symbols;
  std::vector<int64_t> compiled_offsets;  // host offset each symbol had when it was compiled
  std::vector<ScalarPlan> scalars;
  std::vector<ResultPlan> results;
  std::vector<int> resize;  // out= tensors that must first be given the size of result r: argument numbers
  size_t pool_bytes = 0;
};

// Compiles a call (in Python); defined in bindings.cpp.
CallPlan compile_call(const std::string& op, const torch::jit::Stack& stack, size_t arguments);

// Schema arguments that are launch scalars, by name; all others are part of the key. False if aten has no such
// overload.
bool register_eager(const std::string& op, const std::map<std::string, ScalarKey>& supplied_at_launch);

// Launches a program on the current stream: one tensor per symbol, the outputs behind the inputs.
void launch_program(uint64_t program, const std::vector<at::Tensor>& tensors, size_t inputs,
                    const std::vector<uint32_t>& scalars, size_t pool_bytes);

struct EagerCounts {
  int64_t launches = 0, compilations = 0, programs = 0;
};
EagerCounts eager_counts();
void limit_eager_plans(size_t per_operator);  // beyond it, the half that was not used for longest is forgotten
void clear_eager_cache();

}  // namespace torch_spyre
