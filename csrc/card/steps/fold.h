// How a reduction's accumulators start and grow (N6): one per lane, or 64 where the lanes themselves are reduced.
#pragma once

#include <cstdint>

#include "kernels/vector_kernels.h"
#include "program/port.h"
#include "program/program.h"

namespace openspyre {

inline bool is_arg(Combine combine) { return combine == Combine::ArgMax || combine == Combine::ArgMin; }
// Any and All fold truth values as integers.
inline bool is_truth(Combine combine) { return combine == Combine::Any || combine == Combine::All; }

Lane fold_identity(Combine combine, RegisterType type);
RegisterType folded_type(Combine combine, RegisterType type);

struct Accumulators {
  Lane* value;
  Lane* index;  // arg reductions only
};

// Points of the reduced space that are taken in one call, evenly spaced: point p has lane block first_block + p *
// block_step, and its lane 0 stands at position + p * position_step (arg reductions).
struct FoldPoints {
  int64_t points = 1, blocks = 1;  // x[point][block][lane]
  int64_t first_block = 0, block_step = 0;
  int64_t position = 0, position_step = 0;
  int valid = 0;  // lanes; less than all for one point only
};

class Folding {
 public:
  Folding() = default;
  // `lane_step` is how far apart in the reduced space two lanes are (arg reductions).
  Folding(Combine combine, RegisterType type, const LaneBlock& lane, const VectorKernels& kernels,
          int64_t lane_step = 1);

  int64_t lanes_per_block() const { return over_lanes_ ? kFoldLanes : lanes_; }  // accumulators
  bool over_lanes() const { return over_lanes_; }
  bool folds_floats() const { return type_ == RegisterType::Float; }
  Lane identity() const { return identity_; }

  void start(Accumulators acc, int64_t lanes) const;
  void take(Accumulators acc, Lane* x, const FoldPoints& taken) const;  // points ascending
  // Nothing depends on where points stand.
  bool regular() const { return !arg_ && (!over_lanes_ || lanes_ == kFoldLanes); }
  // Blocks of half the accumulators: even ones go to the first half, odd ones to the second.
  bool in_halves() const { return !arg_ && over_lanes_ && 2 * lanes_ == kFoldLanes; }

  // Folds memory without a register in between; nullptr where registers are needed.
  RowFoldKernel from_memory(DataFormat format) const {
    if (format == DataFormat::SEN169_FP16) return sen169_;
    return format == DataFormat::IEEE_FP32 || format == DataFormat::IEEE_INT32 ? words_ : nullptr;
  }

  // One total per block (lanes reduced) from its accumulators, which are used up.
  void total(Accumulators acc, Accumulators totals, int64_t blocks) const;
  // acc = combine(acc, later), where `later` comes from a later slice of the reduced space.
  void join(Accumulators acc, Accumulators later, int64_t lanes) const;

 private:
  void take_halves(Accumulators acc, const Lane* x, const FoldPoints& taken) const;
  void take_block(Accumulators acc, Lane* x, int64_t lanes, int64_t position, int valid) const;
  bool better(Lane x, Lane best) const;

  Combine combine_ = Combine::Sum;
  RegisterType type_ = RegisterType::Float;
  int64_t lanes_ = 64, lane_step_ = 1;
  bool over_lanes_ = false, arg_ = false;
  Lane identity_ = 0;
  MapKernel to_truth_ = nullptr;
  RowFoldKernel rows_ = nullptr, words_ = nullptr, sen169_ = nullptr;
  LaneFoldKernel fold_lanes_ = nullptr;
  ArgKernel arg_kernel_ = nullptr;
};

}  // namespace openspyre
