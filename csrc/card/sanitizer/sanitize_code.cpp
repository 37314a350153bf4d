#include "sanitizer/sanitize_code.h"

#include <algorithm>
#include <cstring>

namespace openspyre::sanitize {
namespace {

bool can_wrap(Op op) { return op == Op::AddI || op == Op::SubI || op == Op::MulI || op == Op::NegI || op == Op::AbsI; }

int64_t exact(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::AddI:
      return a + b;
    case Op::SubI:
      return a - b;
    case Op::MulI:
      return a * b;
    case Op::NegI:
      return -a;
    default:
      return a < 0 ? -a : a;
  }
}

}  // namespace

FollowedCode::FollowedCode(const VectorCode& code, std::span<const Operand> inputs, std::span<const Operand> outputs,
                           const LaneBlock& lane)
    : code_(code), inputs_(inputs), lanes_(lane.lanes) {
  std::array<uint32_t, 256> from{};
  for (size_t i = 0; i < inputs.size(); ++i) from[i] = 1u << i;
  bool wraps = false;
  for (const Instruction& instruction : code.instructions) {
    const auto read = instruction.sources();
    uint32_t sources = 0;
    for (int i = 0; i < arity(instruction.op); ++i) sources |= from[read[static_cast<size_t>(i)]];
    from[instruction.target] = sources;
    selects_ |= instruction.op == Op::Select;
    wraps |= can_wrap(instruction.op);
  }
  for (size_t r = 0; r < code.results.size(); ++r) {
    const size_t result = code.results[r];
    sources_.push_back(from[result]);
    copies_.push_back(result < inputs.size() && r < outputs.size() && inputs[result].space == Space::Memory &&
                      inputs[result].element.format == outputs[r].element.format);
  }
  // Only what the host calls int64 is narrower here than there (N8).
  const auto is_long = [](const Operand& operand) { return operand.element.dtype == DType::Int64; };
  may_wrap_ = wraps && std::any_of(outputs.begin(), outputs.end(), is_long);
  if (!selects_ && !may_wrap_) return;
  for (const Operand& operand : inputs) ports_.push_back(load_port(operand, lanes_, vector_kernels(active_isa())));
  taints_.resize(kMaxRegisters);
  wraps_.resize(kMaxRegisters);
  registers_.resize(kMaxRegisters);
}

void FollowedCode::join(size_t r, std::span<const LaneTaint> inputs, LaneTaint& result) const {
  result.clear(lanes_);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (sources_[r] >> i & 1) result.join(inputs[i], lanes_);
}

void FollowedCode::load(size_t input, const std::byte* base, int64_t offset, std::span<const uint32_t> scalars,
                        int valid) {
  Lane* target = registers_[input].lane;
  if (inputs_[input].kind == OperandKind::Scalar)
    std::fill_n(target, lanes_, scalars[static_cast<size_t>(inputs_[input].symbol)]);
  else
    load_blocks(ports_[input], base, &offset, 1, target, valid);
}

// A result is what its operands are; a selection what the chosen one is.
void FollowedCode::follow(const Instruction& instruction, std::vector<LaneTaint>& taints) const {
  const LaneTaint &a = taints[instruction.a], &b = taints[instruction.b], &c = taints[instruction.c];
  LaneTaint result;
  if (instruction.op == Op::Select) {
    result.join(a, lanes_);
    const Lane* chosen = registers_[instruction.a].lane;
    for (size_t lane = 0; (b.any || c.any) && lane < static_cast<size_t>(lanes_); ++lane) {
      const LaneTaint& side = chosen[lane] ? b : c;
      if (side.any) result.lane[lane] = std::max(result.lane[lane], side.lane[lane]);
    }
    result.any = result.any || b.any || c.any;
  } else {
    for (size_t i = 0; i < static_cast<size_t>(arity(instruction.op)); ++i)
      result.join(taints[instruction.sources()[i]], lanes_);
  }
  taints[instruction.target] = result;
}

void FollowedCode::note_wraps(const Instruction& instruction, LaneTaint& wrapped) {
  const Lane *a = registers_[instruction.a].lane, *b = registers_[instruction.b].lane;
  for (int lane = 0; lane < lanes_; ++lane) {
    const int64_t value = exact(instruction.op, static_cast<int32_t>(a[lane]), static_cast<int32_t>(b[lane]));
    if (value == static_cast<int32_t>(value)) continue;
    if (!wrapped.any) wrapped.clear(lanes_);
    wrapped.lane[static_cast<size_t>(lane)] = 1;
    wrapped.any = true;
    wrapped_[static_cast<size_t>(lane)] = {lane, instruction.op, value};
  }
}

void FollowedCode::replay(std::span<const std::byte* const> bases, const int64_t* offsets,
                          std::span<const uint32_t> scalars, std::span<const LaneTaint> inputs, int valid) {
  const VectorKernels& kernels = vector_kernels(active_isa());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    load(i, bases[i], offsets[i], scalars, valid);
    taints_[i].clear(lanes_);
    taints_[i].join(inputs[i], lanes_);
    wraps_[i].clear(lanes_);
  }
  for (const Constant& constant : code_.constants) {
    std::fill_n(registers_[constant.target].lane, lanes_, constant.bits);
    taints_[constant.target].clear(lanes_);
    wraps_[constant.target].clear(lanes_);
  }
  for (const Instruction& instruction : code_.instructions) {
    LaneTaint fresh;
    if (may_wrap_ && can_wrap(instruction.op)) note_wraps(instruction, fresh);
    follow(instruction, taints_);
    follow(instruction, wraps_);
    wraps_[instruction.target].join(fresh, lanes_);
    if (instruction.op == Op::MulHigh) wraps_[instruction.target].clear(lanes_);  // its operands are words, not numbers
    std::array<Lane*, kMaxSources> read;
    for (size_t i = 0; i < kMaxSources; ++i) read[i] = registers_[instruction.sources()[i]].lane;
    Lane* target = registers_[instruction.target].lane;
    if (instruction.op == Op::Philox)
      kernels.draw(target, read[0], read.data() + 1, lanes_);
    else
      kernels.map[static_cast<size_t>(instruction.op)](target, read[0], read[1], read[2], lanes_);
  }
}

FollowedCode::Wrap FollowedCode::wrap_in(size_t r, int valid) const {
  const LaneTaint &wraps = wraps_[code_.results[r]], &taint = taint_of(r);
  for (size_t lane = 0; may_wrap_ && wraps.any && lane < static_cast<size_t>(valid); ++lane)
    if (wraps.lane[lane] != 0 && !(taint.any && taint.lane[lane] != 0)) return wrapped_[lane];
  return {};
}

}  // namespace openspyre::sanitize
