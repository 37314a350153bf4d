// Where the operands of a step are in the host's memory, for the addresses of a launch.
#pragma once

#include "program/step_runner.h"

namespace openspyre {

// Without any check of what lies behind the address: the operand with all loop indices and the lane at 0.
std::byte* locate(Card& card, const Step& step, const Operand& operand, const LaunchArguments& launch, int core);
// Where the tensor of the operand's symbol (or the core's scratchpad) begins.
std::byte* locate_tensor(Card& card, const Step& step, const Operand& operand, const LaunchArguments& launch, int core);

// All operands of a core. Everything the step can touch must lie on the card, whatever a launch passes.
StepArguments resolve(Card& card, const Step& step, const LaunchArguments& launch, int core);

bool uses_scratchpad(const Step& step);
// Bytes of its scratchpad that a core touches at most.
int64_t scratchpad_reach(const Step& step);

}  // namespace openspyre
