// Random affine nests for the engine's tests: loops, lanes, splits, and operands with permuted, gapped or zero strides.
#pragma once

#include <algorithm>
#include <numeric>

#include "naive_steps.h"

namespace naive {

// Values that meet: small numbers, zeros, infinities and NaN patterns.
inline std::vector<std::byte> random_bytes(Random& random, DeviceElement element, int64_t elements) {
  std::vector<std::byte> bytes(static_cast<size_t>(elements * device_itemsize(element.format)));
  for (int64_t i = 0; i < elements; ++i) {
    std::byte* at = bytes.data() + i * device_itemsize(element.format);
    const int64_t kind = pick(random, 0, 40);
    if (is_int(element)) {
      const auto word = static_cast<int32_t>(kind == 0 ? static_cast<int64_t>(random()) : pick(random, -9, 9));
      std::memcpy(at, &word, static_cast<size_t>(device_itemsize(element.format)));
    } else if (element == kFp8) {
      *at = static_cast<std::byte>(random());
    } else {
      const float value = kind == 0   ? INFINITY
                          : kind == 1 ? -INFINITY
                          : kind < 5  ? 0.0f
                                      : std::normal_distribution<float>(0, 3)(random);
      encode(element, bits(value), false, at);
      if (element == kHalf && kind == 7) encode(element, bits(1e9f), false, at);
      if (element == kFloat && kind == 8 && pick(random, 0, 9) == 0) encode(element, bits(NAN), false, at);
    }
  }
  return bytes;
}

// Splits an extent evenly; the product over all loops stays within the cores.
inline int32_t random_split(Random& random, int64_t extent, int32_t& cores) {
  const auto split = static_cast<int32_t>(pick(random, 1, 4));
  if (extent % split != 0 || cores * split > 32 || pick(random, 0, 1) == 0) return 1;
  cores *= split;
  return split;
}

inline Step random_nest(Random& random, int32_t lanes, int64_t largest) {
  Step step;
  const int64_t loops = pick(random, 0, 4);
  int32_t cores = 1;
  for (int64_t k = 0; k < loops; ++k) {
    Loop loop;
    loop.extent = pick(random, 1, k == 0 ? largest : 6);
    loop.split = random_split(random, loop.extent, cores);
    step.loops.push_back(loop);
  }
  step.lane.lanes = lanes;
  step.lane.block_loop = static_cast<int32_t>(pick(random, -1, loops - 1));
  const int64_t blocks = step.lane.block_loop < 0 ? 1 : step.loops[static_cast<size_t>(step.lane.block_loop)].extent;
  step.lane.extent = lanes * blocks - (pick(random, 0, 1) == 0 ? 0 : pick(random, 0, lanes - 1));
  step.lane.store_padding = pick(random, 0, 2) == 0;
  return step;
}

// Places the points of the loops for which `moves` holds without overlap, in random order, with gaps.
inline Operand random_operand(Random& random, const Step& step, Launch& launch, DeviceElement element, OperandKind kind,
                              const std::function<bool(size_t)>& moves) {
  Operand operand;
  operand.kind = kind;
  operand.element = element;
  operand.stride.assign(step.loops.size(), 0);
  const int64_t stick = elems_per_stick(element.format);
  int64_t extent = 1;
  if (kind == OperandKind::Vector) {
    const int64_t tiles = step.lane.lanes / stick;
    operand.tile_stride = stick * (tiles > 1 ? pick(random, 1, 2) : 1);
    extent = tiles * operand.tile_stride;
  }
  // Lanes that are a stride apart go round like another loop, some loops inside of them.
  const bool strided = kind == OperandKind::Strided;
  std::vector<size_t> order(step.loops.size() + (strided ? 1 : 0));
  std::iota(order.begin(), order.end(), 0);
  if (pick(random, 0, 1) == 0) std::shuffle(order.begin(), order.end(), random);
  if (pick(random, 0, 2) == 0) std::reverse(order.begin(), order.end());
  int64_t first = 0;
  for (const size_t k : order) {
    if (k == step.loops.size()) {
      operand.tile_stride = extent;
      extent = extent * step.lane.lanes + (pick(random, 0, 1) == 0 ? stick : 0);
      continue;
    }
    if (!moves(k)) continue;
    operand.stride[k] = extent;
    extent = extent * step.loops[k].extent + (pick(random, 0, 3) == 0 ? stick : 0);
    if (pick(random, 0, 9) != 0) continue;  // walk it backwards
    first += operand.stride[k] * (step.loops[k].extent - 1);
    operand.stride[k] = -operand.stride[k];
  }
  operand.offset = first + pick(random, 0, 2) * stick;
  operand.symbol = launch.add(random_bytes(random, element, extent + 3 * stick));
  return operand;
}

// Along sticks or across them; lanes that are a stride apart have nothing behind the last element.
inline OperandKind random_reading(Random& random, const Step& step) {
  return step.lane.extent % step.lane.lanes == 0 && pick(random, 0, 2) == 0 ? OperandKind::Strided
                                                                            : OperandKind::Vector;
}

inline Operand random_iota(Random& random, const Step& step) {
  Operand operand;
  operand.kind = OperandKind::Iota;
  operand.element = kInt;
  for (size_t k = 0; k < step.loops.size(); ++k) operand.stride.push_back(pick(random, -5, 70));
  operand.offset = pick(random, -3, 3);
  operand.tile_stride = pick(random, 0, 3);
  return operand;
}

// Well-typed code over the given inputs; ends with one fp32 and one int32 register among the results' candidates.
struct RandomCode {
  VectorCode code;
  std::vector<uint8_t> floats, ints;

  RandomCode(Random& random, const std::vector<bool>& input_is_int, int64_t length) {
    for (size_t i = 0; i < input_is_int.size(); ++i)
      (input_is_int[i] ? ints : floats).push_back(static_cast<uint8_t>(i));
    auto next = static_cast<uint8_t>(input_is_int.size());
    code.constants.push_back({next, bits(static_cast<float>(pick(random, -3, 3)) * 0.25f)});
    floats.push_back(next++);
    code.constants.push_back({next, static_cast<Bits>(pick(random, -3, 3))});
    ints.push_back(next++);
    for (int64_t i = 0; i < length && next < kMaxRegisters; ++i) add(random, next);
  }

  uint8_t any(Random& random, const std::vector<uint8_t>& from) const {
    return from[static_cast<size_t>(pick(random, 0, static_cast<int64_t>(from.size()) - 1))];
  }

  void add(Random& random, uint8_t& next) {
    constexpr Op kOps[] = {Op::Add, Op::Sub,  Op::Mul, Op::Fma,        Op::Neg,        Op::Max,        Op::Min,
                           Op::LtF, Op::EqI,  Op::LtI, Op::Select,     Op::AddI,       Op::MulI,       Op::MaxI,
                           Op::Xor, Op::DivI, Op::Div, Op::IntToFloat, Op::FloatToInt, Op::RoundSen169};
    const Op op = kOps[pick(random, 0, std::size(kOps) - 1)];
    const char* types = signature(op);
    const bool floats_alike = pick(random, 0, 1) == 0;
    Instruction instruction{op, next};
    uint8_t* sources[] = {&instruction.a, &instruction.b, &instruction.c};
    const auto is_float = [&](char type) { return type == 'f' || (type == '*' && floats_alike); };
    size_t i = 0;
    for (; types[i] != '>'; ++i) *sources[i] = any(random, is_float(types[i]) ? floats : ints);
    // Now and then a register is written again.
    std::vector<uint8_t>& kind = is_float(types[i + 1]) ? floats : ints;
    if (pick(random, 0, 4) == 0) {
      instruction.target = any(random, kind);
    } else {
      kind.push_back(next++);
    }
    code.instructions.push_back(instruction);
  }
};

}  // namespace naive
