// Map steps: vector code interpreted over chunks of lanes.
#include <algorithm>
#include <limits>
#include <numeric>

#include "program/box_parts.h"
#include "program/port.h"
#include "program/prepared_step.h"
#include "program/step_inputs.h"
#include "steps/vector_code.h"
#include "streams/task_split.h"

namespace openspyre {
namespace {

class MapStep final : public PreparedStep {
 public:
  MapStep(const Step& step, Isa isa) : step_(step), on_one_core_(step), inputs_(step, isa) {
    inputs_.leave_out_unnamed();
    int64_t lanes = step.lane.lanes;
    for (const Loop& loop : step.loops) lanes *= loop.extent;
    code_ = compile(step.code, inputs_.registers(), vector_kernels(isa), lanes);
    for (size_t i = 0; i < step.outputs.size(); ++i)
      stores_.push_back(store_port(step.outputs[i], code_.types[i], step.lane.lanes, vector_kernels(isa)));
    stores_at_once_ = stores_.size() == 1 && stores_at_once(code_, stores_[0]);
    std::vector<int> order(step.loops.size());
    std::iota(order.begin(), order.end(), 0);
    const std::vector<StreamOffsets> strides = stream_strides(step);
    sort_by_stride(strides, step.inputs.size(), order);
    walk_strided_along_sticks(strides, order);
    copied_ = copied_input();
    if (step.lane.extent < step.lane.lanes) there_ = tail_lanes(step);
    parts_ = BoxParts(step, strides, order);
    for (Loop& loop : on_one_core_.loops) loop.split = 1;
    all_parts_ = BoxParts(on_one_core_, strides, order);
    joins_cores_ = core_count(step) > 1 && all_in_memory(step);
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    // All cores at once are one large box: memory is walked in longer runs than a core has.
    if (joins_cores_ && cores.count == core_count(step_))
      run_box(arguments, on_one_core_, all_parts_, {0, 1});
    else
      run_box(arguments, step_, parts_, cores);
  }

 private:
  void run_box(const StepArguments& arguments, const Step& step, const BoxParts& parts, CoreRange cores) const {
    const TaskSplit split(cores.count, parts.points(), chunk_blocks(step), step.lane.lanes);
    split.run([&](int core, int64_t first, int64_t last) {
      set_constants(code_, RegisterFile::mine().slots());
      inputs_.set_kept(arguments, code_, RegisterFile::mine().slots());
      parts.each(step, cores.first + core, first, last,
                 [&](const Nest& nest, const StreamOffsets& base, int64_t begin, int64_t end, int valid) {
                   if (copied_ >= 0 && copies_runs(nest))
                     copy_runs(arguments, nest, base, begin, end, valid);
                   else if (copied_ >= 0)
                     copy_part(arguments, NestWalk(nest, base, begin), end - begin, valid);
                   else
                     run_part(arguments, NestWalk(nest, base, begin), end - begin, valid);
                 });
    });
  }

  // Points that are neighbours in the sticks of a Strided operand come one after the other: they are turned together.
  void walk_strided_along_sticks(const std::vector<StreamOffsets>& strides, std::vector<int>& order) const {
    for (size_t i = 0; i < step_.inputs.size(); ++i) {
      if (step_.inputs[i].kind != OperandKind::Strided) continue;
      const auto inner = std::find_if(order.begin(), order.end(), [&](int k) {
        return strides[static_cast<size_t>(k)][i] == inputs_.port(i).itemsize &&
               step_.loops[static_cast<size_t>(k)].extent > 1;
      });
      if (inner == order.end()) continue;
      std::rotate(inner, inner + 1, order.end());
      return;
    }
  }

  // The input whose bits the only output gets; -1: there is something to compute.
  int copied_input() const {
    const bool pads = step_.lane.store_padding && tail_lanes(step_) < step_.lane.lanes;
    if (stores_.size() != 1 || !code_.operations.empty() || pads) return -1;
    for (size_t i = 0; i < step_.inputs.size(); ++i)
      if (code_.results[0] == code_.inputs[i] && can_copy(inputs_.port(i), stores_[0])) return static_cast<int>(i);
    return -1;
  }

  // Blocks that lie whole on both sides, in loops long enough to find their places once per loop.
  bool copies_runs(const Nest& nest) const {
    return inputs_.port(static_cast<size_t>(copied_)).kind == OperandKind::Vector && !nest.loops.empty() &&
           nest.loops.back().extent >= kLongLoop;
  }

  void copy_runs(const StepArguments& arguments, const Nest& nest, const StreamOffsets& base, int64_t begin,
                 int64_t end, int valid) const {
    const auto input = static_cast<size_t>(copied_);
    const size_t output = step_.inputs.size();
    const NestLoop& inner = nest.loops.back();
    const BlockRun run{inner.stride[input], inner.stride[output], int64_t{valid} * stores_[0].itemsize};
    for (int64_t point = begin; point < end;) {
      const StreamOffsets here = NestWalk(nest, base, point).here();
      const std::byte* source = arguments.inputs[input] + here[input];
      std::byte* target = arguments.outputs[0] + here[output];
      if (const int64_t rows = rows_at_once(nest, run, point, end); rows > 1) {
        const NestLoop& outer = nest.loops[nest.loops.size() - 2];
        const BlockRun across{outer.stride[input], outer.stride[output], run.block};
        for (int64_t i = 0; i < inner.extent; ++i)
          copy_run(source + i * run.source_stride, target + i * run.target_stride, rows, across);
        point += rows * inner.extent;
        continue;
      }
      const int64_t count = std::min(inner.extent - point % inner.extent, end - point);
      copy_run(source, target, count, run);
      point += count;
    }
  }

  // Where blocks are far apart along the inner loop and neighbours along the one around it, so many of its passes are
  // made together: memory is read in longer pieces, and what lies at one place of the cache's sets is not all of it.
  int64_t rows_at_once(const Nest& nest, const BlockRun& run, int64_t point, int64_t end) const {
    constexpr int64_t kRows = 8;
    if (nest.loops.size() < 2 || run.source_stride == run.block) return 1;
    const NestLoop &outer = nest.loops[nest.loops.size() - 2], &inner = nest.loops.back();
    if (outer.stride[static_cast<size_t>(copied_)] != run.block || point % inner.extent != 0) return 1;
    const int64_t left = outer.extent - point / inner.extent % outer.extent;
    return std::min({kRows, left, (end - point) / inner.extent});
  }

  void copy_part(const StepArguments& arguments, NestWalk walk, int64_t points, int valid) const {
    const auto input = static_cast<size_t>(copied_);
    const size_t output = step_.inputs.size();
    ChunkOffsets offsets;
    for (; points > 0; points -= kMaxChunkBlocks) {
      const int blocks = static_cast<int>(std::min<int64_t>(kMaxChunkBlocks, points));
      walk.next(blocks, static_cast<int>(output) + 1, offsets);
      copy_blocks({inputs_.port(input), arguments.inputs[input], offsets.at[input].data(), stores_[0],
                   arguments.outputs[0], offsets.at[output].data()},
                  blocks, valid);
    }
  }

  void run_part(const StepArguments& arguments, NestWalk walk, int64_t points, int valid) const {
    const Slots& slots = RegisterFile::mine().slots();
    const size_t first_store = step_.inputs.size();
    const int chunk = chunk_blocks(step_);
    ChunkOffsets offsets;
    HeldSplats held;
    for (; points > 0; points -= chunk) {
      const int blocks = static_cast<int>(std::min<int64_t>(chunk, points));
      walk.next(blocks, static_cast<int>(first_store + stores_.size()), offsets);
      inputs_.load(arguments, code_, slots, offsets, blocks, std::min(valid, there_), held);
      if (stores_at_once_ && valid == step_.lane.lanes) {
        execute_to(code_, slots, stores_[0], arguments.outputs[0], offsets.at[first_store].data(), blocks);
        continue;
      }
      execute(code_, slots, int64_t{blocks} * step_.lane.lanes);
      for (size_t i = 0; i < stores_.size(); ++i)
        store_blocks(stores_[i], slots[code_.results[i]], arguments.outputs[i], offsets.at[first_store + i].data(),
                     blocks, valid);
    }
  }

  static constexpr int64_t kLongLoop = 8;
  const Step& step_;
  Step on_one_core_;  // the step without its split
  StepInputs inputs_;
  std::vector<Port> stores_;
  CompiledCode code_;
  BoxParts parts_, all_parts_;
  bool stores_at_once_ = false, joins_cores_ = false;
  int copied_ = -1;
  int there_ = std::numeric_limits<int>::max();  // lanes of a single block that are there, also where padding is stored
};

}  // namespace

PreparedStepPtr prepare_map(const Step& step, Isa isa) { return std::make_unique<MapStep>(step, isa); }

}  // namespace openspyre
