// Runs of instructions that one kernel executes: an opcode, perhaps rounded, perhaps another one on its value, perhaps
// rounded too. The value in between must not be wanted elsewhere. No bit of a result depends on it. Nothing is fused
// behind a long function: the chain of instructions that depend on each other would be longer than processors overlap.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "program.h"
#include "vector_kernels.h"

namespace openspyre {

// An instruction on values: every write to a register makes a new one. Reads beyond the opcode's own repeat the first.
struct ValueInstruction {
  Op op;
  std::array<size_t, 3> reads;
  size_t target;
};

struct FusedInstruction {
  MapKernel kernel;
  MapStoreKernel sen169_store;  // or nullptr
  std::array<size_t, 3> reads;
  size_t target;
};

// `uses` counts the readers of each value, one more for a result of the code.
std::vector<FusedInstruction> fuse(std::span<const ValueInstruction> code, std::span<const int> uses,
                                   const VectorKernels& kernels);

}  // namespace openspyre
