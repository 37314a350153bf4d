#include "sanitizer/sanitize_walk.h"

#include <algorithm>
#include <bit>
#include <span>

#include "program/box_parts.h"
#include "steps/contract.h"

namespace openspyre::sanitize {
namespace {

std::string label(const Program& program, const Operand& operand, const char* role, size_t i) {
  std::string text = std::string(role) + ' ' + std::to_string(i);
  const auto symbol = static_cast<size_t>(operand.symbol);
  if (operand.space == Space::Scratchpad) return text + " in the scratchpad";
  if (symbol < program.symbol_names.size()) return text + " '" + program.symbol_names[symbol] + "'";
  return text + (program.symbol_names.empty() ? "" : " (a temporary)");
}

// What the code's registers are loaded with: a gather or scatter has one value, a rows step no code of its own.
std::span<const Operand> code_inputs(const Step& step) {
  const bool indexed = step.kind == StepKind::Gather || step.kind == StepKind::Scatter;
  return {step.inputs.data(), indexed ? 1 : step.inputs.size()};
}

std::vector<StreamOffsets> strides_with_block(const Step& step, size_t block_stream) {
  std::vector<StreamOffsets> strides = stream_strides(step);
  if (step.lane.block_loop >= 0) strides[static_cast<size_t>(step.lane.block_loop)][block_stream] = 1;
  return strides;
}

}  // namespace

StepWalk::StepWalk(Card& card, const Program& program, const Step& step, const LaunchArguments& launch,
                   Findings& findings)
    : card_(card),
      step_(step),
      launch_(launch),
      findings_(findings),
      bases_(step.inputs.size()),
      taints_(step.inputs.size()),
      code_(step.code, code_inputs(step), step.outputs, step.lane),
      block_stream_(step.inputs.size() + step.outputs.size()) {
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const bool along_k = step.kind == StepKind::Contract && (i == 0 || step.b_along_k);
    inputs_.emplace_back(step, step.inputs[i], static_cast<int>(i), label(program, step.inputs[i], "input", i),
                         along_k ? step.k_lanes : step.lane.lanes);
  }
  for (size_t i = 0; i < step.outputs.size(); ++i)
    outputs_.emplace_back(step, step.outputs[i], kMaxOperands + static_cast<int>(i),
                          label(program, step.outputs[i], "output", i), step.lane.lanes);
  if (program.whole_sticks)
    for (auto* accesses : {&inputs_, &outputs_})
      for (OperandAccess& access : *accesses) access.walk_whole_sticks();
  if (step.kind == StepKind::Gather || step.kind == StepKind::Scatter)
    index_port_ = load_port(step.inputs[1], step.lane.lanes, vector_kernels(active_isa()));
  if (step.kind == StepKind::Scan || step.kind == StepKind::Sort || step.kind == StepKind::Contract) return;
  strides_ = strides_with_block(step, block_stream_);
  last_block_ = step.lane.block_loop < 0 ? 0 : step.loops[static_cast<size_t>(step.lane.block_loop)].extent - 1;
}

void StepWalk::aim(int core) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Operand& operand = step_.inputs[i];
    std::byte* base = locate(card_, step_, operand, launch_, core);
    inputs_[i].aim(core, base, locate_tensor(card_, step_, operand, launch_, core), findings_, log_);
    bases_[i] = base;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Operand& operand = step_.outputs[i];
    outputs_[i].aim(core, locate(card_, step_, operand, launch_, core),
                    locate_tensor(card_, step_, operand, launch_, core), findings_, log_);
  }
}

template <typename Body>
void StepWalk::each_point(int core, bool with_reduced, Body&& body) const {
  std::vector<int> loops;
  for (size_t k = 0; k < step_.loops.size(); ++k)
    if (with_reduced || !step_.loops[k].reduced) loops.push_back(static_cast<int>(k));
  const CoreBox box = core_box(step_, core);
  const Nest nest = make_nest(strides_, box, loops);
  NestWalk walk(nest, stream_base(strides_, box), 0);
  const int tail = tail_lanes(step_);
  for (int64_t left = nest.points(); left > 0; --left, walk.advance())
    body(walk.here(), walk.here()[block_stream_] == last_block_ ? tail : step_.lane.lanes);
}

// --- reading, following, writing
// ---------------------------------------------------------------------------------------

void StepWalk::read_inputs(const StreamOffsets& at, int valid) {
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].read(at[i], valid, taints_[i]);
}

void StepWalk::blame(const StreamOffsets& at, int lane, ByteState cause) const {
  for (size_t i = 0; i < taints_.size(); ++i)
    if (taints_[i].any && taints_[i].lane[static_cast<size_t>(lane)] == static_cast<uint8_t>(cause))
      return inputs_[i].report_taint(inputs_[i].memory_of(at[i], lane), cause);
}

void StepWalk::report_wrap(size_t result, const StreamOffsets& at, int valid) const {
  const FollowedCode::Wrap wrap = code_.wrap_in(result, valid);
  if (wrap.lane < 0 || step_.outputs[result].element.dtype != DType::Int64) return;
  outputs_[result].report(FindingKind::IntegerWrap, outputs_[result].memory_of(at[inputs_.size() + result], wrap.lane),
                          std::string(name(wrap.op)) + " gives " + std::to_string(wrap.value) +
                              ", which wraps: int64 lives on the card as int32");
}

void StepWalk::follow(size_t result, const StreamOffsets& at, int valid) {
  code_.join(result, std::span(taints_).first(code_inputs(step_).size()), result_);
  int lane = result_.first(valid);
  if (findings_.harmless() && ((lane >= 0 && code_.selects()) || code_.may_wrap())) {
    code_.replay(bases_, at.data(), launch_.scalars, taints_, valid);
    report_wrap(result, at, valid);
    result_ = code_.taint_of(result);
    lane = result_.first(valid);
  }
  const bool copied = step_.kind == StepKind::Map && code_.copies(result);
  if (lane >= 0 && !copied) blame(at, lane, static_cast<ByteState>(result_.lane[static_cast<size_t>(lane)]));
}

// A Splat stores lane 0 alone.
int StepWalk::stored_lanes(size_t output, int valid) const {
  return step_.outputs[output].kind == OperandKind::Splat ? 1 : valid;
}

void StepWalk::write(size_t output, const StreamOffsets& at, int valid, bool whole_block) {
  const int lanes = step_.lane.lanes;
  if (whole_block) valid = lanes;
  outputs_[output].write(at[inputs_.size() + output], valid, step_.lane.store_padding ? lanes : valid, result_);
}

void StepWalk::require_clean_inputs(const StreamOffsets& at, int valid) {
  read_inputs(at, valid);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const int lane = taints_[i].first(valid);
    if (lane < 0) continue;
    inputs_[i].report_taint(inputs_[i].memory_of(at[i], lane),
                            static_cast<ByteState>(taints_[i].lane[static_cast<size_t>(lane)]));
  }
}

// --- kinds of steps
// ----------------------------------------------------------------------------------------------------

void StepWalk::map(int core) {
  each_point(core, true, [&](const StreamOffsets& at, int valid) {
    read_inputs(at, valid);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      follow(i, at, stored_lanes(i, valid));
      write(i, at, valid, false);
    }
  });
}

void StepWalk::reduce(int core) {
  each_point(core, true, [&](const StreamOffsets& at, int valid) {
    read_inputs(at, valid);
    follow(0, at, step_.lane.reduced ? valid : stored_lanes(0, valid));
  });
  if (!stores(step_, core)) return;
  result_.clear(step_.lane.lanes);
  each_point(core, false, [&](const StreamOffsets& at, int valid) {
    for (size_t i = 0; i < outputs_.size(); ++i) write(i, at, valid, step_.lane.reduced);
  });
}

bool StepWalk::is_row_scalar(size_t output) const { return step_.row_results[output] >= kRowScalar; }

void StepWalk::rows(int core) {
  each_point(core, true, [&](const StreamOffsets& at, int valid) { require_clean_inputs(at, valid); });
  result_.clear(step_.lane.lanes);
  for (const bool scalars : {false, true}) {
    if (scalars && !stores(step_, core)) return;
    each_point(core, !scalars, [&](const StreamOffsets& at, int valid) {
      for (size_t i = 0; i < outputs_.size(); ++i)
        if (is_row_scalar(i) == scalars) write(i, at, valid, scalars && step_.lane.reduced);
    });
  }
}

// By rows of A and rows of B: what is worthless there is worthless in a whole row or column of the result.
void StepWalk::contract(int core) {
  CoreBox box = core_box(step_, core);
  for (size_t k = 0; k < step_.loops.size(); ++k)
    if (step_.loops[k].reduced) box.begin[k] = 0, box.extent[k] = step_.loops[k].extent;
  const contract::Plan plan = contract::plan(step_, box);
  const auto each_stick = [](const std::vector<int64_t>& sticks, const Operand& operand, int64_t extent, auto&& body) {
    const int64_t per_stick = elems_per_stick(operand.element.format);
    for (size_t s = 0; s < sticks.size(); ++s)
      body(sticks[s], std::min(per_stick, extent - static_cast<int64_t>(s) * per_stick));
  };
  const OperandAccess &a = inputs_[0], &b = inputs_[1], &c = outputs_[0];
  for (const contract::Plan::Batch& batch : plan.batches) {
    for (const int64_t row : plan.a_row)
      each_stick(plan.a_stick, a.operand(), plan.k,
                 [&](int64_t stick, int64_t count) { a.require_run((batch.a + row + stick) * a.itemsize(), count); });
    for (int64_t r = 0; r < (plan.b_along_k ? plan.n : plan.k); ++r) {
      const int64_t row =
          plan.b_block[static_cast<size_t>(r / plan.b_block_rows)] + r % plan.b_block_rows * plan.b_row_stride;
      each_stick(plan.b_stick, b.operand(), plan.b_along_k ? plan.k : plan.n,
                 [&](int64_t stick, int64_t count) { b.require_run((batch.b + row + stick) * b.itemsize(), count); });
    }
  }
  for (const contract::Plan::Batch& batch : plan.batches)
    for (const int64_t row : plan.c_row)
      each_stick(plan.c_stick, c.operand(), plan.n,
                 [&](int64_t stick, int64_t count) { c.write_run((batch.c + row + stick) * c.itemsize(), count); });
}

// --- through an index
// --------------------------------------------------------------------------------------------------

bool StepWalk::load_index(const StreamOffsets& at, int valid) {
  OperandAccess& index = inputs_[1];
  index.read(at[1], valid, taints_[1]);
  const int lane = taints_[1].first(valid);
  if (lane >= 0)
    index.report(FindingKind::TaintedAddress, index.memory_of(at[1], lane),
                 taints_[1].lane[static_cast<size_t>(lane)] == static_cast<uint8_t>(ByteState::Tainted)
                     ? "an index computed from padding chooses an address"
                     : "an index that nobody has written chooses an address");
  taints_[1].clear(step_.lane.lanes);
  if (lane >= 0 || !findings_.harmless()) return false;
  load_blocks(index_port_, bases_[1], &at[1], 1, index_.data());
  const int indices = step_.inputs[1].kind == OperandKind::Vector ? valid : 1;
  for (Lane& i : std::span(index_).first(static_cast<size_t>(indices))) {
    i = indexed_row(i, step_.index_bound);
    if (i >= static_cast<uint64_t>(step_.index_bound)) return false;
  }
  return true;
}

// Bytes from the first element of a table to the one that a lane's index names.
int64_t StepWalk::chosen_by(int lane, const OperandAccess& table) const {
  const Lane i = index_[static_cast<size_t>(lane)];
  if (step_.index_stride != 0) return int64_t{i} * step_.index_stride * table.itemsize();
  const auto stick = static_cast<Lane>(elems_per_stick(table.operand().element.format));
  return (i / stick * table.operand().tile_stride + i % stick) * table.itemsize();
}

void StepWalk::gather_lanes(const StreamOffsets& at, int valid) {
  const OperandAccess& table = inputs_[0];
  taints_[0].clear(step_.lane.lanes);
  for (int lane = 0; lane < valid; ++lane) table.require_run(at[0] + chosen_by(lane, table), 1);
}

void StepWalk::gather(int core) {
  const bool per_lane = step_.inputs[1].kind == OperandKind::Vector;
  each_point(core, true, [&](const StreamOffsets& at, int valid) {
    if (!load_index(at, valid)) return;
    StreamOffsets moved = at;
    if (per_lane) {
      gather_lanes(at, valid);
    } else {
      moved[0] += int64_t{index_[0]} * step_.index_stride * inputs_[0].itemsize();
      inputs_[0].read(moved[0], valid, taints_[0]);
    }
    if (per_lane)
      result_.clear(step_.lane.lanes);
    else
      follow(0, moved, stored_lanes(0, valid));
    write(0, at, valid, false);
  });
}

void StepWalk::scatter(int core) {
  const bool per_lane = step_.inputs[1].kind == OperandKind::Vector;
  each_point(core, true, [&](const StreamOffsets& at, int valid) {
    if (!load_index(at, valid)) return;
    inputs_[0].read(at[0], valid, taints_[0]);
    follow(0, at, per_lane ? valid : stored_lanes(0, valid));
    StreamOffsets moved = at;
    if (!per_lane) {
      moved[2] += int64_t{index_[0]} * step_.index_stride * outputs_[0].itemsize();
      return scatter_into(moved, valid);
    }
    result_.clear(step_.lane.lanes);  // what is worthless has been reported
    for (int lane = 0; lane < valid; ++lane) {
      moved[2] = at[2] + chosen_by(lane, outputs_[0]);
      scatter_into(moved, 1);
    }
  });
}

void StepWalk::scatter_into(const StreamOffsets& at, int valid) {
  if (step_.accumulate) {
    LaneTaint old;
    outputs_[0].read(at[2], valid, old);
    const int lane = old.first(stored_lanes(0, valid));
    if (lane >= 0)
      outputs_[0].report_taint(outputs_[0].memory_of(at[2], lane),
                               static_cast<ByteState>(old.lane[static_cast<size_t>(lane)]));
  }
  write(0, at, valid, false);
}

void StepWalk::ordered(int core) {
  const CoreBox box = core_box(step_, core);
  const int64_t length = step_.loops[1].extent;
  const int64_t kept = step_.kind == StepKind::Sort ? step_.loops[2].extent : length;
  for (int64_t row = box.begin[0]; row < box.begin[0] + box.extent[0]; ++row) {
    inputs_[0].require_run(row * step_.inputs[0].stride[0] * inputs_[0].itemsize(), length);
    for (size_t i = 0; i < outputs_.size(); ++i)
      outputs_[i].write_run(row * step_.outputs[i].stride[0] * outputs_[i].itemsize(), kept);
  }
}

}  // namespace openspyre::sanitize
