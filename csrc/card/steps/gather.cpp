// Gather and Scatter steps: maps whose input or output address depends on an index tensor.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "program/box_parts.h"
#include "program/prepared_step.h"
#include "program/step_inputs.h"
#include "streams/task_split.h"

namespace openspyre {
namespace {

// Who writes by index beyond the end has mostly filled a cache.
constexpr const char* kFull =
    " that is written (a cache of fixed size has no room for this position: make it larger, or shorten the prompt)";

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

class GatherStep final : public IndexedStep {
 public:
  GatherStep(const Step& step, Isa isa) : IndexedStep(step, isa) {
    per_lane_ = step.inputs[1].kind == OperandKind::Vector;
    stick_ = elems_per_stick(step.inputs[0].element.format);
    const std::vector<StreamOffsets> strides = stream_strides(step);
    std::vector<int> loops = all_loops();
    sort_by_stride(strides, 2, loops);
    parts_ = BoxParts(step, strides, loops);
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    const TaskSplit split(cores.count, parts_.points(), chunk_blocks(step_), step_.lane.lanes);
    split.run([&](int core, int64_t first, int64_t last) {
      set_constants(code_, RegisterFile::mine().slots());
      parts_.each(step_, cores.first + core, first, last,
                  [&](const Nest& nest, const StreamOffsets& base, int64_t begin, int64_t end, int valid) {
                    each_chunk(NestWalk(nest, base, begin), end - begin, 3, [&](ChunkOffsets& offsets, int blocks) {
                      run_chunk(arguments, offsets, blocks, valid);
                    });
                  });
    });
  }

 private:
  void run_chunk(const StepArguments& arguments, ChunkOffsets& offsets, int blocks, int valid) const {
    const Slots& slots = RegisterFile::mine().slots();
    if (per_lane_) {
      load_lanes(arguments, offsets, blocks, valid, slots[code_.inputs[0]]);
    } else {
      add_indices(arguments, offsets, blocks, values_.itemsize, offsets.at[0].data());
      if (is_copy_ && values_.kind == OperandKind::Vector && store_.kind == OperandKind::Vector)
        return copy_blocks(arguments.inputs[0], offsets.at[0].data(), arguments.outputs[0], offsets.at[2].data(),
                           blocks, valid);
      load_blocks(values_, arguments.inputs[0], offsets.at[0].data(), blocks, slots[code_.inputs[0]]);
    }
    execute(code_, slots, int64_t{blocks} * step_.lane.lanes);
    store_blocks(store_, slots[code_.results[0]], arguments.outputs[0], offsets.at[2].data(), blocks, valid);
  }

  // Every lane has its own index. Without an index_stride it counts elements along the table's sticks.
  void load_lanes(const StepArguments& arguments, const ChunkOffsets& offsets, int blocks, int valid,
                  Lane* target) const {
    Lane* indices = RegisterFile::mine().slots()[kIndexSlot];
    load_blocks(index_, arguments.inputs[1], offsets.at[1].data(), blocks, indices);
    alignas(64) std::array<std::byte, kChunkLanes * 8> codes;
    const int64_t lanes = int64_t{blocks} * step_.lane.lanes;
    for (int b = 0; b < blocks; ++b) {
      const std::byte* table = arguments.inputs[0] + offsets.at[0][static_cast<size_t>(b)];
      const int64_t first = int64_t{b} * step_.lane.lanes;
      std::byte* found = codes.data() + first * values_.itemsize;
      switch (values_.itemsize) {
        case 1:
          pick<uint8_t>(table, indices + first, valid, found);
          break;
        case 2:
          pick<uint16_t>(table, indices + first, valid, found);
          break;
        default:
          pick<uint32_t>(table, indices + first, valid, found);
      }
    }
    if (values_.load != nullptr)
      values_.load(codes.data(), target, lanes);
    else
      values_.convert(codes.data(), target, static_cast<size_t>(lanes));
  }

  // Sticks hold a power of two elements: places are found without a division. Lanes behind the valid ones are not used.
  template <typename Code>
  void pick(const std::byte* table, const Lane* indices, int valid, std::byte* found) const {
    const auto* codes = reinterpret_cast<const Code*>(table);
    auto* target = reinterpret_cast<Code*>(found);
    if (step_.index_stride != 0) {
      for (int i = 0; i < valid; ++i) target[i] = codes[static_cast<int64_t>(checked(indices[i])) * step_.index_stride];
    } else {
      const int shift = std::countr_zero(static_cast<uint64_t>(stick_));
      const Lane within = static_cast<Lane>(stick_ - 1);
      const int64_t tile = step_.inputs[0].tile_stride;
      for (int i = 0; i < valid; ++i) {
        const Lane index = checked(indices[i]);
        target[i] = codes[static_cast<int64_t>(index >> shift) * tile + (index & within)];
      }
    }
    std::fill(target + valid, target + step_.lane.lanes, Code{0});
  }

  BoxParts parts_;
  bool per_lane_ = false;
  int64_t stick_ = 64;
};

// Equal indices meet in the order of the loops: a core's points are walked one after the other, by one thread.
class ScatterStep final : public IndexedStep {
 public:
  ScatterStep(const Step& step, Isa isa) : IndexedStep(step, isa), strides_(stream_strides(step)) {
    old_ = load_port(step.outputs[0], step.lane.lanes, kernels_);
    const bool ints = register_type(step.outputs[0]) == RegisterType::Int;
    add_ = kernels_.map[static_cast<size_t>(ints ? Op::AddI : Op::Add)];
    if (step.lane.block_loop >= 0) strides_[static_cast<size_t>(step.lane.block_loop)][kBlockStream] = 1;
    nest_ = make_nest(strides_, core_box(step, 0), all_loops());
    last_block_ = step.lane.block_loop < 0 ? 0 : step.loops[static_cast<size_t>(step.lane.block_loop)].extent - 1;
    tail_ = step.lane.store_padding ? step.lane.lanes : tail_lanes(step);
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    const int64_t points = nest_.points();
    const TaskSplit split(cores.count, 1, 1, points * step_.lane.lanes);
    split.run([&](int core, int64_t, int64_t) {
      set_constants(code_, RegisterFile::mine().slots());
      const StreamOffsets base = stream_base(strides_, core_box(step_, cores.first + core));
      if (moves_elements()) return move_elements(arguments, base);
      each_chunk(NestWalk(nest_, base, 0), points, kBlockStream + 1,
                 [&](ChunkOffsets& offsets, int blocks) { run_chunk(arguments, offsets, blocks); });
    });
  }

 private:
  static constexpr int kBlockStream = 3;  // the lane block's number, after values, index and target

  // Single elements that are copied or added need no registers.
  bool moves_elements() const {
    const DataFormat format = step_.outputs[0].element.format;
    const bool adds = format == DataFormat::IEEE_FP32 || format == DataFormat::IEEE_INT32 ||
                      (format == DataFormat::SEN169_FP16 && register_type(step_.outputs[0]) == RegisterType::Float);
    return is_copy_ && values_.kind == OperandKind::Splat && store_.kind == OperandKind::Splat && index_is_plain() &&
           (!step_.accumulate || adds);
  }

  // target = combine(target, value) for one element after the other, in the order of the loops.
  template <typename Code, typename Combine>
  void move_elements(const StepArguments& arguments, const StreamOffsets& base, Combine&& combine) const {
    const bool single = nest_.loops.empty();
    const NestLoop inner = single ? NestLoop{1, {}} : nest_.loops.back();
    Nest around = nest_;
    if (!single) around.loops.pop_back();
    NestWalk walk(around, base, 0);
    for (int64_t n = around.points(); n > 0; --n, walk.advance()) {
      const std::byte* value = arguments.inputs[0] + walk.here()[0];
      const std::byte* index = arguments.inputs[1] + walk.here()[1];
      std::byte* target = arguments.outputs[0] + walk.here()[2];
      for (int64_t i = 0; i < inner.extent; ++i) {
        Lane row;
        Code added, old;
        std::memcpy(&row, index + i * inner.stride[1], sizeof row);
        std::memcpy(&added, value + i * inner.stride[0], sizeof added);
        std::byte* place = target + i * inner.stride[2] +
                           static_cast<int64_t>(checked(row)) * step_.index_stride * int64_t{sizeof(Code)};
        std::memcpy(&old, place, sizeof old);
        const Code next = combine(old, added);
        std::memcpy(place, &next, sizeof next);
      }
    }
  }

  void move_elements(const StepArguments& arguments, const StreamOffsets& base) const {
    const auto set = [](auto, auto added) { return added; };
    if (!step_.accumulate) {
      switch (store_.itemsize) {
        case 1:
          return move_elements<uint8_t>(arguments, base, set);
        case 2:
          return move_elements<uint16_t>(arguments, base, set);
        default:
          return move_elements<uint32_t>(arguments, base, set);
      }
    }
    const auto sum = [](auto old, auto added) { return old + added; };  // integers wrap: they are unsigned here
    switch (step_.outputs[0].element.format) {
      case DataFormat::IEEE_FP32:
        return move_elements<float>(arguments, base, sum);
      case DataFormat::IEEE_INT32:
        return move_elements<uint32_t>(arguments, base, sum);
      default:
        return move_elements<uint16_t>(arguments, base, [](uint16_t old, uint16_t added) {
          return float_to_sen169(sen169_to_float(old) + sen169_to_float(added));
        });
    }
  }

  void run_chunk(const StepArguments& arguments, ChunkOffsets& offsets, int blocks) const {
    const Slots& slots = RegisterFile::mine().slots();
    int64_t* to = offsets.at[2].data();
    add_indices(arguments, offsets, blocks, store_.itemsize, to);
    load_blocks(values_, arguments.inputs[0], offsets.at[0].data(), blocks, slots[code_.inputs[0]]);
    execute(code_, slots, int64_t{blocks} * step_.lane.lanes);
    Lane* values = slots[code_.results[0]];
    for (int b = 0; b < blocks; ++b) {
      Lane* block = values + b * step_.lane.lanes;
      const int valid = offsets.at[kBlockStream][static_cast<size_t>(b)] == last_block_ ? tail_ : step_.lane.lanes;
      if (step_.accumulate) {
        Lane* old = slots[kOldSlot];
        load_blocks(old_, arguments.outputs[0], to + b, 1, old);
        add_(block, old, block, block, step_.lane.lanes);
      }
      if (is_copy_ && !step_.accumulate && values_.kind == store_.kind && store_.kind == OperandKind::Vector)
        copy_blocks(arguments.inputs[0], offsets.at[0].data() + b, arguments.outputs[0], to + b, 1, valid);
      else
        store_blocks(store_, block, arguments.outputs[0], to + b, 1, valid);
    }
  }

  std::vector<StreamOffsets> strides_;
  Nest nest_;
  int64_t last_block_ = 0;
  int tail_ = 0;
  Port old_;
  MapKernel add_ = nullptr;
};

}  // namespace

PreparedStepPtr prepare_gather(const Step& step, Isa isa) { return std::make_unique<GatherStep>(step, isa); }
PreparedStepPtr prepare_scatter(const Step& step, Isa isa) { return std::make_unique<ScatterStep>(step, isa); }

}  // namespace openspyre
