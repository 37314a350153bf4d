// Counted loops around the steps of a program: in which order steps run, and how far operands move.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "program/program.h"

namespace openspyre {

// Elements that the repeats around a step have moved an operand by.
inline int64_t moved_by(const Operand& operand, std::span<const int64_t> iterations) {
  int64_t elements = 0;
  for (size_t k = 0; k < operand.advance.size(); ++k) elements += operand.advance[k] * iterations[k];
  return elements;
}

// Calls run(number of a step, iterations of the repeats around it) in the order of execution, until it says false.
template <typename Run>
void each_execution(const Program& program, Run&& run) {
  const std::vector<Repeat>& repeats = program.repeats;
  std::array<size_t, kMaxDepth> open;
  std::array<int64_t, kMaxDepth> iteration;
  size_t depth = 0, next = 0;
  for (size_t step = 0; step < program.steps.size();) {
    for (; next < repeats.size() && repeats[next].first == step; ++next, ++depth)
      open[depth] = next, iteration[depth] = 0;
    if (!run(step, std::span<const int64_t>(iteration.data(), depth))) return;
    ++step;
    for (; depth > 0 && repeats[open[depth - 1]].end == step; --depth) {
      if (++iteration[depth - 1] == repeats[open[depth - 1]].count) continue;
      step = repeats[open[depth - 1]].first;
      next = open[depth - 1] + 1;
      break;
    }
  }
}

// Counts of the repeats around each step, outermost first.
std::vector<std::vector<int64_t>> counts_around(const Program& program);

// The step with every operand where iterations have it lowest, and where they have it highest.
std::array<Step, 2> farthest(const Step& step, std::span<const int64_t> counts);
bool moves(const Step& step);

// Everything wrong with a program's repeats, and with how operands move in them.
std::vector<std::string> check_repeats(const Program& program);
std::vector<std::string> check_advances(const Step& step, std::span<const int64_t> counts);

}  // namespace openspyre
