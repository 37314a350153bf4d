// The inputs of a step made ready: what is loaded once, and what with every chunk.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "program/nest.h"
#include "program/port.h"
#include "program/step_runner.h"
#include "steps/vector_code.h"

namespace openspyre {

// No core has anything in its scratchpad: all of them can be run as one.
inline bool all_in_memory(const Step& step) {
  const auto in_memory = [](const Operand& operand) { return operand.space == Space::Memory; };
  return std::all_of(step.inputs.begin(), step.inputs.end(), in_memory) &&
         std::all_of(step.outputs.begin(), step.outputs.end(), in_memory);
}

inline int chunk_blocks(const Step& step) {
  return static_cast<int>(std::max<int64_t>(1, kChunkLanes / step.lane.lanes));
}

// What the slots of splats hold: those that are where they were in the last chunk are not filled in again.
struct HeldSplats {
  struct Held {
    std::array<int64_t, kMaxChunkBlocks> offsets;
    int blocks = 0;  // filled with the values there
  };
  std::array<Held, kMaxOperands> inputs;
};

class StepInputs {
 public:
  StepInputs(const Step& step, Isa isa) : step_(step) {
    for (const Operand& operand : step.inputs) {
      ports_.push_back(load_port(operand, step.lane.lanes, vector_kernels(isa)));
      const bool kept = never_moves(operand) || operand.kind == OperandKind::Splat;
      registers_.push_back({register_type(operand), kept, is_sen169(operand)});
      kept_.push_back(never_moves(operand));
    }
  }

  const std::vector<CodeInput>& registers() const { return registers_; }

  // What the step's code never names is not loaded, as the places of what is filled with one number.
  void leave_out_unnamed() {
    std::vector<bool> named(ports_.size(), false);
    const auto name = [&](uint8_t number) {
      if (number < named.size()) named[number] = true;
    };
    for (const Instruction& instruction : step_.code.instructions)
      for (const uint8_t source : instruction.sources()) name(source);
    for (const uint8_t result : step_.code.results) name(result);
    left_out_.resize(ports_.size());
    for (size_t i = 0; i < named.size(); ++i) left_out_[i] = !named[i];
  }

  // Scalars, and splats that never move.
  void set_kept(const StepArguments& arguments, const CompiledCode& code, const Slots& slots) const {
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (!kept_[i] || is_left_out(i)) continue;
      Lane* target = slots[code.inputs[i]];
      if (ports_[i].kind == OperandKind::Scalar) {
        std::fill_n(target, kChunkLanes, arguments.scalars[static_cast<size_t>(step_.inputs[i].symbol)]);
      } else {
        const std::array<int64_t, kMaxChunkBlocks> offsets{};
        load_blocks(ports_[i], arguments.inputs[i], offsets.data(), chunk_blocks(step_), target);
      }
    }
  }

  // `valid`: lanes of each block that are there; `held`: what this code's slots hold of earlier chunks.
  void load(const StepArguments& arguments, const CompiledCode& code, const Slots& slots, const ChunkOffsets& offsets,
            int blocks, int valid, HeldSplats& held) const {
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (kept_[i] || is_left_out(i)) continue;
      const bool stays = ports_[i].kind == OperandKind::Splat && holds(held.inputs[i], offsets.at[i].data(), blocks);
      if (!stays) load(i, arguments, offsets, blocks, slots[code.inputs[i]], valid);
    }
  }

  void load(size_t input, const StepArguments& arguments, const ChunkOffsets& offsets, int blocks, Lane* target,
            int valid) const {
    load_blocks(ports_[input], arguments.inputs[input], offsets.at[input].data(), blocks, target, valid);
  }

  const Port& port(size_t input) const { return ports_[input]; }
  bool is_kept(size_t input) const { return kept_[input]; }

 private:
  static bool never_moves(const Operand& operand) {
    return operand.kind == OperandKind::Scalar ||
           (operand.kind == OperandKind::Splat &&
            std::all_of(operand.stride.begin(), operand.stride.end(), [](int64_t stride) { return stride == 0; }));
  }

  // Whether the slot has these blocks already; if not, it will.
  static bool holds(HeldSplats::Held& held, const int64_t* offsets, int blocks) {
    if (held.blocks >= blocks && std::equal(offsets, offsets + blocks, held.offsets.data())) return true;
    std::copy_n(offsets, blocks, held.offsets.data());
    held.blocks = blocks;
    return false;
  }

  bool is_left_out(size_t input) const { return input < left_out_.size() && left_out_[input]; }

  const Step& step_;
  std::vector<Port> ports_;
  std::vector<CodeInput> registers_;
  std::vector<bool> kept_;  // loaded before the first chunk
  std::vector<bool> left_out_;
};

}  // namespace openspyre
