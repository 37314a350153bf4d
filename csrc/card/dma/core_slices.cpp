// Which part of a step each core has, and which memory it can touch there.
#include <algorithm>

#include "program/step_runner.h"

namespace openspyre {

int core_count(const Step& step) {
  int cores = 1;
  for (const Loop& loop : step.loops) cores *= loop.split;
  return cores;
}

CoreBox core_box(const Step& step, int core) {
  CoreBox box;
  for (size_t k = 0; k < step.loops.size(); ++k) {
    const Loop& loop = step.loops[k];
    box.extent[k] = loop.extent / loop.split;
    box.begin[k] = core % loop.split * box.extent[k];
    core /= loop.split;
  }
  return box;
}

namespace {

// Number: int64 where a step is known to be sound, wider where that is still to be found out.
template <typename Number>
struct Span {
  Number first, last;

  void widen(Number count, Number stride) {
    const Number reach = (count - 1) * stride;
    (reach < 0 ? first : last) += reach;
  }
  void shift(Number by) {
    first += by;
    last += by;
  }
};

template <typename Number>
void widen_lanes(Span<Number>& span, const Operand& operand, int64_t lanes) {
  const int64_t stick = elems_per_stick(operand.element.format);
  if (operand.kind != OperandKind::Vector || stick == 0) return;
  span.widen(std::max<int64_t>(1, lanes / stick), operand.tile_stride);
  span.widen(std::min(lanes, stick), 1);
}

// Blocks whose lanes are a stride apart: of the last one, only those that are there.
template <typename Number>
void widen_blocks(Span<Number>& span, const Step& step, const Operand& operand, const CoreBox& box) {
  const auto loop = static_cast<size_t>(step.lane.block_loop);
  const bool one = step.lane.block_loop < 0;
  const int64_t begin = one ? 0 : box.begin[loop], blocks = one ? 1 : box.extent[loop];
  const Number stride = one ? 0 : operand.stride[loop], tile = operand.tile_stride;
  const int64_t lanes =
      std::clamp<int64_t>(step.lane.extent - (begin + blocks - 1) * step.lane.lanes, 1, step.lane.lanes);
  Span<Number> last = span;
  last.shift((blocks - 1) * stride);
  last.widen(lanes, tile);
  if (blocks > 1) {
    span.widen(blocks - 1, stride);
    span.widen(step.lane.lanes, tile);
    last = {std::min(span.first, last.first), std::max(span.last, last.last)};
  }
  span = last;
}

// What an index can choose: rows `index_stride` apart, or without one the elements along the table's sticks.
template <typename Number>
void widen_table(Span<Number>& span, const Step& step, const Operand& table) {
  const int64_t bound = std::max<int64_t>(1, step.index_bound);
  const int64_t stick = elems_per_stick(table.element.format);
  if (step.index_stride != 0 || stick == 0) return span.widen(bound, step.index_stride);
  if (step.inputs[1].kind != OperandKind::Vector) return;
  span.widen((bound + stick - 1) / stick, table.tile_stride);
  span.widen(std::min(bound, stick), 1);
}

template <typename Number>
Span<Number> span_of(const Step& step, const Operand& operand, const CoreBox& box) {
  Span<Number> span{operand.offset, operand.offset};
  const bool across = operand.kind == OperandKind::Strided;
  for (size_t k = 0; k < step.loops.size(); ++k) {
    span.shift(static_cast<Number>(box.begin[k]) * operand.stride[k]);
    if (!across || static_cast<int>(k) != step.lane.block_loop) span.widen(box.extent[k], operand.stride[k]);
  }
  if (operand.kind == OperandKind::Iota) {
    span.widen(step.lane.lanes, operand.tile_stride);
    return span;
  }
  const bool contract = step.kind == StepKind::Contract;
  const bool is_a = contract && !step.inputs.empty() && &operand == &step.inputs[0];
  const bool is_b = contract && step.inputs.size() > 1 && &operand == &step.inputs[1];
  const bool along_k = is_a || (is_b && step.b_along_k);
  if (across)
    widen_blocks(span, step, operand, box);
  else
    widen_lanes(span, operand, along_k ? step.k_lanes : step.lane.lanes);
  if (is_b) span.widen(step.b_along_k ? step.lane.lanes : step.k_lanes, step.b_row_stride);
  if (is_table(step, operand)) widen_table(span, step, operand);
  return span;
}

CoreBox whole_box(const Step& step) {
  CoreBox box;
  for (size_t k = 0; k < step.loops.size(); ++k) box.extent[k] = step.loops[k].extent;
  return box;
}

}  // namespace

bool is_table(const Step& step, const Operand& operand) {
  if (step.kind == StepKind::Gather) return step.inputs.size() > 1 && &operand == &step.inputs[0];
  return step.kind == StepKind::Scatter && !step.outputs.empty() && &operand == &step.outputs[0];
}

ElementSpan operand_span(const Step& step, const Operand& operand, int core) {
  if (operand.kind == OperandKind::Iota || operand.kind == OperandKind::Scalar) return {};
  const CoreBox box = core < 0 ? whole_box(step) : core_box(step, core);
  for (size_t k = 0; k < step.loops.size(); ++k)
    if (box.extent[k] == 0) return {};
  const Span<int64_t> span = span_of<int64_t>(step, operand, box);
  return {span.first, span.last};
}

bool reaches_too_far(const Step& step, const Operand& operand) {
  const auto far = [](int64_t stride) { return stride >= kFarthestElement || stride <= -kFarthestElement; };
  if (std::any_of(operand.stride.begin(), operand.stride.end(), far)) return true;
  if (far(operand.offset) || far(operand.tile_stride) || far(step.b_row_stride) || far(step.index_stride)) return true;
  const Span<__int128> span = span_of<__int128>(step, operand, whole_box(step));
  return span.first <= -kFarthestElement || span.last >= kFarthestElement;
}

}  // namespace openspyre
