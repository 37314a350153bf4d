// How the steps of a program are run: one function per kind of step, called with everything resolved for a launch.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "program/program.h"

namespace openspyre {

// Cores [first, first + count) of a step. A single core can be run alone unless a reduced loop is split (its slices are
// combined): such a step is always run with all of its cores.
struct CoreRange {
  int first = 0;
  int count = 0;
};

// Loop indices of one core: begin[k] <= i[k] < begin[k] + extent[k].
struct CoreBox {
  std::array<int64_t, kMaxLoops> begin{};
  std::array<int64_t, kMaxLoops> extent{};
};

// Operands in host memory. inputs[i] is where Step::inputs[i] has all loop indices and the lane at 0: address, launch
// offset and Operand::offset are added in. nullptr for operands that have no memory (Iota, Scalar).
struct StepArguments {
  std::array<std::byte*, kMaxOperands> inputs{};
  std::array<std::byte*, kMaxOperands> outputs{};
  std::span<const uint32_t> scalars;  // the launch's, indexed by Operand::symbol
};

int core_count(const Step& step);              // product of the splits
CoreBox core_box(const Step& step, int core);  // mixed radix over the loops in order, first loop fastest
// The core that has a slice. All other functions here name cores by their slice.
inline int core_of(const Step& step, int slice) {
  return step.cores.empty() ? slice : step.cores[static_cast<size_t>(slice)];
}
inline CoreRange all_cores(const Step& step) { return {0, core_count(step)}; }

// Smallest and largest element offset (inclusive) an operand touches, relative to its symbol's address plus the
// launch's offset; padding lanes count. Of one core or, with core < 0, of all.
struct ElementSpan {
  int64_t first = 0, last = -1;  // empty for operands without memory
};
ElementSpan operand_span(const Step& step, const Operand& operand, int core = -1);

bool is_table(const Step& step, const Operand& operand);  // what an index chooses from

// No card reaches so far. Whether an operand (or an Iota's values) would: all other arithmetic on places can rely on
// it.
constexpr int64_t kFarthestElement = int64_t{1} << 48;
bool reaches_too_far(const Step& step, const Operand& operand);

// Each spreads its cores over the worker pool and returns when all are done. Validated steps only.
void run_contract(const Step& step, const StepArguments& arguments, CoreRange cores);

}  // namespace openspyre
