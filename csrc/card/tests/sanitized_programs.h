// Small programs on a sanitized card, right ones and wrong ones: fp16 tensors of rows and columns in the default
// layout.
#pragma once

#include <string>
#include <vector>

#include "check.h"
#include "dma/dma.h"
#include "memory/scratchpad.h"
#include "program/prepared_step.h"
#include "sanitizer/sanitize_deeds.h"
#include "sanitizer/sanitize_findings.h"
#include "sanitizer/shadow.h"
#include "streams/card.h"

namespace sanitized {

using namespace openspyre;

constexpr DeviceElement kHalf{DType::Float16, DataFormat::SEN169_FP16};
constexpr DeviceElement kLong{DType::Int64, DataFormat::IEEE_INT32};

inline Card& the_card(bool sanitize = true) {
  static const bool configured = [&] {
    Configuration configuration;
    configuration.sanitize = sanitize;
    configuration.memory_bytes = 1ull << 30;
    configure(configuration);
    return true;
  }();
  (void)configured;
  return card(0);
}

inline int64_t lanes_of(DType dtype) { return elems_per_stick(device_format(dtype)); }

struct Tensor {
  explicit Tensor(int64_t rows, int64_t columns, DType dtype = DType::Float16, Card& card = the_card())
      : rows(rows), columns(columns), dtype(dtype) {
    const int64_t size[] = {rows, columns}, stride[] = {columns, 1};
    shape = intern_default(size, stride, dtype);
    block = card.allocate(static_cast<size_t>(shape->device_bytes()), 0);
  }
  ~Tensor() { free(); }
  void free() {
    if (block) block->card->free(std::exchange(block, nullptr));
  }

  std::byte* memory() const { return block->card->translate(block->address); }
  DeviceView view(int64_t first_row = 0, int64_t count = -1) const {
    return {shape, memory(), dtype, first_row * columns, {count < 0 ? rows - first_row : count, columns}, {columns, 1}};
  }
  // Float32 for halves, int64 for integers; `count` rows from the first on.
  template <typename Value>
  Tensor& fill(Value value, int64_t count = -1) {
    const DeviceView target = view(0, count);
    std::vector<Value> values(static_cast<size_t>(target.size[0] * columns), value);
    copy_in({values.data(), sizeof(Value) == 8 ? DType::Int64 : DType::Float32, target.size, {columns, 1}}, target);
    return *this;
  }
  template <typename Value>
  std::vector<Value> read() const {
    std::vector<Value> values(static_cast<size_t>(rows * columns));
    copy_out(view(),
             {values.data(), sizeof(Value) == 8 ? DType::Int64 : DType::Float32, {rows, columns}, {columns, 1}});
    return values;
  }

  template <typename Value>
  Value at(size_t element) const {
    return read<Value>()[element];
  }

  int64_t rows, columns;
  DType dtype;
  ShapePtr shape;
  Block* block = nullptr;
};

// Loops of the steps here: sticks along a row, then rows, which are split over cores.
inline Operand operand(int symbol, const Tensor& tensor, OperandKind kind = OperandKind::Vector) {
  Operand made;
  made.kind = kind;
  made.symbol = symbol;
  const int64_t stick = lanes_of(tensor.dtype);
  made.stride = {tensor.rows * stick, stick};
  made.tile_stride = tensor.rows * stick;
  made.element = {tensor.dtype, device_format(tensor.dtype)};
  return made;
}

inline Step step(const char* name, const Tensor& like, int32_t split) {
  Step made;
  made.name = name;
  const int64_t stick = lanes_of(like.dtype);
  made.loops = {{(like.columns + stick - 1) / stick, 1, false}, {like.rows, split, false}};
  made.lane = {static_cast<int32_t>(stick), like.columns, 0, false, false};
  return made;
}

// out = in + in
inline Step twice(const Tensor& in, const Tensor& out, int32_t split = 1) {
  Step made = step("twice", out, split);
  made.inputs = {operand(0, in)};
  made.outputs = {operand(1, out)};
  made.code.instructions = {{in.dtype == DType::Int64 ? Op::AddI : Op::Add, 1, 0, 0}};
  made.code.results = {1};
  return made;
}

inline Program program(std::vector<Step> steps, std::vector<std::string> names) {
  Program made{"p", static_cast<int32_t>(names.size()), 0, std::move(steps), {}};
  made.symbol_names = std::move(names);
  return made;
}

inline void launch(Program wanted, const std::vector<Address>& addresses, Card& card = the_card()) {
  const auto prepared = prepare(std::move(wanted));
  Stream& stream = card.stream(0);
  stream.wait(stream.submit("launch", [&] { prepared->run(card, {addresses, {}, {}, {}}); }));
}

inline void launch(std::vector<Step> steps, const Tensor& x, const Tensor& y) {
  launch(program(std::move(steps), {"x", "y"}), {x.block->address, y.block->address});
}

// The launch must be refused, with all of these parts in the report.
template <typename Launch>
void reports(std::initializer_list<const char*> parts, Launch&& body, int line) {
  try {
    body();
    check::report(__FILE__, line, "nothing was reported");
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.kind != Fault::SanitizerFinding) check::report(__FILE__, line, "not a finding: " + text);
    for (const char* part : parts)
      if (text.find(part) == std::string::npos)
        check::report(__FILE__, line, std::string("expected \"") + part + "\" in: " + text);
  }
}

}  // namespace sanitized

#define REPORTS(parts, ...) sanitized::reports(parts, [&] { __VA_ARGS__; }, __LINE__)
#define PARTS(...) {__VA_ARGS__}
