// From the loops and strides of a Contract step to the tables its kernels walk.
#include <algorithm>
#include <string>

#include "error.h"
#include "steps/contract.h"

namespace openspyre::contract {
namespace {

// Axes of the step. -1 where all of n or k lies in one block without a loop.
struct Axes {
  int n = -1, k = -1;
};

Axes find_axes(const Step& step) {
  Axes axes{step.lane.block_loop, -1};
  for (int i = 0; i < static_cast<int>(step.loops.size()); ++i)
    if (step.loops[static_cast<size_t>(i)].reduced) axes.k = i;
  return axes;
}

std::string formats_problem(const Step& step) {
  const DataFormat a = step.inputs[0].element.format, b = step.inputs[1].element.format;
  const DataFormat c = step.outputs[0].element.format;
  const auto known = [](DataFormat format) {
    return format == DataFormat::SEN169_FP16 || format == DataFormat::IEEE_FP32;
  };
  if (a != b) return std::string("A is ") + name(a) + " and B is " + name(b) + "; convert one of them first";
  if (!known(a)) return std::string("there is no kernel for operands in ") + name(a);
  if (!known(c)) return std::string("there is no kernel for a result in ") + name(c);
  for (const DataFormat format : {b, c})
    if (step.lane.lanes % elems_per_stick(format) != 0)
      return "blocks of " + std::to_string(step.lane.lanes) + " lanes along n are no whole sticks of " + name(format);
  if (step.k_lanes < 1 || step.k_lanes % elems_per_stick(a) != 0)
    return "blocks of " + std::to_string(step.k_lanes) + " lanes along k are no whole sticks of " + name(a);
  return "";
}

// The tables of a plan are as long as the loops say: what the loops do not cover lies outside of the operands' spans.
std::string loops_problem(const Step& step) {
  const auto reduced =
      std::count_if(step.loops.begin(), step.loops.end(), [](const Loop& loop) { return loop.reduced; });
  if (reduced > 1) return "it has two reduced loops; merge them into one loop of k blocks";
  const Axes axes = find_axes(step);
  if (step.lane.reduced || (axes.n >= 0 && axes.n == axes.k)) return "the lanes run along n, which is not reduced";
  const int64_t blocks = axes.k < 0 ? 1 : step.loops[static_cast<size_t>(axes.k)].extent;
  const bool ends = blocks == 1 ? step.k_extent >= 0 : step.k_extent > step.k_lanes * (blocks - 1);
  if (!ends || step.k_extent > step.k_lanes * blocks)
    return "a k of " + std::to_string(step.k_extent) + " does not end in the last of " + std::to_string(blocks) +
           " blocks of " + std::to_string(step.k_lanes);
  return "";
}

}  // namespace

std::string problem_of(const Step& step) {
  if (step.inputs.size() != 2 || step.outputs.size() != 1) return "it needs two inputs and one output";
  for (const Operand* operand : {&step.inputs[0], &step.inputs[1], &step.outputs[0]})
    if (operand->kind != OperandKind::Vector) return "its operands are read and written along their sticks, as Vector";
  const std::string formats = formats_problem(step);
  return formats.empty() ? loops_problem(step) : formats;
}

namespace {

int64_t stride_of(const Operand& operand, int loop) { return loop < 0 ? 0 : operand.stride[static_cast<size_t>(loop)]; }

// Offset of every stick along an axis whose blocks have `lanes` elements.
std::vector<int64_t> stick_offsets(const Operand& operand, int loop, int64_t first_block, int64_t lanes,
                                   int64_t extent) {
  const int64_t per_stick = elems_per_stick(operand.element.format);
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>((extent + per_stick - 1) / per_stick));
  for (int64_t at = 0; at < extent; at += per_stick)
    offsets.push_back((first_block + at / lanes) * stride_of(operand, loop) +
                      at % lanes / per_stick * operand.tile_stride);
  return offsets;
}

// Elements of an axis that lie in the box: whole blocks, but for the last block of the axis.
int64_t extent_in_box(const CoreBox& box, int loop, int64_t lanes, int64_t extent) {
  if (loop < 0) return extent;
  const auto i = static_cast<size_t>(loop);
  return std::max<int64_t>(0, std::min((box.begin[i] + box.extent[i]) * lanes, extent) - box.begin[i] * lanes);
}

// All points of the loops that `wanted` selects, as offsets into A, B and C.
template <typename Wanted>
std::vector<Plan::Batch> points(const Step& step, const CoreBox& box, Wanted wanted) {
  std::vector<Plan::Batch> found = {{0, 0, 0}};
  for (size_t loop = 0; loop < step.loops.size(); ++loop) {
    if (!wanted(static_cast<int>(loop))) continue;
    const Plan::Batch stride = {step.inputs[0].stride[loop], step.inputs[1].stride[loop], step.outputs[0].stride[loop]};
    std::vector<Plan::Batch> outer;
    outer.swap(found);
    found.reserve(outer.size() * static_cast<size_t>(box.extent[loop]));
    for (const Plan::Batch& at : outer)
      for (int64_t i = box.begin[loop]; i < box.begin[loop] + box.extent[loop]; ++i)
        found.push_back({at.a + i * stride.a, at.b + i * stride.b, at.c + i * stride.c});
  }
  return found;
}

// Rows of B along an axis whose blocks have `lanes` of them.
void plan_b_rows(Plan& plan, const Step& step, int loop, int64_t first_block, int64_t lanes, int64_t extent) {
  const int64_t stride = stride_of(step.inputs[1], loop), blocks = (extent + lanes - 1) / lanes;
  const bool even = blocks <= 1 || stride == lanes * step.b_row_stride;
  plan.b_row_stride = step.b_row_stride;
  plan.b_block_rows = even ? std::max<int64_t>(extent, 1) : lanes;
  for (int64_t block = 0; block < (even ? 1 : blocks); ++block) plan.b_block.push_back((first_block + block) * stride);
}

void plan_slices(Plan& plan, const Step& step, const Axes& axes) {
  const int64_t split = axes.k < 0 ? 1 : step.loops[static_cast<size_t>(axes.k)].split;
  const int64_t blocks_per_slice = axes.k < 0 ? 1 : step.loops[static_cast<size_t>(axes.k)].extent / split;
  for (int64_t slice = 0; slice < split; ++slice)
    plan.slices.push_back(std::min(slice * blocks_per_slice * step.k_lanes, plan.k));
  plan.slices.push_back(plan.k);
}

constexpr int64_t kMostColumns = 1 << 14;  // a plan is made at every launch

// Loops along which A stays where it is become more columns, stick by stick: A is then widened once for many of them.
// Returns which loops those are.
std::vector<bool> widen_columns(Plan& plan, const Step& step, const CoreBox& box, const Axes& axes) {
  const Operand &a = step.inputs[0], &b = step.inputs[1], &c = step.outputs[0];
  std::vector<bool> taken(step.loops.size());
  const int64_t whole = std::max(elems_per_stick(b.element.format), elems_per_stick(c.element.format));
  if (step.b_along_k || plan.n == 0 || plan.n % whole != 0) return taken;
  int64_t columns = plan.n;
  for (size_t loop = step.loops.size(); loop-- > 0;) {
    const bool named = static_cast<int>(loop) == axes.n || static_cast<int>(loop) == axes.k;
    const bool only_b = a.stride[loop] == 0 && b.stride[loop] != 0 && c.stride[loop] != 0;
    const int64_t extent = box.extent[loop];
    if (named || !only_b || extent == 0 || columns * extent > kMostColumns) continue;
    columns *= extent;
    taken[loop] = true;
  }
  const std::vector<int64_t> b_stick = std::move(plan.b_stick), c_stick = std::move(plan.c_stick);
  plan.b_stick.clear(), plan.c_stick.clear();
  for (const Plan::Batch& at : points(step, box, [&](int loop) { return taken[static_cast<size_t>(loop)]; })) {
    for (const int64_t stick : b_stick) plan.b_stick.push_back(stick + at.b);
    for (const int64_t stick : c_stick) plan.c_stick.push_back(stick + at.c);
  }
  plan.n = columns;
  return taken;
}

}  // namespace

Plan plan(const Step& step, const CoreBox& box) {
  if (const std::string problem = problem_of(step); !problem.empty())
    fail(Fault::InvalidArgument, "cannot contract in step '" + step.name + "': " + problem);
  const Axes axes = find_axes(step);
  const Operand &a = step.inputs[0], &b = step.inputs[1], &c = step.outputs[0];
  Plan plan;
  plan.operands = a.element.format;
  plan.result = c.element.format;
  plan.k = step.k_extent;
  plan.n = extent_in_box(box, axes.n, step.lane.lanes, step.lane.extent);
  const int64_t first_block = axes.n < 0 ? 0 : box.begin[static_cast<size_t>(axes.n)];
  plan.a_stick = stick_offsets(a, axes.k, 0, step.k_lanes, plan.k);
  plan.c_stick = stick_offsets(c, axes.n, first_block, step.lane.lanes, plan.n);
  plan.b_along_k = step.b_along_k;
  if (!step.a_code.results.empty()) plan.a_code = &step.a_code;
  if (!step.b_code.results.empty()) plan.b_code = &step.b_code;
  if (step.b_along_k) {
    plan.b_stick = stick_offsets(b, axes.k, 0, step.k_lanes, plan.k);
    plan_b_rows(plan, step, axes.n, first_block, step.lane.lanes, plan.n);
  } else {
    plan.b_stick = stick_offsets(b, axes.n, first_block, step.lane.lanes, plan.n);
    plan_b_rows(plan, step, axes.k, 0, step.k_lanes, plan.k);
  }
  plan_slices(plan, step, axes);

  const std::vector<bool> wider = widen_columns(plan, step, box, axes);
  const auto outer = [&](int loop) { return loop != axes.n && loop != axes.k && !wider[static_cast<size_t>(loop)]; };
  const auto shares_b = [&](int loop) { return b.stride[static_cast<size_t>(loop)] == 0; };
  plan.batches = points(step, box, [&](int loop) { return outer(loop) && !shares_b(loop); });
  for (const Plan::Batch& row : points(step, box, [&](int loop) { return outer(loop) && shares_b(loop); })) {
    plan.a_row.push_back(row.a);
    plan.c_row.push_back(row.c);
  }
  plan.m = static_cast<int64_t>(plan.a_row.size());
  return plan;
}

}  // namespace openspyre::contract
