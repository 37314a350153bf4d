// Random contraction steps with operands in memory, and the result that the contract's definition gives (N5):
// addresses as program.h states them, one scalar fma chain per output. For tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "program/program.h"
#include "program/step_runner.h"

namespace openspyre::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(engine_); }
  float normal() { return std::normal_distribution<float>()(engine_); }
  uint32_t bits() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937_64 engine_;
};

// What the elements look like.
enum class Values { Normal, Sparse, AnyCode, Infinities };

// The operands of one step, each in memory of exactly the size it spans.
struct Contraction {
  Step step;
  std::vector<std::byte> memory[3];  // A, B, C

  Operand& operand(int i) { return i < 2 ? step.inputs[static_cast<size_t>(i)] : step.outputs[0]; }
  const Operand& operand(int i) const { return i < 2 ? step.inputs[static_cast<size_t>(i)] : step.outputs[0]; }
  StepArguments arguments() {
    StepArguments found;
    found.inputs[0] = memory[0].data();
    found.inputs[1] = memory[1].data();
    found.outputs[0] = memory[2].data();
    return found;
  }
};

inline std::string describe(const Contraction& problem) {
  std::string text = std::string(name(problem.operand(0).element.format)) + " k " +
                     std::to_string(problem.step.k_extent) + " n " + std::to_string(problem.step.lane.extent) +
                     (problem.step.b_along_k ? " B along k" : "") + " loops";
  for (const Loop& loop : problem.step.loops)
    text += " " + std::to_string(loop.extent) + (loop.reduced ? "r" : "") + "/" + std::to_string(loop.split);
  return text;
}

inline void fill_operand(std::vector<std::byte>& memory, DataFormat format, Values values, Random& random) {
  const auto one = [&]() -> float {
    if (values == Values::Sparse && random.chance(0.5)) return random.chance(0.5) ? 0.0f : -0.0f;
    if (values == Values::Infinities && random.chance(0.002)) return random.chance(0.5) ? INFINITY : -INFINITY;
    return random.normal();
  };
  for (size_t at = 0; at < memory.size(); at += format == DataFormat::SEN169_FP16 ? 2 : 4) {
    if (format == DataFormat::SEN169_FP16) {
      const uint16_t code = values == Values::AnyCode ? static_cast<uint16_t>(random.bits()) : sen169_from_float(one());
      std::memcpy(&memory[at], &code, 2);
    } else {
      const float value = values == Values::AnyCode ? std::bit_cast<float>(random.bits()) : one();
      std::memcpy(&memory[at], &value, 4);
    }
  }
}

struct Sizes {
  int64_t m, n, k;
  std::vector<int64_t> batches;  // extents of outer loops
  std::vector<bool> shared;      // per outer loop: B does not vary
  std::vector<bool> still = {};  // per outer loop, if not empty: A does not vary
  int32_t m_split = 1, n_split = 1, k_split = 1;
  bool b_along_k = false;      // B's sticks; its rows are n then, and k otherwise
  bool uneven_blocks = false;  // rows of B in separate blocks
  DataFormat operands = DataFormat::SEN169_FP16, result = DataFormat::SEN169_FP16;
  int32_t lanes = 64, k_lanes = 64;  // of a block
};

// Lays one operand out: strides for the loops from innermost to outermost, with random gaps between whole sticks.
class Layout {
 public:
  Layout(Operand& operand, Random& random) : operand_(operand), random_(random) {}
  int64_t stick() const { return elems_per_stick(operand_.element.format); }
  // The next dimension: its stride, in elements.
  int64_t next(int64_t extent) {
    const int64_t stride = size_ + stick() * (random_.chance(0.3) ? random_.between(0, 2) : 0);
    size_ = stride * std::max<int64_t>(extent - 1, 0) + size_;
    return stride;
  }
  int64_t size() const { return size_; }
  void start() { size_ = stick(); }

 private:
  Operand& operand_;
  Random& random_;
  int64_t size_ = 0;
};

// Loops: outer ones, m, n blocks, k blocks. The stick lies innermost, then rows, sticks of a block, blocks, outer
// loops.
inline Contraction make_contraction(const Sizes& sizes, Values values, Random& random) {
  Contraction problem;
  Step& step = problem.step;
  const auto blocks = [](int64_t extent, int64_t lanes) { return std::max<int64_t>(1, (extent + lanes - 1) / lanes); };
  const int64_t n_blocks = blocks(sizes.n, sizes.lanes), k_blocks = blocks(sizes.k, sizes.k_lanes);
  step.name = "random";
  step.kind = StepKind::Contract;
  for (const int64_t extent : sizes.batches) step.loops.push_back({extent, 1, false});
  const size_t m = step.loops.size(), n = m + 1, k = m + 2;
  step.loops.push_back({sizes.m, sizes.m_split, false});
  step.loops.push_back({n_blocks, sizes.n_split, false});
  step.loops.push_back({k_blocks, sizes.k_split, true});
  step.lane = {.lanes = sizes.lanes, .extent = sizes.n, .block_loop = static_cast<int32_t>(n)};
  step.k_extent = sizes.k;
  step.k_lanes = sizes.k_lanes;
  step.b_along_k = sizes.b_along_k;
  step.inputs.resize(2);
  step.outputs.resize(1);
  for (int i = 0; i < 3; ++i) {
    Operand& operand = problem.operand(i);
    const DataFormat format = i < 2 ? sizes.operands : sizes.result;
    operand.element = {format == DataFormat::SEN169_FP16 ? DType::Float16 : DType::Float32, format};
    operand.stride.assign(step.loops.size(), 0);
    Layout layout(operand, random);
    layout.start();
    const bool along_k = i == 0 || (i == 1 && sizes.b_along_k);
    const int64_t row_blocks = along_k ? n_blocks : k_blocks, rows = along_k ? sizes.lanes : sizes.k_lanes;
    if (i == 1) {  // rows of B: one after the other over all blocks, or per block
      step.b_row_stride = layout.next(sizes.uneven_blocks ? rows : row_blocks * rows);
      operand.stride[along_k ? n : k] = step.b_row_stride * rows;
    } else {
      operand.stride[m] = layout.next(sizes.m);
    }
    operand.tile_stride = layout.next((along_k ? sizes.k_lanes : sizes.lanes) / layout.stick());
    operand.stride[along_k ? k : n] = layout.next(along_k ? k_blocks : n_blocks);
    if (i == 1 && sizes.uneven_blocks) operand.stride[along_k ? n : k] = layout.next(row_blocks);
    const auto stays = [&](size_t b) {
      return i == 0 ? b < sizes.still.size() && sizes.still[b] : i == 1 && sizes.shared[b];
    };
    for (size_t b = 0; b < sizes.batches.size(); ++b)
      if (!stays(b)) operand.stride[b] = layout.next(sizes.batches[b]);
    problem.memory[i].resize(static_cast<size_t>(layout.size() * device_itemsize(format)));
    fill_operand(problem.memory[i], format, i < 2 ? values : Values::AnyCode, random);
  }
  return problem;
}

inline float read_element(const std::vector<std::byte>& memory, DataFormat format, int64_t offset) {
  if (format == DataFormat::IEEE_FP32) {
    float value;
    std::memcpy(&value, &memory.at(static_cast<size_t>(offset * 4)), 4);
    return value;
  }
  uint16_t code;
  std::memcpy(&code, &memory.at(static_cast<size_t>(offset * 2)), 2);
  return sen169_to_float(code);
}

inline void write_element(std::vector<std::byte>& memory, DataFormat format, int64_t offset, float value) {
  if (format == DataFormat::IEEE_FP32) {
    const uint32_t bits = std::isnan(value) ? 0x7FC00000u : std::bit_cast<uint32_t>(value);
    std::memcpy(&memory.at(static_cast<size_t>(offset * 4)), &bits, 4);
  } else {
    const uint16_t code = std::isnan(value) ? kSen169NaN : sen169_from_float(value);
    std::memcpy(&memory.at(static_cast<size_t>(offset * 2)), &code, 2);
  }
}

// Where each element lies, by the formula of program.h, and what C must be.
class Definition {
 public:
  explicit Definition(const Contraction& problem) : problem_(problem), loops_(problem.step.loops.size()) {}

  int64_t offset(int operand, const std::vector<int64_t>& index, int64_t n, int64_t k) const {
    const Step& step = problem_.step;
    const Operand& o = problem_.operand(operand);
    const int64_t stick = elems_per_stick(o.element.format);
    int64_t at = 0;
    for (size_t i = 0; i + 2 < loops_; ++i) at += index[i] * o.stride[i];
    at += n / step.lane.lanes * o.stride[loops_ - 2] + k / step.k_lanes * o.stride[loops_ - 1];
    const bool along_k = operand == 0 || (operand == 1 && step.b_along_k);
    if (operand == 1) at += (along_k ? n % step.lane.lanes : k % step.k_lanes) * step.b_row_stride;
    const int64_t lane = along_k ? k % step.k_lanes : n % step.lane.lanes;
    return at + lane / stick * o.tile_stride + lane % stick;
  }

  // Memory of C after the step.
  std::vector<std::byte> result() const {
    const int64_t columns = problem_.step.lane.extent, depth = problem_.step.k_extent;
    std::vector<std::byte> c = problem_.memory[2];
    std::vector<int64_t> index(loops_ - 2, 0);
    std::vector<float> row(static_cast<size_t>(depth)), matrix(static_cast<size_t>(columns * depth));
    int64_t matrix_at = -1;
    do {
      for (int64_t k = 0; k < depth; ++k) row[static_cast<size_t>(k)] = a(index, k);
      if (const int64_t at = offset(1, index, 0, 0); at != matrix_at) {  // rows m share B: read it once
        for (int64_t i = 0; i < columns * depth; ++i) matrix[static_cast<size_t>(i)] = b(index, i / depth, i % depth);
        matrix_at = at;
      }
      for (int64_t n = 0; n < columns; ++n)
        write_element(c, problem_.operand(2).element.format, offset(2, index, n, 0),
                      sum(row.data(), matrix.data() + n * depth));
    } while (advance(index));
    return c;
  }

  float a(const std::vector<int64_t>& index, int64_t k) const { return read(0, index, 0, k); }
  float b(const std::vector<int64_t>& index, int64_t n, int64_t k) const { return read(1, index, n, k); }

  bool advance(std::vector<int64_t>& index) const {
    for (size_t i = index.size(); i-- > 0;) {
      if (++index[i] < problem_.step.loops[i].extent) return true;
      index[i] = 0;
    }
    return false;
  }

 private:
  float read(int operand, const std::vector<int64_t>& index, int64_t n, int64_t k) const {
    const float value =
        read_element(problem_.memory[operand], problem_.operand(operand).element.format, offset(operand, index, n, k));
    const VectorCode& code = operand == 0 ? problem_.step.a_code : problem_.step.b_code;
    return code.results.empty() ? value : scaled(value, code);
  }
  // What random codes are: a product with a constant, rounded to SEN169 or not.
  static float scaled(float value, const VectorCode& code) {
    const float product = value * std::bit_cast<float>(code.constants[0].bits);
    if (code.instructions.size() == 1) return product;
    return std::isnan(product) ? product : sen169_to_float(sen169_from_float(product));
  }
  float sum(const float* a, const float* b) const {
    const Step& step = problem_.step;
    const Loop& k_loop = step.loops.back();
    float total = 0;
    for (int64_t slice = 0; slice < k_loop.split; ++slice) {
      const int64_t length = k_loop.extent / k_loop.split * step.k_lanes;
      float part = 0;
      for (int64_t k = slice * length; k < std::min((slice + 1) * length, step.k_extent); ++k)
        part = std::fmaf(a[k], b[k], part);
      total = slice == 0 ? part : total + part;
    }
    return total;
  }

  const Contraction& problem_;
  size_t loops_;
};

}  // namespace openspyre::testing
