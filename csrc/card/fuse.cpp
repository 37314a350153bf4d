#include "fuse.h"

#include <algorithm>
#include <optional>

namespace openspyre {
namespace {

std::optional<FusedFirst> as_first(Op op) {
  switch (op) {
    case Op::Add:
      return FusedFirst::Add;
    case Op::Sub:
      return FusedFirst::Sub;
    case Op::Mul:
      return FusedFirst::Mul;
    case Op::Div:
      return FusedFirst::Div;
    case Op::Neg:
      return FusedFirst::Neg;
    case Op::RoundSen169:
      return FusedFirst::RoundSen169;
    default:
      return std::nullopt;
  }
}

struct Second {
  FusedSecond kind;
  size_t other;  // the operand that is not the run's value
};

std::optional<Second> as_second(const ValueInstruction& instruction, size_t value) {
  const size_t a = instruction.reads[0], b = instruction.reads[1];
  if (instruction.op == Op::Exp) return Second{FusedSecond::Exp, a};
  if (a == value && b == value)
    return instruction.op == Op::Mul ? std::optional(Second{FusedSecond::Square, a}) : std::nullopt;
  const size_t other = a == value ? b : a;
  switch (instruction.op) {
    case Op::Add:
      return Second{FusedSecond::Add, other};
    case Op::Mul:
      return Second{FusedSecond::Mul, other};
    case Op::Sub:
      return Second{a == value ? FusedSecond::Sub : FusedSecond::SubFrom, other};
    case Op::Div:
      return b == value ? std::optional(Second{FusedSecond::DivInto, other}) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// Takes instructions from the front of the code as long as they carry on with the value before.
class Run {
 public:
  Run(std::span<const ValueInstruction> code, std::span<const int> uses) : code_(code), uses_(uses) {}

  size_t length() const { return length_; }
  size_t value() const { return code_[length_ - 1].target; }

  // The next instruction, if it is the only reader of the value.
  const ValueInstruction* next() const {
    if (length_ == code_.size()) return nullptr;
    const ValueInstruction& following = code_[length_];
    const auto own = following.reads.begin() + arity(following.op);
    const auto reads = std::count(following.reads.begin(), own, value());
    return reads > 0 && reads == uses_[value()] ? &following : nullptr;
  }
  void take() { ++length_; }
  bool take_rounding() {
    if (next() == nullptr || next()->op != Op::RoundSen169) return false;
    take();
    return true;
  }

 private:
  std::span<const ValueInstruction> code_;
  std::span<const int> uses_;
  size_t length_ = 1;
};

}  // namespace

std::vector<FusedInstruction> fuse(std::span<const ValueInstruction> code, std::span<const int> uses,
                                   const VectorKernels& kernels) {
  std::vector<FusedInstruction> fused;
  while (!code.empty()) {
    Run run(code, uses);
    FusedInstruction made{kernels.map[static_cast<size_t>(code[0].op)], nullptr, code[0].reads, 0};
    if (const auto first = as_first(code[0].op)) {
      const bool rounds_first = run.take_rounding();
      const size_t value = run.value();
      const auto second = run.next() != nullptr ? as_second(*run.next(), value) : std::nullopt;
      bool rounds_second = false;
      if (second) {
        run.take();
        if (second->other != value) made.reads[2] = second->other;
        rounds_second = run.take_rounding();
      }
      const auto opcode = static_cast<size_t>(*first);
      const auto kind = static_cast<size_t>(second ? second->kind : FusedSecond::None);
      made.kernel = kernels.fused[opcode][rounds_first][kind][rounds_second];
      if (!second) made.sen169_store = kernels.sen169_store_of[opcode];
    }
    made.target = run.value();
    fused.push_back(made);
    code = code.subspan(run.length());
  }
  return fused;
}

}  // namespace openspyre
