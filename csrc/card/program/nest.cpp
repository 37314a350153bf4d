#include "program/nest.h"

#include <algorithm>
#include <cstdlib>

namespace openspyre {
namespace {

int64_t unit_of(const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::Vector:
    case OperandKind::Splat:
    case OperandKind::Strided:
      return device_itemsize(operand.element.format);
    case OperandKind::Iota:
      return 1;
    case OperandKind::Scalar:
      return 0;
  }
  return 0;
}

const Operand& stream_operand(const Step& step, size_t stream) {
  return stream < step.inputs.size() ? step.inputs[stream] : step.outputs[stream - step.inputs.size()];
}

size_t stream_count(const Step& step) { return step.inputs.size() + step.outputs.size(); }

bool continues(const NestLoop& outer, const NestLoop& inner) {
  for (size_t s = 0; s < kMaxStreams; ++s)
    if (outer.stride[s] != inner.stride[s] * inner.extent) return false;
  return true;
}

}  // namespace

int64_t Nest::points() const {
  int64_t points = 1;
  for (const NestLoop& loop : loops) points *= loop.extent;
  return points;
}

std::vector<StreamOffsets> stream_strides(const Step& step) {
  std::vector<StreamOffsets> strides(step.loops.size());
  for (size_t k = 0; k < step.loops.size(); ++k) {
    for (size_t s = 0; s < stream_count(step); ++s) {
      const Operand& operand = stream_operand(step, s);
      if (const int64_t unit = unit_of(operand)) strides[k][s] = operand.stride[k] * unit;
    }
  }
  return strides;
}

StreamOffsets stream_base(std::span<const StreamOffsets> strides, const CoreBox& box) {
  StreamOffsets base{};
  for (size_t k = 0; k < strides.size(); ++k)
    for (size_t s = 0; s < kMaxStreams; ++s) base[s] += box.begin[k] * strides[k][s];
  return base;
}

Nest make_nest(std::span<const StreamOffsets> strides, const CoreBox& box, std::span<const int> loops) {
  Nest nest;
  for (const int k : loops) {
    const NestLoop loop{box.extent[static_cast<size_t>(k)], strides[static_cast<size_t>(k)]};
    if (loop.extent == 1) continue;
    if (!nest.loops.empty() && continues(nest.loops.back(), loop)) {
      const int64_t passes = nest.loops.back().extent;
      nest.loops.back() = {passes * loop.extent, loop.stride};
    } else {
      nest.loops.push_back(loop);
    }
  }
  for (const NestLoop& loop : nest.loops)
    for (int s = 0; s < kMaxStreams; ++s)
      if (loop.stride[static_cast<size_t>(s)] != 0) nest.streams = std::max(nest.streams, s + 1);
  return nest;
}

void sort_by_stride(std::span<const StreamOffsets> strides, size_t stream, std::vector<int>& loops) {
  const auto stride = [&](int k) { return std::llabs(strides[static_cast<size_t>(k)][stream]); };
  std::stable_sort(loops.begin(), loops.end(), [&](int a, int b) { return stride(a) > stride(b); });
}

NestWalk::NestWalk(const Nest& nest, const StreamOffsets& base, int64_t first) : nest_(nest), here_(base) {
  for (size_t k = nest.loops.size(); k-- > 0;) {
    const NestLoop& loop = nest.loops[k];
    index_[k] = first % loop.extent;
    first /= loop.extent;
    for (size_t s = 0; s < static_cast<size_t>(nest.streams); ++s) here_[s] += index_[k] * loop.stride[s];
  }
}

// Points of the innermost loop are equally far apart: all of them that are asked for are told at once.
void NestWalk::next(int points, int streams, ChunkOffsets& offsets) {
  const size_t moving = static_cast<size_t>(std::min(streams, nest_.streams));
  for (size_t s = moving; s < static_cast<size_t>(streams); ++s) std::fill_n(offsets.at[s].begin(), points, here_[s]);
  for (size_t p = 0; p < static_cast<size_t>(points);) {
    if (nest_.loops.empty()) {
      for (size_t s = 0; s < moving; ++s) offsets.at[s][p] = here_[s];
      ++p;
      continue;
    }
    const size_t last = nest_.loops.size() - 1;
    const NestLoop& inner = nest_.loops[last];
    const auto count = std::min<int64_t>(points - static_cast<int64_t>(p), inner.extent - index_[last]);
    for (size_t s = 0; s < moving; ++s) {
      int64_t* at = &offsets.at[s][p];
      for (int64_t i = 0; i < count; ++i) at[i] = here_[s] + i * inner.stride[s];
    }
    p += static_cast<size_t>(count);
    advance(count);
  }
}

void NestWalk::advance(int64_t points) {
  if (!nest_.loops.empty()) {
    const NestLoop& inner = nest_.loops.back();
    index_[nest_.loops.size() - 1] += points - 1;
    for (size_t s = 0; s < static_cast<size_t>(nest_.streams); ++s) here_[s] += (points - 1) * inner.stride[s];
  }
  advance();
}

void NestWalk::advance() {
  for (size_t k = nest_.loops.size(); k-- > 0;) {
    const NestLoop& loop = nest_.loops[k];
    const bool wraps = ++index_[k] == loop.extent;
    const int64_t steps = wraps ? 1 - loop.extent : 1;
    for (size_t s = 0; s < static_cast<size_t>(nest_.streams); ++s) here_[s] += steps * loop.stride[s];
    if (!wraps) return;
    index_[k] = 0;
  }
}

}  // namespace openspyre
