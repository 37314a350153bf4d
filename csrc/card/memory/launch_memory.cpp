#include "memory/launch_memory.h"

#include <algorithm>

#include "memory/scratchpad.h"
#include "program/repeats.h"

namespace openspyre {
namespace {

bool in_scratchpad(const Operand& operand) { return has_memory(operand.kind) && operand.space == Space::Scratchpad; }

void check_reach(const Card& card, const Step& step, const Operand& operand, const LaunchArguments& launch) {
  const auto symbol = static_cast<size_t>(operand.symbol);
  const int64_t shift = (launch.offsets.empty() ? 0 : launch.offsets[symbol]) + moved_by(operand, launch.iterations);
  const int64_t itemsize = device_itemsize(operand.element.format);
  const ElementSpan span = operand_span(step, operand);
  if (span.last < span.first) return;
  const auto at = [&](int64_t element) {
    return launch.addresses[symbol] + static_cast<uint64_t>((shift + element) * itemsize);
  };
  (void)card.translate(at(span.first));
  (void)card.translate(at(span.last + 1) - 1);
}

std::byte* resolve(Card& card, const Step& step, const Operand& operand, const LaunchArguments& launch, int core) {
  if (!has_memory(operand.kind)) return nullptr;
  if (operand.space == Space::Memory) check_reach(card, step, operand, launch);
  return locate(card, step, operand, launch, core);
}

}  // namespace

std::byte* locate_tensor(Card& card, const Step& step, const Operand& operand, const LaunchArguments& launch,
                         int core) {
  if (!has_memory(operand.kind)) return nullptr;
  if (operand.space == Space::Scratchpad)
    return card.scratchpads().of(operand.owner >= 0 ? operand.owner : core_of(step, core));
  return card.translate(launch.addresses[static_cast<size_t>(operand.symbol)]);
}

std::byte* locate(Card& card, const Step& step, const Operand& operand, const LaunchArguments& launch, int core) {
  std::byte* tensor = locate_tensor(card, step, operand, launch, core);
  if (!tensor) return nullptr;
  int64_t first = operand.offset + moved_by(operand, launch.iterations);
  if (operand.space == Space::Scratchpad) {
    const CoreBox box = core_box(step, core);
    for (size_t k = 0; k < step.loops.size(); ++k) first -= box.begin[k] * operand.stride[k];
  } else if (!launch.offsets.empty()) {
    first += launch.offsets[static_cast<size_t>(operand.symbol)];
  }
  return tensor + first * device_itemsize(operand.element.format);
}

StepArguments resolve(Card& card, const Step& step, const LaunchArguments& launch, int core) {
  StepArguments arguments;
  for (size_t i = 0; i < step.inputs.size(); ++i)
    arguments.inputs[i] = resolve(card, step, step.inputs[i], launch, core);
  for (size_t i = 0; i < step.outputs.size(); ++i)
    arguments.outputs[i] = resolve(card, step, step.outputs[i], launch, core);
  arguments.scalars = launch.scalars;
  return arguments;
}

bool uses_scratchpad(const Step& step) {
  return std::any_of(step.inputs.begin(), step.inputs.end(), in_scratchpad) ||
         std::any_of(step.outputs.begin(), step.outputs.end(), in_scratchpad);
}

int64_t scratchpad_reach(const Step& step) {
  int64_t bytes = 0;
  for (const auto* operands : {&step.inputs, &step.outputs})
    for (const Operand& operand : *operands)
      if (in_scratchpad(operand))  // core 0 counts as every core does
        bytes = std::max(bytes, (operand_span(step, operand, 0).last + 1) * device_itemsize(operand.element.format));
  return bytes;
}

}  // namespace openspyre
