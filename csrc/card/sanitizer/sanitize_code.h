// Vector code followed lane by lane: from which operands each result comes, which lanes of it are worthless, and where
// integers wrap. Values are computed only where a selection or an integer makes them matter.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "sanitizer/sanitize_access.h"
#include "steps/vector_code.h"

namespace openspyre::sanitize {

class FollowedCode {
 public:
  FollowedCode(const VectorCode& code, std::span<const Operand> inputs, std::span<const Operand> outputs,
               const LaneBlock& lane);

  // Whether results depend on more than "any operand is worthless".
  bool selects() const { return selects_; }
  bool may_wrap() const { return may_wrap_; }
  // Whether result `r` is an operand as it is, in its own format: a copy, which carries states along.
  bool copies(size_t r) const { return copies_[r]; }

  // Taint of result `r` from the operands' alone.
  void join(size_t r, std::span<const LaneTaint> inputs, LaneTaint& result) const;

  // Computes the block whose operands begin at `offsets` from `bases`, `valid` lanes of it; afterwards taint_of is
  // exact for selections.
  void replay(std::span<const std::byte* const> bases, const int64_t* offsets, std::span<const uint32_t> scalars,
              std::span<const LaneTaint> inputs, int valid);
  const LaneTaint& taint_of(size_t r) const { return taints_[code_.results[r]]; }

  // An integer that wrapped on its way into result `r`: what it would have been. No lane: there is none.
  struct Wrap {
    int lane = -1;
    Op op = Op::AddI;
    int64_t value = 0;
  };
  Wrap wrap_in(size_t r, int valid) const;

 private:
  void load(size_t input, const std::byte* base, int64_t offset, std::span<const uint32_t> scalars, int valid);
  void follow(const Instruction& instruction, std::vector<LaneTaint>& taints) const;
  void note_wraps(const Instruction& instruction, LaneTaint& wrapped);

  const VectorCode& code_;
  const std::span<const Operand> inputs_;
  const int lanes_;
  std::vector<uint32_t> sources_;  // of each result: a bit per input
  std::vector<bool> copies_;       // per result
  bool selects_ = false, may_wrap_ = false;
  std::vector<Port> ports_;
  std::vector<LaneTaint> taints_, wraps_;  // per register
  std::array<Wrap, kChunkLanes> wrapped_;  // the last one of each lane
  struct alignas(64) Register {
    Lane lane[kChunkLanes];
  };
  std::vector<Register> registers_;
};

}  // namespace openspyre::sanitize
