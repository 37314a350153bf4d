// Steps executed element by element from their definition: the oracle of the engine's tests. Also makes random steps.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "check.h"
#include "child_process.h"
#include "program/prepared_step.h"
#include "streams/card.h"

namespace naive {

using namespace openspyre;
using Random = std::mt19937_64;
using Bits = uint32_t;

inline int64_t pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

constexpr DeviceElement kHalf{DType::Float16, DataFormat::SEN169_FP16};
constexpr DeviceElement kFloat{DType::Float32, DataFormat::IEEE_FP32};
constexpr DeviceElement kInt{DType::Int64, DataFormat::IEEE_INT32};
constexpr DeviceElement kBool{DType::Bool, DataFormat::SEN169_FP16};
constexpr DeviceElement kByte{DType::Int8, DataFormat::SENINT8};
constexpr DeviceElement kShort{DType::Int16, DataFormat::SENINT16};
constexpr DeviceElement kFp8{DType::Float8E4M3FN, DataFormat::SEN143_FP8};

inline bool is_int(DeviceElement element) { return element == kInt || element == kByte || element == kShort; }
inline Bits bits(float value) { return std::bit_cast<Bits>(value); }
inline float real(Bits value) { return std::bit_cast<float>(value); }

// One element to the 32 bits of a register.
inline Bits decode(DeviceElement element, const std::byte* at) {
  if (element == kFloat || element == kInt) {
    Bits word;
    std::memcpy(&word, at, 4);
    return word;
  }
  if (element == kByte) return static_cast<Bits>(static_cast<int32_t>(static_cast<int8_t>(*at)));
  if (element == kFp8) {
    const int code = static_cast<int>(*at), exponent = code >> 3 & 15, fraction = code & 7;
    if ((code & 127) == 127) return bits(NAN);
    const double value = exponent == 0 ? fraction * 0x1p-9 : std::ldexp(8 + fraction, exponent - 10);
    return bits(static_cast<float>(code & 128 ? -value : value));
  }
  uint16_t code;
  std::memcpy(&code, at, 2);
  if (element == kShort) return static_cast<Bits>(static_cast<int32_t>(static_cast<int16_t>(code)));
  if (element == kBool) return bits((code & 0x7FFF) != 0 ? 1.0f : 0.0f);
  return bits(sen169_to_float(code));
}

// ... and back; `ints` says what the register holds.
inline void encode(DeviceElement element, Bits value, bool ints, std::byte* at) {
  if (element == kInt) {
    std::memcpy(at, &value, 4);
  } else if (element == kFloat) {
    if (std::isnan(real(value))) value = 0x7FC00000;
    std::memcpy(at, &value, 4);
  } else if (element == kByte) {
    *at = static_cast<std::byte>(value);
  } else if (element == kShort) {
    std::memcpy(at, &value, 2);
  } else {
    uint16_t code = std::isnan(real(value)) ? kSen169NaN : sen169_from_float(real(value));
    if (element == kBool) code = (ints ? value != 0 : real(value) != 0) ? 0x3E00 : 0;
    std::memcpy(at, &code, 2);
  }
}

inline Bits exp_alone(Bits x);  // functions have tests of their own: here they stand for themselves

inline Bits apply(Op op, Bits a, Bits b, Bits c) {
  const float x = real(a), y = real(b);
  const auto i = static_cast<int32_t>(a), j = static_cast<int32_t>(b);
  switch (op) {
    case Op::Add:
      return bits(x + y);
    case Op::Sub:
      return bits(x - y);
    case Op::Mul:
      return bits(x * y);
    case Op::Div:
      return bits(x / y);
    case Op::Fma:
      return bits(std::fma(x, y, real(c)));
    case Op::Neg:
      return a ^ 0x80000000u;
    case Op::Max:
      return std::isnan(x) ? a : std::isnan(y) ? b : x > y ? a : b;
    case Op::Min:
      return std::isnan(x) ? a : std::isnan(y) ? b : x < y ? a : b;
    case Op::LtF:
      return x < y;
    case Op::EqI:
      return a == b;
    case Op::LtI:
      return i < j;
    case Op::Select:
      return a != 0 ? b : c;
    case Op::AddI:
      return a + b;
    case Op::MulI:
      return a * b;
    case Op::MaxI:
      return static_cast<Bits>(std::max(i, j));
    case Op::MinI:
      return static_cast<Bits>(std::min(i, j));
    case Op::Xor:
      return a ^ b;
    case Op::And:
      return a & b;
    case Op::Or:
      return a | b;
    case Op::DivI: {
      if (j == 0) return 0;
      const int64_t wide = i, q = wide / j;
      return static_cast<Bits>(q * j != wide && (wide < 0) != (j < 0) ? q - 1 : q);
    }
    case Op::IntToFloat:
      return bits(static_cast<float>(i));
    case Op::FloatToInt:
      if (std::isnan(x)) return 0;
      return static_cast<Bits>(static_cast<int32_t>(std::clamp<double>(std::trunc(x), INT32_MIN, INT32_MAX)));
    case Op::RoundSen169: {
      std::array<std::byte, 2> code;
      encode(kHalf, a, false, code.data());
      return decode(kHalf, code.data());
    }
    case Op::Exp:
      return exp_alone(a);
    case Op::Copy:
      return a;
    default:
      fail(Fault::Internal, std::string("the oracle has no ") + name(op));
  }
}

// Registers after the code has run on one lane.
inline std::vector<Bits> evaluate(const VectorCode& code, std::vector<Bits> registers) {
  registers.resize(kMaxRegisters);
  for (const Constant& constant : code.constants) registers[constant.target] = constant.bits;
  for (const Instruction& i : code.instructions)
    registers[i.target] = apply(i.op, registers[i.a], registers[i.b], registers[i.c]);
  std::vector<Bits> results;
  for (const uint8_t result : code.results) results.push_back(registers[result]);
  return results;
}

using Index = std::array<int64_t, kMaxLoops>;

inline int64_t place(const Operand& operand, const Index& index, int64_t lane) {
  int64_t at = operand.offset;
  for (size_t k = 0; k < operand.stride.size(); ++k) at += index[k] * operand.stride[k];
  if (operand.kind == OperandKind::Iota || operand.kind == OperandKind::Strided) return at + lane * operand.tile_stride;
  if (operand.kind == OperandKind::Splat) return at;
  const int64_t stick = elems_per_stick(operand.element.format);
  return at + lane / stick * operand.tile_stride + lane % stick;
}

// Calls body(index) for every point of the chosen loops in order, the others staying at `index`.
inline void each_point(const std::vector<Loop>& loops, const std::function<bool(size_t)>& chosen, Index index,
                       const std::function<void(const Index&)>& body, size_t k = 0) {
  if (k == loops.size()) return body(index);
  if (!chosen(k)) return each_point(loops, chosen, index, body, k + 1);
  for (int64_t i = 0; i < loops[k].extent; ++i) {
    index[k] = i;
    each_point(loops, chosen, index, body, k + 1);
  }
}

inline bool valid_lane(const Step& step, const Index& index, int64_t lane) {
  const int64_t block = step.lane.block_loop < 0 ? 0 : index[static_cast<size_t>(step.lane.block_loop)];
  return block * step.lane.lanes + lane < step.lane.extent;
}

// The buffers of a launch: one per symbol, with the oracle's copy of the bytes beside the card's.
struct Launch {
  explicit Launch(Card& card) : card(card) {}
  ~Launch() {
    for (Block* block : blocks) card.free(block);
  }
  int32_t add(std::vector<std::byte> content) {
    blocks.push_back(card.allocate(content.size(), 0));
    addresses.push_back(blocks.back()->address);
    memory.push_back(std::move(content));
    return static_cast<int32_t>(blocks.size()) - 1;
  }
  void upload() const {
    for (size_t i = 0; i < blocks.size(); ++i)
      std::memcpy(card.translate(addresses[i]), memory[i].data(), memory[i].size());
  }
  std::vector<std::byte> download(size_t symbol) const {
    const std::byte* at = card.translate(addresses[symbol]);
    return {at, at + memory[symbol].size()};
  }
  Card& card;
  std::vector<Block*> blocks;
  std::vector<Address> addresses;
  std::vector<std::vector<std::byte>> memory;
  std::vector<uint32_t> scalars;
};

inline Bits load(const Launch& launch, const Operand& operand, const Index& index, int64_t lane) {
  if (operand.kind == OperandKind::Scalar) return launch.scalars[static_cast<size_t>(operand.symbol)];
  const int64_t at = place(operand, index, lane);
  if (operand.kind == OperandKind::Iota) return static_cast<Bits>(at);
  return decode(operand.element, launch.memory[static_cast<size_t>(operand.symbol)].data() +
                                     at * device_itemsize(operand.element.format));
}

inline void store(Launch& launch, const Operand& operand, const Index& index, int64_t lane, Bits value, bool ints) {
  encode(operand.element, value, ints,
         launch.memory[static_cast<size_t>(operand.symbol)].data() +
             place(operand, index, lane) * device_itemsize(operand.element.format));
}

inline std::vector<Bits> load_all(const Launch& launch, const Step& step, const Index& index, int64_t lane) {
  std::vector<Bits> values;
  for (const Operand& operand : step.inputs) {
    const bool absent = operand.kind == OperandKind::Strided && lane >= step.lane.extent;
    values.push_back(absent ? 0 : load(launch, operand, index, lane));
  }
  return values;
}

inline std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (int i = 0; i < kIsaCount; ++i)
    if (available(static_cast<Isa>(i))) found.push_back(static_cast<Isa>(i));
  return found;
}

inline Bits exp_alone(Bits x) {
  alignas(64) std::array<Bits, kLaneUnit> lanes;
  lanes.fill(x);
  vector_kernels(Isa::Baseline)
      .map[static_cast<size_t>(Op::Exp)](lanes.data(), lanes.data(), lanes.data(), lanes.data(), kLaneUnit);
  return lanes[0];
}

// Runs the step on every instruction set and compares all bytes with what `expected` leaves in the launch's memory.
inline bool agrees(const Step& step, Launch& launch, const std::function<void()>& expected) {
  Program program{
      "random", static_cast<int32_t>(launch.blocks.size()), static_cast<int32_t>(launch.scalars.size()), {step}};
  std::vector<std::vector<std::vector<std::byte>>> results;
  for (const Isa isa : isas()) {
    launch.upload();
    prepare_for(program, isa)->run(launch.card, {launch.addresses, {}, {}, launch.scalars});
    results.emplace_back();
    for (size_t symbol = 0; symbol < launch.blocks.size(); ++symbol) results.back().push_back(launch.download(symbol));
  }
  expected();
  bool equal = true;
  for (const auto& result : results) equal &= result == launch.memory;
  return equal;
}

// Runs `body` in a child process each with 1, 2 and 7 threads for the cores.
inline void with_threads(const std::function<void()>& body) {
  for (const int threads : {1, 2, 7}) {
    const int status = check::run_in_child([&] {
      Configuration configuration;
      configuration.threads = threads;
      configuration.memory_bytes = 1ull << 30;
      configure(configuration);
      body();
    });
    CHECK_EQ(status, 0);
  }
}

}  // namespace naive
