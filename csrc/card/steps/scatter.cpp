// Scatter steps: maps whose output address depends on an index tensor.
#include "program/box_parts.h"
#include "steps/by_lane.h"
#include "steps/indexed.h"
#include "streams/task_split.h"

namespace openspyre {
namespace {

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
    per_lane_ = step.inputs[1].kind == OperandKind::Vector;
    chosen_ = ChosenElement(step.outputs[0], step.index_stride, store_.itemsize);
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

  int valid_lanes(int64_t block) const { return block == last_block_ ? tail_ : step_.lane.lanes; }

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
    if (per_lane_)
      load_blocks(index_, arguments.inputs[1], offsets.at[1].data(), blocks, slots[kIndexSlot]);
    else
      add_indices(arguments, offsets, blocks, store_.itemsize, to);
    load_blocks(values_, arguments.inputs[0], offsets.at[0].data(), blocks, slots[code_.inputs[0]]);
    execute(code_, slots, int64_t{blocks} * step_.lane.lanes);
    Lane* values = slots[code_.results[0]];
    for (int b = 0; b < blocks; ++b) {
      Lane* block = values + b * step_.lane.lanes;
      const int valid = valid_lanes(offsets.at[kBlockStream][static_cast<size_t>(b)]);
      if (per_lane_) {
        store_lanes(arguments, block, slots[kIndexSlot] + b * step_.lane.lanes, to[b], valid);
        continue;
      }
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

  // One lane after the other, through registers: what is added to may be what a lane before it has stored.
  void store_lanes(const StepArguments& arguments, const Lane* values, const Lane* indices, int64_t row,
                   int valid) const {
    Lane* next = RegisterFile::mine().slots()[kOldSlot];
    for (int lane = 0; lane < valid; ++lane) {
      const int64_t place = row + chosen_(checked(indices[lane]));
      if (step_.accumulate) {
        load_blocks(old_, arguments.outputs[0], &place, 1, next);
        std::array<Lane, 32> added;  // kernels take whole units of lanes
        added.fill(values[lane]);
        add_(next, next, added.data(), added.data(), 32);
      } else {
        next[0] = values[lane];
      }
      store_blocks(store_, next, arguments.outputs[0], &place, 1, 1);
    }
  }

  std::vector<StreamOffsets> strides_;
  Nest nest_;
  int64_t last_block_ = 0;
  int tail_ = 0;
  bool per_lane_ = false;
  ChosenElement chosen_;
  Port old_;
  MapKernel add_ = nullptr;
};

}  // namespace

PreparedStepPtr prepare_scatter(const Step& step, Isa isa) {
  if (PreparedStepPtr by_lane = prepare_by_lane(step, isa)) return by_lane;
  return std::make_unique<ScatterStep>(step, isa);
}

}  // namespace openspyre
