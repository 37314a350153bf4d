// Which part of a step each core has, and which memory it can touch there.
#include <algorithm>

#include "step_runner.h"

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

void widen(ElementSpan& span, int64_t count, int64_t stride) {
  const int64_t reach = (count - 1) * stride;
  (reach < 0 ? span.first : span.last) += reach;
}

void widen_lanes(ElementSpan& span, const Operand& operand, int64_t lanes) {
  const int64_t stick = elems_per_stick(operand.element.format);
  if (operand.kind != OperandKind::Vector || stick == 0) return;
  widen(span, std::max<int64_t>(1, lanes / stick), operand.tile_stride);
  widen(span, std::min(lanes, stick), 1);
}

}  // namespace

ElementSpan operand_span(const Step& step, const Operand& operand, int core) {
  if (operand.kind == OperandKind::Iota || operand.kind == OperandKind::Scalar) return {};
  CoreBox box;
  for (size_t k = 0; k < step.loops.size(); ++k) box.extent[k] = step.loops[k].extent;
  if (core >= 0) box = core_box(step, core);
  ElementSpan span{operand.offset, operand.offset};
  for (size_t k = 0; k < step.loops.size(); ++k) {
    if (box.extent[k] == 0) return {};
    span.first += box.begin[k] * operand.stride[k];
    span.last += box.begin[k] * operand.stride[k];
    widen(span, box.extent[k], operand.stride[k]);
  }
  const bool contract = step.kind == StepKind::Contract;
  const bool is_a = contract && !step.inputs.empty() && &operand == &step.inputs[0];
  const bool is_b = contract && step.inputs.size() > 1 && &operand == &step.inputs[1];
  const bool is_table = (step.kind == StepKind::Gather && &operand == &step.inputs[0]) ||
                        (step.kind == StepKind::Scatter && &operand == &step.outputs[0]);
  const bool along_k = is_a || (is_b && step.b_along_k);
  widen_lanes(span, operand, along_k ? step.k_lanes : step.lane.lanes);
  if (is_b) widen(span, step.b_along_k ? step.lane.lanes : step.k_lanes, step.b_row_stride);
  if (is_table) widen(span, std::max<int64_t>(1, step.index_bound), step.index_stride);
  return span;
}

}  // namespace openspyre
