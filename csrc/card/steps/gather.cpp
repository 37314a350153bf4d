// Gather steps: maps whose input address depends on an index tensor.
#include <algorithm>

#include "program/box_parts.h"
#include "steps/by_lane.h"
#include "steps/indexed.h"
#include "streams/task_split.h"

namespace openspyre {
namespace {

class GatherStep final : public IndexedStep {
 public:
  GatherStep(const Step& step, Isa isa) : IndexedStep(step, isa) {
    per_lane_ = step.inputs[1].kind == OperandKind::Vector;
    chosen_ = ChosenElement(step.inputs[0], step.index_stride, values_.itemsize);
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

  // Every lane has its own index.
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

  // Lanes behind the valid ones are not used.
  template <typename Code>
  void pick(const std::byte* table, const Lane* indices, int valid, std::byte* found) const {
    const ChosenElement chosen = chosen_;
    auto* target = reinterpret_cast<Code*>(found);
    for (int i = 0; i < valid; ++i) std::memcpy(target + i, table + chosen(checked(indices[i])), sizeof(Code));
    std::fill(target + valid, target + step_.lane.lanes, Code{0});
  }

  BoxParts parts_;
  bool per_lane_ = false;
  ChosenElement chosen_;
};

}  // namespace

PreparedStepPtr prepare_gather(const Step& step, Isa isa) {
  if (PreparedStepPtr by_lane = prepare_by_lane(step, isa)) return by_lane;
  return std::make_unique<GatherStep>(step, isa);
}

}  // namespace openspyre
