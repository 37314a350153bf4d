// Rows steps (N4): a group of rows at a time, pass by pass; values stay in 32 bits until a result is stored.
#include "rows.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "box_parts.h"
#include "prepared_step.h"
#include "step_inputs.h"
#include "task_split.h"

namespace openspyre {
namespace {

// Chunk-sized lanes of the running thread, and whole rows behind them.
struct RowMemory {
  alignas(64) ChunkLanes chunk[kMaxRowRegisters];
  alignas(64) ChunkLanes scalar[kMaxRowScalars];  // spread over a chunk's points
  alignas(64) ChunkLanes constant[kMaxStageConstants];
  alignas(64) ChunkLanes accumulator[kMaxRowScalars];
  alignas(64) ChunkLanes slices[kMaxRowScalars];  // sums of the slices that are done
  Lane* rows = nullptr;                           // aligned: vectors that cross a line of the cache cost twice
  std::vector<Slots> slots;                       // of each stage
  void make_room(size_t lanes) {
    if (room_.size() >= lanes + kLineLanes) return;
    room_.resize(lanes + kLineLanes);
    void* first = room_.data();
    size_t bytes = room_.size() * sizeof(Lane);
    rows = static_cast<Lane*>(std::align(64, lanes * sizeof(Lane), first, bytes));
  }
  static RowMemory& mine() {
    static thread_local RowMemory memory;
    return memory;
  }

 private:
  static constexpr size_t kLineLanes = 64 / sizeof(Lane);
  std::vector<Lane> room_;
};

class RowsStep final : public PreparedStep {
 public:
  RowsStep(const Step& step, Isa isa)
      : step_(step),
        on_one_core_(step),
        inputs_(step, isa),
        plan_(plan_rows(step, vector_kernels(isa))),
        strides_(stream_strides(step)) {
    if (step.lane.reduced && step.lane.block_loop >= 0)
      strides_[static_cast<size_t>(step.lane.block_loop)][block_stream()] = 1;
    std::vector<int> outer, inner;
    for (size_t k = 0; k < step.loops.size(); ++k)
      (step.loops[k].reduced ? inner : outer).push_back(static_cast<int>(k));
    sort_by_stride(strides_, 0, outer);
    outer_ = BoxParts(step, strides_, outer);
    for (Loop& loop : on_one_core_.loops) loop.split = 1;
    all_outer_ = BoxParts(on_one_core_, strides_, outer);
    joins_cores_ = core_count(step) > 1 && all_in_memory(step);
    const CoreBox box = core_box(on_one_core_, 0);
    inner_ = make_nest(strides_, box, inner);
    for (const int k : inner) row_points_ *= box.extent[static_cast<size_t>(k)];
    slice_points_ = row_points_;
    for (const int k : inner) slice_points_ /= step.loops[static_cast<size_t>(k)].split;
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const bool packed = is_packed(i) && step.outputs[i].kind == OperandKind::Splat;
      stores_.push_back(store_port(step.outputs[i], plan_.types[i], packed ? 1 : step.lane.lanes, vector_kernels(isa)));
    }
    has_iota_ = std::any_of(step.inputs.begin(), step.inputs.end(),
                            [](const Operand& operand) { return operand.kind == OperandKind::Iota; });
    last_block_ = step.lane.block_loop < 0 ? 0 : step.loops[static_cast<size_t>(step.lane.block_loop)].extent - 1;
    tail_lanes_ = tail_lanes(step);
    for (size_t i = 0; i < step.inputs.size(); ++i)
      shared_[i] =
          step.inputs[i].kind == OperandKind::Vector && plan_.stored_row[i] < 0 &&
          std::all_of(outer.begin(), outer.end(), [&](int k) { return strides_[static_cast<size_t>(k)][i] == 0; });
    const int64_t row_bytes = std::max<int64_t>(1, plan_.stored_rows * row_points_ * step.lane.lanes * 4);
    group_ = static_cast<int>(std::clamp<int64_t>(kRowMemoryBytes / row_bytes, 4, kMostRows));
    group_ = static_cast<int>(
        std::clamp<int64_t>((joins_cores_ ? all_outer_ : outer_).points(), 1, std::min(group_, chunk_blocks(step))));
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    if (joins_cores_ && cores.count == core_count(step_))
      run_box(arguments, on_one_core_, all_outer_, {0, 1});
    else
      run_box(arguments, step_, outer_, cores);
  }

 private:
  void run_box(const StepArguments& arguments, const Step& step, const BoxParts& outer, CoreRange cores) const {
    const TaskSplit split(cores.count, outer.points(), group_, row_points_ * step.lane.lanes);
    split.run([&](int core, int64_t first, int64_t last) {
      RowMemory& memory = RowMemory::mine();
      start_thread(arguments, memory);
      outer.each(step, cores.first + core, first, last,
                 [&](const Nest& nest, const StreamOffsets& base, int64_t begin, int64_t end, int valid) {
                   NestWalk walk(nest, base, begin);
                   for (int64_t left = end - begin; left > 0; left -= group_) {
                     const int blocks = static_cast<int>(std::min<int64_t>(group_, left));
                     ChunkOffsets offsets;
                     walk.next(blocks, static_cast<int>(block_stream()) + 1, offsets);
                     for (const RowPass& pass : plan_.passes) run_pass(arguments, pass, memory, offsets, blocks, valid);
                   }
                 });
    });
  }

  // A stream of the runner's own, after the operands': the lane block's number.
  size_t block_stream() const { return step_.inputs.size() + step_.outputs.size(); }

  // A row scalar of rows along the lanes is one value per row.
  bool is_packed(size_t output) const { return step_.lane.reduced && plan_.results[output] >= kRowScalar; }

  void start_thread(const StepArguments& arguments, RowMemory& memory) const {
    const auto lanes = static_cast<size_t>(plan_.stored_rows * row_points_ * group_ * step_.lane.lanes);
    memory.make_room(lanes);
    for (size_t i = 0; i < plan_.constants.size(); ++i)
      std::fill_n(memory.constant[i], kChunkLanes, plan_.constants[i]);
    memory.slots.assign(step_.stages.size(), RegisterFile::mine().slots());
    for (const RowPass& pass : plan_.passes)
      for (const CompiledStage& stage : pass.stages)
        for (size_t i = 0; i < stage.code.constants.size(); ++i)
          memory.slots[stage.number][stage.code.constants[i].target] = memory.constant[stage.first_constant + i];
    CompiledCode inputs;  // kept inputs go straight to their row registers
    Slots slots{};
    for (size_t i = 0; i < step_.inputs.size(); ++i) {
      inputs.inputs.push_back(static_cast<uint8_t>(i));
      slots[i] = memory.chunk[i];
    }
    inputs_.set_kept(arguments, inputs, slots);
  }

  // The chunk a pass is at. A stream's block b is at offsets->at[stream][b] + shift[stream].
  struct Chunk {
    RowMemory& memory;
    const ChunkOffsets* offsets = nullptr;
    StreamOffsets shift{};
    int points = 0;          // of the row
    int blocks = 0;          // rows
    int64_t first = 0;       // point
    int64_t lane_block = 0;  // number of the lane block at the (only) point
    int reduce_valid = 0, store_valid = 0;
  };

  Lane* row_lanes(uint8_t row, const Chunk& chunk) const {
    if (row >= kRowScalar) return chunk.memory.scalar[row - kRowScalar];
    const int stored = plan_.stored_row[row];
    if (stored < 0) return chunk.memory.chunk[row];
    const int64_t block_lanes = int64_t{chunk.blocks} * step_.lane.lanes;
    return chunk.memory.rows + (stored * row_points_ + chunk.first) * block_lanes;
  }

  void run_pass(const StepArguments& arguments, const RowPass& pass, RowMemory& memory, const ChunkOffsets& outer,
                int blocks, int valid) const {
    for (const CompiledStage& stage : pass.stages)
      if (stage.kind == RowStage::Kind::Reduce)
        stage.folding.start({memory.accumulator[stage.target], nullptr}, blocks * stage.folding.lanes_per_block());
    NestWalk walk(inner_, StreamOffsets{}, 0);
    ChunkOffsets gathered;
    Chunk chunk{memory};
    chunk.blocks = blocks;
    while (chunk.first < row_points_) {
      next_chunk(walk, outer, valid, chunk, gathered);
      const bool whole = is_whole(pass, chunk);
      for (const uint8_t input : pass.loads)
        if (!inputs_.registers()[input].kept)
          load_blocks(inputs_.port(input), arguments.inputs[input] + chunk.shift[input],
                      chunk.offsets->at[input].data(), whole && shared_[input] ? 1 : chunk.points * blocks,
                      row_lanes(input, chunk));
      prefetch(arguments, pass, outer, walk.here(), blocks);
      if (whole) run_phrases(arguments, pass.whole, chunk);
      for (const CompiledStage& stage : pass.stages)
        if (!whole) run_stage(arguments, stage, chunk);
      chunk.first += chunk.points;
      if (in_slices() && chunk.first % slice_points_ == 0) end_slice(pass, chunk);
    }
    for (const CompiledStage& stage : pass.stages)
      if (stage.kind == RowStage::Kind::Reduce) finish(arguments, stage, memory, outer, blocks, valid);
  }

  bool in_slices() const { return slice_points_ < row_points_; }

  // What cores would do apart: the sum of a slice of the row is complete, and added to those before it (N9).
  void end_slice(const RowPass& pass, const Chunk& chunk) const {
    for (const CompiledStage& stage : pass.stages) {
      if (stage.kind != RowStage::Kind::Reduce) continue;
      const Folding& folding = stage.folding;
      Lane *sums = chunk.memory.accumulator[stage.target], *before = chunk.memory.slices[stage.target];
      const int64_t lanes = chunk.blocks * folding.lanes_per_block();
      alignas(64) Lane totals[kLaneUnit];
      if (folding.over_lanes()) folding.total({sums, nullptr}, {totals, nullptr}, chunk.blocks);
      Lane* slice = folding.over_lanes() ? totals : sums;
      const int64_t values = folding.over_lanes() ? chunk.blocks : lanes;
      if (chunk.first == slice_points_)
        std::copy_n(slice, values, before);
      else
        folding.join({before, nullptr}, {slice, nullptr}, values);
      folding.start({sums, nullptr}, lanes);
    }
  }

  // How far apart the chunk's blocks are in memory, if all are equally far.
  static std::optional<int64_t> block_step(const std::array<int64_t, kMaxChunkBlocks>& offsets, int blocks) {
    const int64_t step = blocks > 1 ? offsets[1] - offsets[0] : 0;
    for (size_t b = 1; b < static_cast<size_t>(blocks); ++b)
      if (offsets[b] - offsets[b - 1] != step) return std::nullopt;
    return step;
  }

  // Whether the pass's phrases serve the chunk: one point per row, all lanes hold elements.
  bool is_whole(const RowPass& pass, const Chunk& chunk) const {
    if (pass.whole.phrases.empty() || chunk.points != 1) return false;
    if (chunk.reduce_valid != step_.lane.lanes || chunk.store_valid != step_.lane.lanes) return false;
    const int output = pass.whole.stored_output;
    return output < 0 || block_step(chunk.offsets->at[step_.inputs.size() + static_cast<size_t>(output)], chunk.blocks);
  }

  Link link_to(const StepArguments& arguments, RowPlace place, const Chunk& chunk) const {
    const int64_t block_bytes = step_.lane.lanes * static_cast<int64_t>(sizeof(Lane));
    const auto lanes = [&](Lane* first, int64_t step) { return Link{reinterpret_cast<std::byte*>(first), step}; };
    switch (place.kind) {
      case RowPlace::Kind::Row:
        return lanes(row_lanes(place.index, chunk), shared_[place.index] ? 0 : block_bytes);
      case RowPlace::Kind::Scalar:
        return lanes(chunk.memory.scalar[place.index], block_bytes);
      case RowPlace::Kind::Constant:
        return lanes(chunk.memory.constant[place.index], 0);
      case RowPlace::Kind::Accumulator:
        return lanes(chunk.memory.accumulator[place.index], block_bytes);
      case RowPlace::Kind::Temporary:
        return lanes(RegisterFile::mine().slots()[place.index], block_bytes);
      case RowPlace::Kind::Output: {
        const size_t stream = step_.inputs.size() + place.index;
        const auto& offsets = chunk.offsets->at[stream];
        return {arguments.outputs[place.index] + offsets[0] + chunk.shift[stream], *block_step(offsets, chunk.blocks)};
      }
    }
    return {};
  }

  void run_phrases(const StepArguments& arguments, const PassPhrases& whole, const Chunk& chunk) const {
    std::array<Link, kMostPlaces> places;
    for (size_t i = 0; i < whole.places.size(); ++i) places[i] = link_to(arguments, whole.places[i], chunk);
    for (const PassPhrase& phrase : whole.phrases) {
      std::array<Link, kMostPhraseLinks> links;
      for (size_t i = 0; i < phrase.places.size(); ++i) links[i] = places[phrase.places[i]];
      phrase.kernel(links.data(), int64_t{chunk.blocks} * step_.lane.lanes, step_.lane.lanes);
    }
    for (const auto [output, row] : whole.outputs)
      store(arguments, static_cast<size_t>(output), row_lanes(row, chunk), chunk);
  }

  // The next point's blocks are far away; ask for them while this chunk is computed.
  void prefetch(const StepArguments& arguments, const RowPass& pass, const ChunkOffsets& outer,
                const StreamOffsets& next, int blocks) const {
    for (const uint8_t s : pass.loads)
      for (int b = 0; b < (shared_[s] ? 1 : blocks); ++b)
        prefetch_block(inputs_.port(s), arguments.inputs[s] + outer.at[s][static_cast<size_t>(b)] + next[s]);
    if (pass.whole.stored_output < 0) return;
    const auto output = static_cast<size_t>(pass.whole.stored_output), stream = step_.inputs.size() + output;
    for (int b = 0; b < blocks; ++b)
      prefetch_block(stores_[output],
                     arguments.outputs[output] + outer.at[stream][static_cast<size_t>(b)] + next[stream]);
  }

  // As many points of the row as fit; the point with the partly filled lanes stands alone.
  void next_chunk(NestWalk& walk, const ChunkOffsets& outer, int valid, Chunk& chunk, ChunkOffsets& gathered) const {
    const int room = room_for_points(chunk.blocks);
    const int64_t end = (chunk.first / slice_points_ + 1) * slice_points_;
    chunk.points = 0;
    chunk.reduce_valid = step_.lane.lanes;
    chunk.store_valid = step_.lane.reduced ? step_.lane.lanes : valid;
    chunk.offsets = room == 1 && !has_iota_ ? &outer : &gathered;
    while (chunk.points < room && chunk.first + chunk.points < end) {
      chunk.lane_block = outer.at[block_stream()][0] + walk.here()[block_stream()];
      const bool at_tail = step_.lane.reduced && chunk.lane_block == last_block_ && tail_lanes_ < step_.lane.lanes;
      if (at_tail && chunk.points > 0) return;
      if (chunk.offsets == &outer)
        std::copy_n(walk.here().begin(), block_stream(), chunk.shift.begin());
      else
        gather(outer, walk.here(), chunk, gathered);
      walk.advance();
      ++chunk.points;
      if (!at_tail) continue;
      chunk.reduce_valid = tail_lanes_;
      chunk.store_valid = step_.lane.store_padding ? step_.lane.lanes : tail_lanes_;
      return;
    }
  }

  int room_for_points(int blocks) const {
    const bool alone = step_.lane.reduced && step_.lane.lanes != kFoldLanes;
    return alone ? 1 : std::max(1, chunk_blocks(step_) / blocks);
  }

  void gather(const ChunkOffsets& outer, const StreamOffsets& here, const Chunk& chunk, ChunkOffsets& gathered) const {
    for (size_t s = 0; s < block_stream(); ++s)
      for (int b = 0; b < chunk.blocks; ++b)
        gathered.at[s][static_cast<size_t>(chunk.points * chunk.blocks + b)] =
            outer.at[s][static_cast<size_t>(b)] + here[s];
  }

  // The stage's slots with its row registers at the chunk.
  Slots& stage_slots(const CompiledStage& stage, const Chunk& chunk) const {
    Slots& slots = chunk.memory.slots[stage.number];
    for (size_t i = 0; i < stage.rows.size(); ++i) slots[stage.code.inputs[i]] = row_lanes(stage.rows[i], chunk);
    return slots;
  }

  void run_stage(const StepArguments& arguments, const CompiledStage& stage, const Chunk& chunk) const {
    const int64_t lanes = int64_t{chunk.points} * chunk.blocks * step_.lane.lanes;
    if (stage.kind == RowStage::Kind::Reduce) {
      Lane* row = row_lanes(stage.rows[0], chunk);
      // Folding overwrites padding lanes with the identity; the row itself must stay as it is.
      if (chunk.reduce_valid < step_.lane.lanes) row = std::copy_n(row, lanes, spare()) - lanes;
      return stage.folding.take({chunk.memory.accumulator[stage.target], nullptr}, row,
                                {.points = chunk.points,
                                 .blocks = chunk.blocks,
                                 .first_block = chunk.lane_block,
                                 .valid = chunk.reduce_valid});
    }
    Slots& slots = stage_slots(stage, chunk);
    if (stage.output >= 0 && stage.only_stored && chunk.store_valid == step_.lane.lanes) {
      const auto output = static_cast<size_t>(stage.output);
      const size_t stream = step_.inputs.size() + output;
      if (stores_at_once(stage.code, stores_[output]))
        return execute_to(stage.code, slots, stores_[output], arguments.outputs[output] + chunk.shift[stream],
                          chunk.offsets->at[stream].data(), chunk.points * chunk.blocks);
    }
    Lane* target = row_lanes(stage.target, chunk);
    if (stage.binds_target) slots[stage.code.results[0]] = target;
    execute(stage.code, slots, lanes);
    if (!stage.binds_target) std::copy_n(slots[stage.code.results[0]], lanes, target);
    if (stage.output >= 0) store(arguments, static_cast<size_t>(stage.output), target, chunk);
  }

  static Lane* spare() {
    alignas(64) static thread_local Lane lanes[kChunkLanes];
    return lanes;
  }

  void store(const StepArguments& arguments, size_t output, const Lane* lanes, const Chunk& chunk) const {
    const size_t stream = step_.inputs.size() + output;
    store_blocks(stores_[output], lanes, arguments.outputs[output] + chunk.shift[stream],
                 chunk.offsets->at[stream].data(), chunk.points * chunk.blocks, chunk.store_valid);
  }

  // The total becomes a row scalar, spread over a chunk as the code will read it.
  void finish(const StepArguments& arguments, const CompiledStage& stage, RowMemory& memory, const ChunkOffsets& outer,
              int blocks, int valid) const {
    const int64_t block_lanes = step_.lane.lanes, lanes = blocks * block_lanes;
    Lane* total = memory.accumulator[stage.target];
    alignas(64) Lane totals[kLaneUnit];
    const bool packed = stage.folding.over_lanes();
    if (in_slices())
      std::copy_n(memory.slices[stage.target], packed ? blocks : lanes, packed ? totals : total);
    else if (packed)
      stage.folding.total({total, nullptr}, {totals, nullptr}, blocks);
    if (packed) {
      for (int b = 0; b < blocks; ++b) std::fill_n(total + b * block_lanes, block_lanes, totals[b]);
    }
    Chunk one{memory};
    one.blocks = blocks;
    Slots& slots = stage_slots(stage, one);
    slots[stage.code.inputs[0]] = total;
    execute(stage.code, slots, lanes);
    const Lane* value = slots[stage.code.results[0]];
    Lane* scalar = memory.scalar[stage.target];
    for (int64_t done = 0; done + lanes <= kChunkLanes; done += lanes) std::copy_n(value, lanes, scalar + done);
    if (stage.output < 0) return;
    const auto output = static_cast<size_t>(stage.output);
    if (stores_[output].lanes == 1) {
      for (int b = 0; b < blocks; ++b) totals[b] = value[b * block_lanes];
      value = totals;
    }
    store_blocks(stores_[output], value, arguments.outputs[output], outer.at[step_.inputs.size() + output].data(),
                 blocks, step_.lane.reduced ? stores_[output].lanes : valid);
  }

  const Step& step_;
  Step on_one_core_;  // the step without its split
  const StepInputs inputs_;
  const RowPlan plan_;
  std::vector<StreamOffsets> strides_;
  std::vector<Port> stores_;
  BoxParts outer_, all_outer_;
  bool joins_cores_ = false;
  Nest inner_;
  int64_t row_points_ = 1, slice_points_ = 1, last_block_ = 0;
  int tail_lanes_ = 0;
  int group_ = 1;
  std::array<bool, kMaxRowRegisters> shared_{};  // inputs that are the same for all rows
  bool has_iota_ = false;                        // its offsets are its values
};

}  // namespace

PreparedStepPtr prepare_rows(const Step& step, Isa isa) { return std::make_unique<RowsStep>(step, isa); }

}  // namespace openspyre
