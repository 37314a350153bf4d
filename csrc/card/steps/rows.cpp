// Rows steps (N4): a group of rows at a time, pass by pass; values stay in 32 bits until a result is stored.
#include "steps/rows.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "program/box_parts.h"
#include "program/prepared_step.h"
#include "program/step_inputs.h"
#include "streams/task_split.h"

namespace openspyre {
namespace {

// Chunk-sized lanes of the running thread, and whole rows behind them.
struct RowMemory {
  alignas(64) ChunkLanes chunk[kMaxRowRegisters];
  alignas(64) ChunkLanes scalar[kMaxRowScalars];  // spread over a chunk's points
  alignas(64) ChunkLanes reciprocal[kMaxRowScalars];
  alignas(64) Lane packed[kMaxRowScalars][kLaneUnit];  // one value per row, of rows along the lanes
  alignas(64) ChunkLanes constant[kMaxStageConstants];
  alignas(64) ChunkLanes accumulator[kMaxRowScalars];
  alignas(64) ChunkLanes slices[kMaxRowScalars];                  // sums of the slices that are done
  alignas(64) Lane kept[kMaxRowScalars * kMostRows * kLaneUnit];  // sums that blocks which end early leave alone
  alignas(64) std::byte codes[kChunkLanes * sizeof(uint16_t)];    // of an output's blocks that end early
  Lane* rows = nullptr;      // aligned: vectors that cross a line of the cache cost twice
  std::vector<Slots> slots;  // of each stage
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
        reciprocal_(vector_kernels(isa).map[static_cast<size_t>(Op::Reciprocal)]),
        unit_lanes_(vector_kernels(isa).unit_lanes),
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
    for (size_t s = 0; s < block_stream(); ++s)
      if (std::any_of(inner.begin(), inner.end(), [&](int k) { return strides_[static_cast<size_t>(k)][s] != 0; }))
        moving_.push_back(static_cast<uint8_t>(s));
    has_iota_ = std::any_of(step.inputs.begin(), step.inputs.end(),
                            [](const Operand& operand) { return operand.kind == OperandKind::Iota; });
    last_block_ = step.lane.block_loop < 0 ? 0 : step.loops[static_cast<size_t>(step.lane.block_loop)].extent - 1;
    tail_lanes_ = tail_lanes(step);
    bool short_rows = step.lane.reduced && row_points_ == 1 && !step.lane.store_padding;
    for (size_t i = 0; i < step.outputs.size(); ++i)  // of a total in all lanes of a stick, padding is stored as well
      if (is_packed(i) && step.outputs[i].kind == OperandKind::Vector) short_rows = false;
    row_lanes_ = short_rows ? whole_units(tail_lanes_) : step.lane.lanes;
    for (size_t i = 0; i < step.inputs.size(); ++i)
      may_be_shared_[i] = step.inputs[i].kind == OperandKind::Vector && plan_.stored_row[i] < 0;
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
                     Group group;
                     group.blocks = static_cast<int>(std::min<int64_t>(group_, left));
                     group.valid = valid;
                     walk.next(group.blocks, static_cast<int>(block_stream()) + 1, group.offsets);
                     find_steps(group);
                     run_group(arguments, memory, group, walk.here());
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

  // Rows that are worked on at once.
  struct Group {
    int blocks = 0;  // rows
    int valid = 0;
    ChunkOffsets offsets;
    std::array<std::optional<int64_t>, kMaxStreams> steps{};  // from a stream's row to the next, if all are alike
  };

  void find_steps(Group& group) const {
    for (size_t s = 0; s < block_stream(); ++s) {
      const auto& offsets = group.offsets.at[s];
      const int64_t step = group.blocks > 1 ? offsets[1] - offsets[0] : 0;
      const auto differs = [step](int64_t here, int64_t next) { return next - here != step; };
      const auto end = offsets.begin() + group.blocks;
      if (std::adjacent_find(offsets.begin(), end, differs) == end) group.steps[s] = step;
    }
  }

  // What a pass begins with is asked for a pass earlier, also for the rows from `next` on.
  void run_group(const StepArguments& arguments, RowMemory& memory, const Group& group,
                 const StreamOffsets& next) const {
    const RowPass *first = &plan_.passes.front(), *last = &plan_.passes.back();
    for (const RowPass* pass = first; pass <= last; ++pass) {
      if (pass + 1 == last) prefetch(arguments, *last, group, StreamOffsets{});
      if (pass == last && first != last) prefetch_rows(arguments, *first, group, next);
      run_pass(arguments, *pass, memory, group);
    }
  }

  void prefetch_rows(const StepArguments& arguments, const RowPass& pass, const Group& group,
                     const StreamOffsets& next) const {
    for (const uint8_t s : pass.loads)
      if (group.steps[s])
        for (int b = 0; b < (is_shared(s, group) ? 1 : group.blocks); ++b)
          prefetch_block(inputs_.port(s), arguments.inputs[s] + next[s] + b * *group.steps[s]);
  }

  // Whether all rows of the group read the same: its lanes are needed once.
  bool is_shared(size_t input, const Group& group) const { return may_be_shared_[input] && group.steps[input] == 0; }

  // The chunk a pass is at. A stream's block b is at offsets->at[stream][b] + shift[stream].
  struct Chunk {
    RowMemory& memory;
    const Group& group;
    const ChunkOffsets* offsets = nullptr;
    StreamOffsets shift{};
    int points = 0;          // of the row
    int64_t first = 0;       // point
    int64_t lane_block = 0;  // number of the lane block at the (only) point
    int reduce_valid = 0, store_valid = 0;
  };

  Lane* row_lanes(uint8_t row, const Chunk& chunk) const {
    if (row >= kRowScalar) return chunk.memory.scalar[row - kRowScalar];
    const int stored = plan_.stored_row[row];
    if (stored < 0) return chunk.memory.chunk[row];
    const int64_t block_lanes = int64_t{chunk.group.blocks} * step_.lane.lanes;
    return chunk.memory.rows + (stored * row_points_ + chunk.first) * block_lanes;
  }

  void run_pass(const StepArguments& arguments, const RowPass& pass, RowMemory& memory, const Group& group) const {
    for (const CompiledStage& stage : pass.stages)
      if (stage.kind == RowStage::Kind::Reduce)
        stage.folding.start({memory.accumulator[stage.target], nullptr},
                            group.blocks * stage.folding.lanes_per_block());
    NestWalk walk(inner_, StreamOffsets{}, 0);
    ChunkOffsets gathered;
    Chunk chunk{memory, group};
    while (chunk.first < row_points_) {
      next_chunk(walk, chunk, gathered);
      const bool whole = is_whole(pass, chunk);
      for (const uint8_t input : pass.loads)
        if (!inputs_.is_kept(input))
          load_blocks(inputs_.port(input), arguments.inputs[input] + chunk.shift[input],
                      chunk.offsets->at[input].data(),
                      whole && is_shared(input, group) ? 1 : chunk.points * group.blocks, row_lanes(input, chunk));
      prefetch(arguments, pass, group, walk.here());
      if (whole && ends_early(chunk))
        run_phrases_to_the_end(arguments, pass, chunk);
      else if (whole)
        run_phrases(arguments, pass.whole, chunk);
      for (const CompiledStage& stage : pass.stages)
        if (!whole) run_stage(arguments, stage, chunk);
      chunk.first += chunk.points;
      if (in_slices() && chunk.first % slice_points_ == 0) end_slice(pass, chunk);
    }
    for (const CompiledStage& stage : pass.stages)
      if (stage.kind == RowStage::Kind::Reduce) finish(arguments, stage, memory, group);
  }

  bool in_slices() const { return slice_points_ < row_points_; }

  // What cores would do apart: the sum of a slice of the row is complete, and added to those before it (N9).
  void end_slice(const RowPass& pass, const Chunk& chunk) const {
    for (const CompiledStage& stage : pass.stages) {
      if (stage.kind != RowStage::Kind::Reduce) continue;
      const Folding& folding = stage.folding;
      Lane *sums = chunk.memory.accumulator[stage.target], *before = chunk.memory.slices[stage.target];
      const int64_t lanes = chunk.group.blocks * folding.lanes_per_block();
      alignas(64) Lane totals[kLaneUnit];
      if (folding.over_lanes()) folding.total({sums, nullptr}, {totals, nullptr}, chunk.group.blocks);
      Lane* slice = folding.over_lanes() ? totals : sums;
      const int64_t values = folding.over_lanes() ? chunk.group.blocks : lanes;
      if (chunk.first == slice_points_)
        std::copy_n(slice, values, before);
      else
        folding.join({before, nullptr}, {slice, nullptr}, values);
      folding.start({sums, nullptr}, lanes);
    }
  }

  // Whether the pass's phrases serve the chunk: one point per row, of which no padding is stored.
  bool is_whole(const RowPass& pass, const Chunk& chunk) const {
    if (pass.whole.phrases.empty() || chunk.points != 1) return false;
    if (chunk.reduce_valid != chunk.store_valid) return false;
    const int output = pass.whole.stored_output;
    return output < 0 || chunk.group.steps[step_.inputs.size() + static_cast<size_t>(output)];
  }

  int64_t code_bytes() const { return step_.lane.lanes * static_cast<int64_t>(sizeof(uint16_t)); }  // of a block
  bool ends_early(const Chunk& chunk) const { return chunk.store_valid < step_.lane.lanes; }

  // Lanes of a block that phrases work on: those with elements, in whole units.
  int64_t width(const Chunk& chunk) const { return whole_units(chunk.store_valid); }
  int64_t whole_units(int lanes) const { return (lanes + unit_lanes_ - 1) / unit_lanes_ * unit_lanes_; }

  Link link_to(const StepArguments& arguments, RowPlace place, const Chunk& chunk) const {
    const int64_t block_bytes = step_.lane.lanes * static_cast<int64_t>(sizeof(Lane));
    const auto lanes = [&](Lane* first, int64_t step) { return Link{reinterpret_cast<std::byte*>(first), step}; };
    switch (place.kind) {
      case RowPlace::Kind::Row:
        return lanes(row_lanes(place.index, chunk), is_shared(place.index, chunk.group) ? 0 : block_bytes);
      case RowPlace::Kind::Scalar:
        return lanes(chunk.memory.scalar[place.index], block_bytes);
      case RowPlace::Kind::Reciprocal:
        return lanes(chunk.memory.reciprocal[place.index], block_bytes);
      case RowPlace::Kind::Constant:
        return lanes(chunk.memory.constant[place.index], 0);
      case RowPlace::Kind::Accumulator:
        return lanes(chunk.memory.accumulator[place.index], block_bytes);
      case RowPlace::Kind::Temporary:
        return lanes(RegisterFile::mine().slots()[place.index], block_bytes);
      case RowPlace::Kind::Output: {
        const size_t stream = step_.inputs.size() + place.index;
        if (ends_early(chunk)) return {chunk.memory.codes, code_bytes()};
        return {arguments.outputs[place.index] + chunk.offsets->at[stream][0] + chunk.shift[stream],
                *chunk.group.steps[stream]};
      }
    }
    return {};
  }

  void run_phrases(const StepArguments& arguments, const PassPhrases& whole, const Chunk& chunk) const {
    for (const PassPhrase& phrase : whole.phrases) {
      std::array<Link, kMostPhraseLinks> links;
      // Made here, one by one: a copy of a link just written would wait for all stores before it.
      for (size_t i = 0; i < phrase.places.size(); ++i)
        links[i] = link_to(arguments, whole.places[phrase.places[i]], chunk);
      phrase.kernel(links.data(), chunk.group.blocks * width(chunk), width(chunk));
    }
    for (const auto [output, row] : whole.outputs)
      store(arguments, static_cast<size_t>(output), row_lanes(row, chunk), chunk);
  }

  // The same where the row ends within a block: what lies behind its end is neither folded nor stored.
  void run_phrases_to_the_end(const StepArguments& arguments, const RowPass& pass, const Chunk& chunk) const {
    const int64_t behind = width(chunk) - chunk.store_valid;
    const auto each_sum = [&](auto move) {
      Lane* kept = chunk.memory.kept;
      for (const CompiledStage& stage : pass.stages) {
        if (stage.kind != RowStage::Kind::Reduce) continue;
        Lane* sums = chunk.memory.accumulator[stage.target] + chunk.store_valid;
        for (int b = 0; b < chunk.group.blocks; ++b, kept += behind, sums += step_.lane.lanes) move(sums, kept);
      }
    };
    each_sum([behind](const Lane* sums, Lane* kept) { std::copy_n(sums, behind, kept); });
    run_phrases(arguments, pass.whole, chunk);
    each_sum([behind](Lane* sums, const Lane* kept) { std::copy_n(kept, behind, sums); });
    if (pass.whole.stored_output < 0) return;
    const auto output = static_cast<size_t>(pass.whole.stored_output), stream = step_.inputs.size() + output;
    std::byte* target = arguments.outputs[output] + chunk.offsets->at[stream][0] + chunk.shift[stream];
    const BlockRun run{code_bytes(), *chunk.group.steps[stream], int64_t{chunk.store_valid} * stores_[output].itemsize};
    copy_run(chunk.memory.codes, target, chunk.group.blocks, run);
  }

  // The next point's blocks are far away; ask for them while this chunk is computed.
  void prefetch(const StepArguments& arguments, const RowPass& pass, const Group& group,
                const StreamOffsets& next) const {
    for (const uint8_t s : pass.loads)
      for (int b = 0; b < (is_shared(s, group) ? 1 : group.blocks); ++b)
        prefetch_block(inputs_.port(s), arguments.inputs[s] + group.offsets.at[s][static_cast<size_t>(b)] + next[s]);
    if (pass.whole.stored_output < 0) return;
    const auto output = static_cast<size_t>(pass.whole.stored_output), stream = step_.inputs.size() + output;
    for (int b = 0; b < group.blocks; ++b)
      prefetch_block(stores_[output],
                     arguments.outputs[output] + group.offsets.at[stream][static_cast<size_t>(b)] + next[stream]);
  }

  // As many points of the row as fit; the point with the partly filled lanes stands alone.
  void next_chunk(NestWalk& walk, Chunk& chunk, ChunkOffsets& gathered) const {
    const ChunkOffsets& outer = chunk.group.offsets;
    const int room = room_for_points(chunk.group.blocks);
    const int64_t end = (chunk.first / slice_points_ + 1) * slice_points_;
    chunk.points = 0;
    chunk.reduce_valid = step_.lane.lanes;
    chunk.store_valid = step_.lane.reduced ? step_.lane.lanes : chunk.group.valid;
    chunk.offsets = room == 1 && !has_iota_ ? &outer : &gathered;
    while (chunk.points < room && chunk.first + chunk.points < end) {
      chunk.lane_block = outer.at[block_stream()][0] + walk.here()[block_stream()];
      const bool at_tail = step_.lane.reduced && chunk.lane_block == last_block_ && tail_lanes_ < step_.lane.lanes;
      if (at_tail && chunk.points > 0) return;
      if (chunk.offsets == &outer)
        for (const uint8_t s : moving_) chunk.shift[s] = walk.here()[s];
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
      for (int b = 0; b < chunk.group.blocks; ++b)
        gathered.at[s][static_cast<size_t>(chunk.points * chunk.group.blocks + b)] =
            outer.at[s][static_cast<size_t>(b)] + here[s];
  }

  // The stage's slots with its row registers at the chunk.
  Slots& stage_slots(const CompiledStage& stage, const Chunk& chunk) const {
    Slots& slots = chunk.memory.slots[stage.number];
    for (size_t i = 0; i < stage.rows.size(); ++i) slots[stage.code.inputs[i]] = row_lanes(stage.rows[i], chunk);
    return slots;
  }

  void run_stage(const StepArguments& arguments, const CompiledStage& stage, const Chunk& chunk) const {
    const int64_t lanes = int64_t{chunk.points} * chunk.group.blocks * step_.lane.lanes;
    if (stage.kind == RowStage::Kind::Reduce) {
      Lane* row = row_lanes(stage.rows[0], chunk);
      // Folding overwrites padding lanes with the identity; the row itself must stay as it is.
      if (chunk.reduce_valid < step_.lane.lanes) row = std::copy_n(row, lanes, spare()) - lanes;
      return stage.folding.take({chunk.memory.accumulator[stage.target], nullptr}, row,
                                {.points = chunk.points,
                                 .blocks = chunk.group.blocks,
                                 .first_block = chunk.lane_block,
                                 .valid = chunk.reduce_valid});
    }
    Slots& slots = stage_slots(stage, chunk);
    if (stage.output >= 0 && stage.only_stored && chunk.store_valid == step_.lane.lanes) {
      const auto output = static_cast<size_t>(stage.output);
      const size_t stream = step_.inputs.size() + output;
      if (stores_at_once(stage.code, stores_[output]))
        return execute_to(stage.code, slots, stores_[output], arguments.outputs[output] + chunk.shift[stream],
                          chunk.offsets->at[stream].data(), chunk.points * chunk.group.blocks);
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
                 chunk.offsets->at[stream].data(), chunk.points * chunk.group.blocks, chunk.store_valid);
  }

  // The total becomes a row scalar, spread over a chunk as the code will read it.
  void finish(const StepArguments& arguments, const CompiledStage& stage, RowMemory& memory, const Group& group) const {
    const int blocks = group.blocks;
    const int64_t block_lanes = step_.lane.lanes, lanes = blocks * block_lanes;
    const bool packed = stage.folding.over_lanes();  // one value per row
    Lane *sums = memory.accumulator[stage.target], *total = packed ? memory.packed[stage.target] : sums;
    if (in_slices())
      std::copy_n(memory.slices[stage.target], packed ? blocks : lanes, total);
    else if (packed)
      stage.folding.total({sums, nullptr}, {total, nullptr}, blocks);
    const Chunk one{memory, group};
    Slots& slots = stage_slots(stage, one);
    slots[stage.code.inputs[0]] = total;
    for (size_t i = 1; packed && i < stage.rows.size(); ++i)
      if (stage.rows[i] >= kRowScalar) slots[stage.code.inputs[i]] = memory.packed[stage.rows[i] - kRowScalar];
    execute(stage.code, slots, packed ? kLaneUnit : lanes);
    const Lane* value = slots[stage.code.results[0]];
    Lane* scalar = memory.scalar[stage.target];
    if (packed) {
      std::copy_n(value, kLaneUnit, total);
      spread(total, blocks, scalar);
    } else {
      std::copy_n(value, lanes, scalar);
    }
    for (int64_t done = lanes; done + lanes <= kChunkLanes; done += lanes) std::copy_n(scalar, lanes, scalar + done);
    if (plan_.reciprocals[stage.target]) take_reciprocal(stage.target, packed, memory, blocks);
    if (stage.output < 0) return;
    const auto output = static_cast<size_t>(stage.output);
    store_blocks(stores_[output], stores_[output].lanes == 1 ? total : scalar, arguments.outputs[output],
                 group.offsets.at[step_.inputs.size() + output].data(), blocks,
                 step_.lane.reduced ? stores_[output].lanes : group.valid);
  }

  // A value per row, over the lanes of its blocks.
  void spread(const Lane* values, int blocks, Lane* target) const {
    for (int b = 0; b < blocks; ++b) std::fill_n(target + b * step_.lane.lanes, row_lanes_, values[b]);
  }

  void take_reciprocal(uint8_t scalar, bool packed, RowMemory& memory, int blocks) const {
    const Lane* value = packed ? memory.packed[scalar] : memory.scalar[scalar];
    alignas(64) Lane each[kLaneUnit];
    Lane* target = packed ? each : memory.reciprocal[scalar];
    reciprocal_(target, value, value, value, packed ? kLaneUnit : blocks * step_.lane.lanes);
    if (packed) spread(each, blocks, memory.reciprocal[scalar]);
  }

  const Step& step_;
  Step on_one_core_;  // the step without its split
  const StepInputs inputs_;
  const RowPlan plan_;
  const MapKernel reciprocal_;
  const int64_t unit_lanes_;
  std::vector<StreamOffsets> strides_;
  std::vector<Port> stores_;
  BoxParts outer_, all_outer_;
  bool joins_cores_ = false;
  Nest inner_;
  std::vector<uint8_t> moving_;  // streams that move along the row
  int64_t row_points_ = 1, slice_points_ = 1, last_block_ = 0;
  int tail_lanes_ = 0;
  int64_t row_lanes_ = 0;  // of a block that any element of a row is in
  int group_ = 1;
  std::array<bool, kMaxRowRegisters> may_be_shared_{};  // inputs that are loaded for their chunk alone
  bool has_iota_ = false;                               // its offsets are its values
};

}  // namespace

PreparedStepPtr prepare_rows(const Step& step, Isa isa) { return std::make_unique<RowsStep>(step, isa); }

}  // namespace openspyre
