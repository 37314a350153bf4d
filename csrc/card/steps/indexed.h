// What gathers and scatters share: an index read and checked, and blocks moved from or to where it says.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "program/prepared_step.h"
#include "program/step_inputs.h"

namespace openspyre {

// Who writes by index beyond the end has mostly filled a cache.
inline constexpr const char* kFull =
    " that is written (a cache of fixed size has no room for this position: make it larger, or shorten the prompt)";

// Bytes from a table's first element to the one that an index names: `index_stride` elements apart, or without it along
// the table's sticks. Sticks hold a power of two elements, so that no division is needed.
class ChosenElement {
 public:
  ChosenElement() = default;
  ChosenElement(const Operand& table, int64_t index_stride, int itemsize) : itemsize_(itemsize) {
    if (index_stride == 0) {
      shift_ = std::countr_zero(static_cast<uint64_t>(elems_per_stick(table.element.format)));
      within_ = (Lane{1} << shift_) - 1;
    }
    step_ = (index_stride != 0 ? index_stride : table.tile_stride) * itemsize;
  }

  int64_t operator()(Lane i) const { return int64_t{i >> shift_} * step_ + int64_t{i & within_} * itemsize_; }

 private:
  int shift_ = 0;
  Lane within_ = 0;
  int64_t step_ = 0, itemsize_ = 0;
};

class IndexedStep : public PreparedStep {
 public:
  IndexedStep(const Step& step, Isa isa) : step_(step), kernels_(vector_kernels(isa)) {
    const CodeInput value{register_type(step.inputs[0]), false};
    code_ = compile(step.code, {&value, 1}, kernels_);
    values_ = load_port(step.inputs[0], step.lane.lanes, kernels_);
    index_ = load_port(step.inputs[1], step.lane.lanes, kernels_);
    store_ = store_port(step.outputs[0], code_.types[0], step.lane.lanes, kernels_);
    is_copy_ = code_.operations.empty() && step.inputs[0].element == step.outputs[0].element;
  }

 protected:
  std::vector<int> all_loops() const {
    std::vector<int> loops(step_.loops.size());
    std::iota(loops.begin(), loops.end(), 0);
    return loops;
  }

  // Calls body(offsets, blocks) for chunks of the walk's points.
  template <typename Body>
  void each_chunk(NestWalk walk, int64_t points, int streams, Body&& body) const {
    for (; points > 0; points -= chunk_blocks(step_)) {
      const int blocks = static_cast<int>(std::min<int64_t>(chunk_blocks(step_), points));
      ChunkOffsets offsets;
      walk.next(blocks, streams, offsets);
      body(offsets, blocks);
    }
  }

  Lane checked(Lane index) const {
    const Lane row = indexed_row(index, step_.index_bound);
    if (row >= static_cast<uint64_t>(step_.index_bound)) [[unlikely]]
      refuse(static_cast<int32_t>(index));
    return row;
  }

  // A flat index over several dims was checked when it was computed: one beyond its dim comes as -3 * 2^29 + itself.
  [[noreturn]] void refuse(int64_t index) const {
    const bool flat = index < -(int64_t{1} << 30);
    const std::string bound = flat ? "its dimension" : "a dimension of size " + std::to_string(step_.index_bound);
    fail(Fault::IndexOutOfRange, step_.name + ": index " +
                                     std::to_string(flat ? index + 3 * (int64_t{1} << 29) : index) +
                                     " is out of bounds for " + bound + (step_.kind == StepKind::Scatter ? kFull : ""));
  }

  // Where an index is a single int32 in memory, it needs no register.
  bool index_is_plain() const {
    return index_.kind == OperandKind::Splat && step_.inputs[1].element.format == DataFormat::IEEE_INT32;
  }

  Lane plain_index(const StepArguments& arguments, const ChunkOffsets& offsets, size_t block) const {
    Lane index;
    std::memcpy(&index, arguments.inputs[1] + offsets.at[1][block], sizeof index);
    return checked(index);
  }

  // One index per block, added to the block's offset in the table.
  void add_indices(const StepArguments& arguments, const ChunkOffsets& offsets, int blocks, int itemsize,
                   int64_t* table) const {
    if (index_is_plain()) {
      for (size_t b = 0; b < static_cast<size_t>(blocks); ++b)
        table[b] += static_cast<int64_t>(plain_index(arguments, offsets, b)) * step_.index_stride * itemsize;
      return;
    }
    Lane* lanes = RegisterFile::mine().slots()[kIndexSlot];
    load_blocks(index_, arguments.inputs[1], offsets.at[1].data(), blocks, lanes);
    for (int b = 0; b < blocks; ++b)
      table[b] += static_cast<int64_t>(checked(lanes[b * step_.lane.lanes])) * step_.index_stride * itemsize;
  }

  void copy_blocks(const std::byte* source, const int64_t* from, std::byte* target, const int64_t* to, int blocks,
                   int valid) const {
    for (int b = 0; b < blocks; ++b)
      for (int lane = 0; lane < valid; lane += values_.stick_lanes) {
        const int64_t tile = lane / values_.stick_lanes;
        const int n = std::min(values_.stick_lanes, valid - lane);
        std::memmove(target + to[b] + tile * store_.tile_stride, source + from[b] + tile * values_.tile_stride,
                     static_cast<size_t>(n * values_.itemsize));
      }
  }

  static constexpr size_t kIndexSlot = kMaxSlots - 1, kOldSlot = kMaxSlots - 2;
  const Step& step_;
  const VectorKernels& kernels_;
  CompiledCode code_;
  Port values_, index_, store_;
  bool is_copy_ = false;
};

}  // namespace openspyre
