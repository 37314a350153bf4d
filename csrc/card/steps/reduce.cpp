// Reduce steps (N6): code, folded over the reduced loops and lanes, finished and stored.
#include <algorithm>
#include <memory>

#include "program/box_parts.h"
#include "program/prepared_step.h"
#include "program/step_inputs.h"
#include "steps/fold.h"
#include "streams/task_split.h"

namespace openspyre {
namespace {

// Streams of the runner's own, after the operands': the lane block's number and the place in the reduced space.
size_t block_stream(const Step& step) { return step.inputs.size() + step.outputs.size(); }
size_t position_stream(const Step& step) { return block_stream(step) + 1; }

std::vector<int> loops_of(const Step& step, bool reduced) {
  std::vector<int> loops;
  for (size_t k = 0; k < step.loops.size(); ++k)
    if (step.loops[k].reduced == reduced) loops.push_back(static_cast<int>(k));
  return loops;
}

std::vector<StreamOffsets> reduce_strides(const Step& step) {
  std::vector<StreamOffsets> strides = stream_strides(step);
  if (step.lane.reduced && step.lane.block_loop >= 0)
    strides[static_cast<size_t>(step.lane.block_loop)][block_stream(step)] = 1;
  if (!is_arg(step.combine)) return strides;
  const bool lone_lanes = step.lane.reduced && step.lane.block_loop < 0;
  int64_t weight = lone_lanes ? step.lane.extent : 1;
  for (size_t k = step.loops.size(); k-- > 0;) {
    if (!step.loops[k].reduced) continue;
    const bool blocks = static_cast<int>(k) == step.lane.block_loop;
    strides[k][position_stream(step)] = weight * (blocks ? step.lane.lanes : 1);
    weight *= blocks ? step.lane.extent : step.loops[k].extent;
  }
  return strides;
}

class ReduceStep final : public PreparedStep {
 public:
  ReduceStep(const Step& step, Isa isa)
      : step_(step), on_one_core_(step), inputs_(step, isa), strides_(reduce_strides(step)) {
    const VectorKernels& kernels = vector_kernels(isa);
    inputs_.leave_out_unnamed();
    code_ = compile(step.code, inputs_.registers(), kernels);
    finish_ = compile(step.finish, reduce_finish_registers(step, code_.types[0]), kernels);
    result_is_kept_ = keeps(code_, code_.results[0], inputs_.registers());
    folding_ = Folding(step.combine, code_.types[0], step.lane, kernels, lane_step());
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const int lanes = step.lane.reduced && step.outputs[i].kind == OperandKind::Splat ? 1 : step.lane.lanes;
      stores_.push_back(store_port(step.outputs[i], finish_.types[i], lanes, kernels));
    }
    std::vector<int> outer = loops_of(step, false);
    sort_by_stride(strides_, 0, outer);
    outer_ = BoxParts(step, strides_, outer);
    const std::vector<int> inner = loops_of(step, true);
    inner_ = make_nest(strides_, core_box(step, 0), inner);
    for (const int k : inner) slices_ *= step.loops[static_cast<size_t>(k)].split;
    for (const int k : inner) inner_points_ *= core_box(step, 0).extent[static_cast<size_t>(k)];
    for (Loop& loop : on_one_core_.loops)
      if (!loop.reduced) loop.split = 1;
    all_outer_ = BoxParts(on_one_core_, strides_, outer);
    joins_cores_ = core_count(step) > 1 && slices_ == 1 && all_in_memory(step);
    last_block_ = step.lane.block_loop < 0 ? 0 : step.loops[static_cast<size_t>(step.lane.block_loop)].extent - 1;
    tail_lanes_ = tail_lanes(step);
    block_stream_ = block_stream(step);
    direct_ = direct_kernel();
    const int chunk = chunk_blocks(step);
    const int most = direct_ != nullptr && folding_.over_lanes() ? kMaxChunkBlocks : std::min(chunk, kMaxOuterBlocks);
    const int64_t points = (joins_cores_ || slices_ > 1 ? all_outer_ : outer_).points();
    outer_blocks_ = static_cast<int>(std::clamp<int64_t>(points, 1, most));
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    // All cores at once are one large box: rows of several cores often lie next to each other.
    if (joins_cores_ && cores.count == core_count(step_))
      return run_box(arguments, on_one_core_, all_outer_, {0, 1}, 1);
    if (slices_ == 1) return run_box(arguments, step_, outer_, cores, outer_blocks_);
    Partials partials(*this);
    const TaskSplit split(slices_, all_outer_.points(), outer_blocks_, point_lanes());
    split.run([&](int slice, int64_t first, int64_t last) {
      run_core(arguments, on_one_core_, all_outer_, slice, first, last, &partials);
    });
    const TaskSplit joining(1, all_outer_.points(), outer_blocks_, slices_ * step_.lane.lanes);
    joining.run([&](int, int64_t first, int64_t last) { join(arguments, partials, first, last); });
  }

 private:
  // Whether a slot keeps its lanes from chunk to chunk, so that folding must not touch them.
  static bool keeps(const CompiledCode& code, uint8_t slot, std::span<const CodeInput> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (code.inputs[i] == slot) return inputs[i].kept;
    return std::any_of(code.constants.begin(), code.constants.end(),
                       [&](const Constant& constant) { return constant.target == slot; });
  }

  int64_t lane_step() const {
    if (step_.lane.block_loop < 0) return 1;
    return strides_[static_cast<size_t>(step_.lane.block_loop)][position_stream(step_)] / step_.lane.lanes;
  }

  static constexpr int kMaxOuterBlocks = 8;  // streams the host's prefetchers can follow

  // Accumulated values: [slice][point][value of a lane].
  struct Partials {
    explicit Partials(const ReduceStep& step) : point(step.folding_.over_lanes() ? 1 : step.step_.lane.lanes) {
      points = step.all_outer_.points();
      const auto lanes = static_cast<size_t>(step.slices_ * points * point);
      values = std::make_unique_for_overwrite<Lane[]>(lanes);
      if (is_arg(step.step_.combine)) indices = std::make_unique_for_overwrite<Lane[]>(lanes);
    }
    Accumulators at(int64_t slice, int64_t first) const {
      const int64_t place = (slice * points + first) * point;
      return {values.get() + place, indices ? indices.get() + place : nullptr};
    }
    int64_t point, points;
    std::unique_ptr<Lane[]> values, indices;
  };

  int64_t point_lanes() const { return std::max<int64_t>(1, inner_points_) * step_.lane.lanes; }

  // `unit`: the points handed out together, where there are enough of them.
  void run_box(const StepArguments& arguments, const Step& step, const BoxParts& outer, CoreRange cores,
               int unit) const {
    const TaskSplit split(cores.count, outer.points(), unit, point_lanes());
    split.run([&](int core, int64_t first, int64_t last) {
      run_core(arguments, step, outer, cores.first + core, first, last, nullptr);
    });
  }

  void run_core(const StepArguments& arguments, const Step& step, const BoxParts& outer, int core, int64_t first,
                int64_t last, const Partials* partials) const {
    set_constants(code_, RegisterFile::mine().slots());
    inputs_.set_kept(arguments, code_, RegisterFile::mine().slots());
    int64_t point = first;
    outer.each(step, core, first, last,
               [&](const Nest& nest, const StreamOffsets& base, int64_t begin, int64_t end, int valid) {
                 NestWalk walk(nest, base, begin);
                 for (int64_t left = end - begin; left > 0; left -= outer_blocks_) {
                   const int blocks = static_cast<int>(std::min<int64_t>(outer_blocks_, left));
                   ChunkOffsets offsets;
                   walk.next(blocks, static_cast<int>(block_stream_) + 2, offsets);
                   run_chunk(arguments, offsets, blocks, valid, partials, core, point);
                   point += blocks;
                 }
               });
  }

  void run_chunk(const StepArguments& arguments, const ChunkOffsets& outer, int blocks, int valid,
                 const Partials* partials, int slice, int64_t point) const {
    alignas(64) Lane value[kAccumulatorLanes], index[kAccumulatorLanes];
    alignas(64) Lane total_value[kLaneUnit] = {}, total_index[kLaneUnit] = {};
    const Accumulators acc{value, index}, totals{total_value, total_index};
    folding_.start(acc, blocks * folding_.lanes_per_block());
    fold_inner(arguments, outer, blocks, acc);
    if (folding_.over_lanes()) folding_.total(acc, totals, blocks);
    const Accumulators result = folding_.over_lanes() ? totals : acc;
    if (partials == nullptr) return finish(arguments, result, outer, blocks, valid);
    const Accumulators target = partials->at(slice, point);
    std::copy_n(result.value, blocks * partials->point, target.value);
    if (target.index != nullptr) std::copy_n(result.index, blocks * partials->point, target.index);
  }

  // A reduction of the input itself needs no registers, but whole, contiguous blocks.
  RowFoldKernel direct_kernel() const {
    if (step_.inputs.size() != 1 || !code_.operations.empty() || !inputs_.port(0).dense) return nullptr;
    if (inputs_.port(0).kind != OperandKind::Vector || inputs_.registers()[0].kept) return nullptr;
    if (step_.inputs[0].element.dtype == DType::Bool || code_.results[0] != code_.inputs[0]) return nullptr;
    const bool only_blocks =
        inner_.loops.empty() || (inner_.loops.size() == 1 && inner_.loops[0].stride[block_stream_] == 1);
    if (has_tail() && !only_blocks) return nullptr;
    return folding_.from_memory(step_.inputs[0].element.format);
  }

  // Runs of blocks that are contiguous for all points of the innermost reduced loop.
  void fold_direct(const StepArguments& arguments, const ChunkOffsets& outer, int blocks, Accumulators acc) const {
    const Port& port = inputs_.port(0);
    const int64_t block_bytes = int64_t{port.lanes} * port.itemsize;
    const int64_t last_point = outer.at[block_stream_][0] + inner_points_ - 1;
    const bool at_tail = has_tail() && inner_points_ > 0 && last_point == last_block_;
    const int64_t row_points = (inner_.loops.empty() ? 1 : inner_.loops.back().extent) - (at_tail ? 1 : 0);
    const int64_t row_bytes = inner_.loops.empty() ? 0 : inner_.loops.back().stride[0];
    const int64_t most_rows = row_bytes % kPageBytes == 0 ? kPageApart : kDirectBytes / (block_bytes * blocks);
    const int64_t at_once = std::max<int64_t>(1, most_rows);
    NestWalk walk(inner_, StreamOffsets{}, 0);
    for (int64_t done = 0; done < inner_points_; done += std::max<int64_t>(1, row_points)) {
      const std::byte* base = arguments.inputs[0] + walk.here()[0];
      for (int64_t row = 0; row < row_points; row += at_once) {
        const int64_t rows = std::min(at_once, row_points - row);
        if (folding_.in_halves()) {
          const int64_t block =
              outer.at[block_stream_][0] + walk.here()[block_stream_] + row * inner_stride(block_stream_);
          for (int b = 0; b < blocks; ++b)
            fold_halves(acc.value + b * kFoldLanes, base + outer.at[0][static_cast<size_t>(b)] + row * row_bytes, block,
                        rows, row_bytes / port.itemsize);
          continue;
        }
        for (int b = 0; b < blocks;) {
          const int64_t* offsets = outer.at[0].data() + b;
          int run = 1;
          while (b + run < blocks && offsets[run] == offsets[run - 1] + block_bytes) ++run;
          direct_(acc.value + b * port.lanes, base + offsets[0] + row * row_bytes, int64_t{run} * port.lanes, rows,
                  row_bytes / port.itemsize);
          b += run;
        }
      }
      if (at_tail) return fold_tail(arguments, outer, blocks, row_points * row_bytes, acc);
      walk.advance(row_points);
    }
  }

  // Even blocks belong to the first half of the accumulators, odd ones to the second.
  void fold_halves(Lane* acc, const std::byte* base, int64_t first_block, int64_t rows, int64_t row_stride) const {
    const Port& port = inputs_.port(0);
    const int64_t lanes = port.lanes;
    if (inner_stride(block_stream_) == 0) return direct_(acc + first_block % 2 * lanes, base, lanes, rows, row_stride);
    if (row_stride == lanes && first_block % 2 == 0) {  // two neighbours are one row of all accumulators
      direct_(acc, base, 2 * lanes, rows / 2, 2 * lanes);
      if (rows % 2 != 0) direct_(acc, base + (rows - 1) * lanes * port.itemsize, lanes, 1, 0);
      return;
    }
    for (int64_t row = 0; row < std::min<int64_t>(2, rows); ++row)
      direct_(acc + (first_block + row) % 2 * lanes, base + row * row_stride * port.itemsize, lanes,
              (rows - row + 1) / 2, 2 * row_stride);
  }

  // The last block of the lanes, whose padding must not count, goes through registers.
  void fold_tail(const StepArguments& arguments, const ChunkOffsets& outer, int blocks, int64_t offset,
                 Accumulators acc) const {
    Lane* x = RegisterFile::mine().slots()[code_.inputs[0]];
    const int chunk = chunk_blocks(step_);
    for (int b = 0; b < blocks; b += chunk) {
      const int count = std::min(chunk, blocks - b);
      load_blocks(inputs_.port(0), arguments.inputs[0] + offset, outer.at[0].data() + b, count, x);
      folding_.take({acc.value + b * kFoldLanes, nullptr}, x,
                    {.blocks = count, .first_block = last_block_, .valid = tail_lanes_});
    }
  }
  bool has_tail() const { return step_.lane.reduced && tail_lanes_ < step_.lane.lanes; }

  void fold_inner(const StepArguments& arguments, const ChunkOffsets& outer, int blocks, Accumulators acc) const {
    if (direct_ != nullptr) return fold_direct(arguments, outer, blocks, acc);
    const Slots& slots = RegisterFile::mine().slots();
    const int at_once = std::max(1, chunk_blocks(step_) / blocks);
    NestWalk walk(inner_, StreamOffsets{}, 0);
    ChunkOffsets offsets;
    HeldSplats held;
    for (int64_t left = inner_points_; left > 0;) {
      FoldPoints taken{.points = 0, .blocks = blocks, .valid = step_.lane.lanes};
      while (taken.points < at_once && taken.points < left) {
        const int64_t count = joins(taken, outer, walk, at_once - taken.points);
        if (count == 0) break;
        for (size_t s = 0; s < step_.inputs.size(); ++s) {
          int64_t* at = &offsets.at[s][static_cast<size_t>(taken.points * blocks)];
          for (int64_t point = 0; point < count; ++point)
            for (int b = 0; b < blocks; ++b)
              *at++ = outer.at[s][static_cast<size_t>(b)] + walk.here()[s] + point * inner_stride(s);
        }
        taken.points += count;
        walk.advance(count);
      }
      inputs_.load(arguments, code_, slots, offsets, static_cast<int>(taken.points * blocks), step_.lane.lanes, held);
      execute(code_, slots, taken.points * blocks * step_.lane.lanes);
      Lane* x = slots[code_.results[0]];
      if (result_is_kept_) x = static_cast<Lane*>(__builtin_memcpy(spare(), x, sizeof(Lane) * kChunkLanes));
      folding_.take(acc, x, taken);
      left -= taken.points;
    }
  }

  int64_t inner_stride(size_t stream) const { return inner_.loops.empty() ? 0 : inner_.loops.back().stride[stream]; }

  // How many points of the innermost loop, from the walk's on, go with those taken: all are equally far apart.
  int64_t joins(FoldPoints& taken, const ChunkOffsets& outer, const NestWalk& walk, int64_t most) const {
    const int64_t block = outer.at[block_stream_][0] + walk.here()[block_stream_];
    const int64_t position = outer.at[block_stream_ + 1][0] + walk.here()[block_stream_ + 1];
    const bool at_tail = has_tail() && block == last_block_;
    int64_t count = at_tail ? 1 : std::min(most, walk.ahead());
    if (has_tail() && !at_tail && inner_stride(block_stream_) != 0) count = std::min(count, last_block_ - block);
    if (taken.points == 0) {
      taken.first_block = block;
      taken.block_step = inner_stride(block_stream_);
      taken.position = position;
      taken.position_step = inner_stride(block_stream_ + 1);
      if (at_tail) taken.valid = tail_lanes_;
      return count;
    }
    if (at_tail || taken.valid < step_.lane.lanes) return 0;
    const bool even = block == taken.first_block + taken.points * taken.block_step &&
                      position == taken.position + taken.points * taken.position_step;
    return even || folding_.regular() ? count : 0;
  }

  static Lane* spare() {
    alignas(64) static thread_local Lane lanes[kChunkLanes];
    return lanes;
  }

  void finish(const StepArguments& arguments, Accumulators result, const ChunkOffsets& outer, int blocks,
              int valid) const {
    const Slots& slots = RegisterFile::mine().slots();
    const bool packed = folding_.over_lanes();
    const int64_t lanes = packed ? kLaneUnit : int64_t{blocks} * step_.lane.lanes;
    set_constants(finish_, slots);
    const CompiledCode& code = finish_;
    std::copy_n(result.value, lanes, slots[code.inputs[0]]);
    if (is_arg(step_.combine)) std::copy_n(result.index, lanes, slots[code.inputs[1]]);
    size_t next = 2;
    for (const Operand& operand : step_.inputs)
      if (operand.kind == OperandKind::Scalar)
        std::fill_n(slots[code.inputs[next++]], lanes, arguments.scalars[static_cast<size_t>(operand.symbol)]);
    execute(code, slots, lanes);
    for (size_t i = 0; i < stores_.size(); ++i) {
      const Lane* source = slots[code.results[i]];
      const int64_t* offsets = outer.at[step_.inputs.size() + i].data();
      if (packed && stores_[i].lanes > 1)
        store_spread(stores_[i], source, arguments.outputs[i], offsets, blocks);
      else
        store_blocks(stores_[i], source, arguments.outputs[i], offsets, blocks, packed ? 1 : valid);
    }
    // The finish's slots are the code's too.
    set_constants(code_, slots);
    inputs_.set_kept(arguments, code_, slots);
  }

  // A total fills all lanes of its block.
  void store_spread(const Port& port, const Lane* totals, std::byte* base, const int64_t* offsets, int blocks) const {
    alignas(64) Lane spread[kChunkLanes];
    for (int b = 0; b < blocks; ++b) {
      std::fill_n(spread, port.lanes, totals[b]);
      store_blocks(port, spread, base, offsets + b, 1, port.lanes);
    }
  }

  void join(const StepArguments& arguments, const Partials& partials, int64_t first, int64_t last) const {
    int64_t point = first;
    all_outer_.each(on_one_core_, 0, first, last,
                    [&](const Nest& nest, const StreamOffsets& base, int64_t begin, int64_t end, int valid) {
                      NestWalk walk(nest, base, begin);
                      for (int64_t left = end - begin; left > 0; left -= outer_blocks_) {
                        const int blocks = static_cast<int>(std::min<int64_t>(outer_blocks_, left));
                        ChunkOffsets offsets;
                        walk.next(blocks, static_cast<int>(block_stream_) + 2, offsets);
                        join_chunk(arguments, partials, point, offsets, blocks, valid);
                        point += blocks;
                      }
                    });
  }

  void join_chunk(const StepArguments& arguments, const Partials& partials, int64_t point, const ChunkOffsets& offsets,
                  int blocks, int valid) const {
    alignas(64) Lane value[kChunkLanes], index[kChunkLanes];
    const int64_t lanes = blocks * partials.point;
    const Accumulators acc{value, index}, first = partials.at(0, point);
    if (folding_.over_lanes())
      std::fill_n(value, kLaneUnit, 0), std::fill_n(index, kLaneUnit, 0);  // `finish` takes a unit
    std::copy_n(first.value, lanes, value);
    if (first.index != nullptr) std::copy_n(first.index, lanes, index);
    for (int slice = 1; slice < slices_; ++slice) folding_.join(acc, partials.at(slice, point), lanes);
    finish(arguments, acc, offsets, blocks, valid);
  }

  static constexpr int64_t kAccumulatorLanes = kMaxChunkBlocks * kFoldLanes;
  static_assert(kMaxChunkBlocks <= kLaneUnit, "a unit holds the totals of a chunk");
  static constexpr int64_t kDirectBytes = 16 << 10;             // read in one call; the next are fetched meanwhile
  static constexpr int64_t kPageBytes = 4096, kPageApart = 16;  // rows whole pages apart: so many streams at once

  const Step& step_;
  Step on_one_core_;  // the step without its split, but for slices of a sum
  StepInputs inputs_;
  const std::vector<StreamOffsets> strides_;
  CompiledCode code_, finish_;
  std::vector<Port> stores_;
  Folding folding_;
  BoxParts outer_, all_outer_;
  Nest inner_;
  int64_t inner_points_ = 1, last_block_ = 0;
  int tail_lanes_ = 0;
  size_t block_stream_ = 0;
  RowFoldKernel direct_ = nullptr;  // folds the only input straight from memory
  int slices_ = 1;
  int outer_blocks_ = 1;
  bool result_is_kept_ = false, joins_cores_ = false;
};

}  // namespace

std::vector<CodeInput> reduce_finish_registers(const Step& step, RegisterType folded) {
  std::vector<CodeInput> registers{{folded_type(step.combine, folded), false}, {RegisterType::Int, false}};
  for (const Operand& operand : step.inputs)
    if (operand.kind == OperandKind::Scalar) registers.push_back({RegisterType::Any, false});
  return registers;
}

PreparedStepPtr prepare_reduce(const Step& step, Isa isa) { return std::make_unique<ReduceStep>(step, isa); }

}  // namespace openspyre
