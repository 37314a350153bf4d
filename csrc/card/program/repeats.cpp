#include "program/repeats.h"

#include <algorithm>

#include "program/step_runner.h"

namespace openspyre {
namespace {

template <typename Visit>
void each_operand(const Step& step, Visit&& visit) {
  for (size_t i = 0; i < step.inputs.size(); ++i) visit(step.inputs[i], "input " + std::to_string(i));
  for (size_t i = 0; i < step.outputs.size(); ++i) visit(step.outputs[i], "output " + std::to_string(i));
}

void move_to_end(Operand& operand, std::span<const int64_t> counts, bool highest) {
  for (size_t k = 0; k < operand.advance.size(); ++k)
    if ((operand.advance[k] > 0) == highest) operand.offset += operand.advance[k] * (counts[k] - 1);
  operand.advance.clear();
}

}  // namespace

std::vector<std::vector<int64_t>> counts_around(const Program& program) {
  std::vector<std::vector<int64_t>> counts(program.steps.size());
  for (const Repeat& repeat : program.repeats)
    for (size_t i = repeat.first; i < repeat.end; ++i) counts[i].push_back(repeat.count);
  return counts;
}

bool moves(const Step& step) {
  bool any = false;
  each_operand(step, [&](const Operand& operand, const std::string&) { any |= !operand.advance.empty(); });
  return any;
}

std::array<Step, 2> farthest(const Step& step, std::span<const int64_t> counts) {
  std::array<Step, 2> ends = {step, step};
  for (size_t highest = 0; highest < 2; ++highest)
    for (auto* operands : {&ends[highest].inputs, &ends[highest].outputs})
      for (Operand& operand : *operands) move_to_end(operand, counts, highest == 1);
  return ends;
}

std::vector<std::string> check_repeats(const Program& program) {
  std::vector<const Repeat*> open;
  size_t before = 0;
  for (const Repeat& repeat : program.repeats) {
    while (!open.empty() && open.back()->end <= repeat.first) open.pop_back();
    if (repeat.first >= repeat.end || repeat.end > program.steps.size() || repeat.first < before ||
        (!open.empty() && repeat.end > open.back()->end))
      return {"its repeats are neither apart nor in each other"};
    before = repeat.first;
    open.push_back(&repeat);
    if (open.size() > kMaxDepth) return {"more than " + std::to_string(kMaxDepth) + " repeats in each other"};
    int64_t iterations = 1;
    for (const Repeat* around : open) {
      if (around->count < 1 || around->count > kMaxIterations / iterations)
        return {"repeats must run their body at least once, and at most " + std::to_string(kMaxIterations) + " times"};
      iterations *= around->count;
    }
  }
  return {};
}

std::vector<std::string> check_advances(const Step& step, std::span<const int64_t> counts) {
  std::vector<std::string> problems;
  each_operand(step, [&](const Operand& operand, const std::string& where) {
    if (operand.advance.size() > counts.size()) {
      problems.push_back(where + " moves with " + std::to_string(operand.advance.size()) + " repeats, there are " +
                         std::to_string(counts.size()) + " around the step");
      return;
    }
    if (!operand.advance.empty() && !has_memory(operand.kind))
      problems.push_back(where + " has no memory and cannot move");
    __int128 reach = 0;
    for (size_t k = 0; k < operand.advance.size(); ++k) {
      const __int128 far = static_cast<__int128>(operand.advance[k]) * (counts[k] - 1);
      reach += far < 0 ? -far : far;
    }
    if (reach >= kFarthestElement) problems.push_back(where + " moves beyond any card");
  });
  return problems;
}

}  // namespace openspyre
