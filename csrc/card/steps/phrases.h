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
  const Lane* table = nullptr;  // looks the value up instead, by the first read
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

// What a value is, whatever the data, if it is no NaN.
enum class Range : uint8_t { Any, NotPositive, Fraction };  // Fraction: from 0 to 1, never -0

// Makes links of instructions as they come.
class LinkBuilder {
 public:
  // `uses` counts the readers of each value, one more for a result.
  explicit LinkBuilder(std::vector<int> uses);

  // has_link(its opcode)
  void add(const ValueInstruction& instruction, Range range = Range::Any);
  void fold(LinkKind kind, size_t value, size_t accumulators);
  Range range(size_t value) const { return ranges_[value]; }
  void know_sen169(size_t value) { sen169_[value] = true; }
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
  bool is_only_for(LinkKind kind, size_t value) const;
  Range range_of(const ValueInstruction& instruction) const;
  std::optional<LinkKind> function_rounded(size_t value);

  std::vector<int> uses_;
  std::vector<Range> ranges_;
  std::vector<bool> sen169_;   // values that are numbers of SEN169, or NaN
  std::vector<bool> of_code_;  // values that are a function of one such number
  std::vector<ValueLink> links_;
  std::optional<size_t> held_;
  bool held_in_lanes_ = false;
};

}  // namespace openspyre
