// Phrases: instructions in one loop over a chunk, the value that they hand on in processor registers. A value that is
// wanted elsewhere is saved to lanes of its own. No bit of a result depends on it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kernels/vector_kernels.h"
#include "program/program.h"

namespace openspyre {

// An instruction on values: every write to a register makes a new one. Reads beyond the opcode's own repeat the first.
struct ValueInstruction {
  Op op;
  std::array<size_t, kMaxSources> reads;
  size_t target;
};

struct ValueLink {
  LinkKind kind;
  size_t value;  // whose lanes the link works on, if it does
  size_t held;   // the value in registers after it
};

struct ValuePhrase {
  std::vector<ValueLink> links;
  PhraseKernel kernel;
};

bool has_link(Op op);
bool uses_lanes(LinkKind kind);

// Cuts links into phrases that there are kernels for.
std::vector<ValuePhrase> in_phrases(std::span<const ValueLink> links, const VectorKernels& kernels);

// Makes links of instructions as they come.
class LinkBuilder {
 public:
  // `uses` counts the readers of each value, one more for a result.
  explicit LinkBuilder(std::vector<int> uses);

  // has_link(its opcode); `low`: the result is never above 0, whatever the data, or NaN.
  void add(const ValueInstruction& instruction, bool low = false);
  void fold(LinkKind kind, size_t value, size_t accumulators);
  void read(size_t value) { --uses_[value]; }  // by somebody else, who finds it in its lanes
  std::vector<ValueLink> finish();             // what there is; the value in registers is saved if it is wanted

 private:
  struct Form {
    LinkKind kind;
    size_t other;
    int held_reads;  // of the value in registers that the link spares
  };
  std::optional<Form> form_with_held(const ValueInstruction& instruction) const;
  void save_unless_spared(int held_reads);
  void load(size_t value);
  void link(LinkKind kind, size_t value) { links_.push_back({kind, value, held_.value_or(value)}); }
  LinkKind kind_of(const ValueInstruction& instruction) const;

  std::vector<int> uses_;
  std::vector<bool> fraction_;  // values that are from 0 to 1, or NaN, whatever the data
  std::vector<bool> low_;       // values that are not above 0
  std::vector<ValueLink> links_;
  std::optional<size_t> held_;
  bool held_in_lanes_ = false;
};

}  // namespace openspyre
