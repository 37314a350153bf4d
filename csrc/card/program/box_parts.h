// A core's box cut where the number of valid lanes changes: the last block of partly filled lanes is a part of its own.
#pragma once

#include <algorithm>
#include <vector>

#include "program/nest.h"

namespace openspyre {

class BoxParts {
 public:
  BoxParts() = default;
  // Walks `loops` (outermost first) of the step; strides as given by stream_strides, possibly with streams added.
  BoxParts(const Step& step, std::vector<StreamOffsets> strides, std::vector<int> loops);

  int64_t points() const { return whole_.nest.points(); }  // of one core

  // Calls body(nest, base, first, last, valid lanes) for the parts of points [first, last) of a core.
  template <typename Body>
  void each(const Step& step, int core, int64_t first, int64_t last, Body&& body) const {
    const CoreBox box = core_box(step, core);
    const StreamOffsets base = stream_base(strides_, box);
    if (tail_loop_ < 0 || !reaches_end(step, box)) return body(whole_.nest, base, first, last, whole_.valid);
    if (first < head_points_) body(head_.nest, base, first, std::min(last, head_points_), head_.valid);
    if (last <= head_points_) return;
    body(tail_.nest, tail_base(box, base), std::max<int64_t>(0, first - head_points_), last - head_points_,
         tail_.valid);
  }

 private:
  struct Part {
    Nest nest;
    int valid = 0;
  };
  bool reaches_end(const Step& step, const CoreBox& box) const;
  StreamOffsets tail_base(const CoreBox& box, const StreamOffsets& base) const;

  std::vector<StreamOffsets> strides_;
  Part whole_, head_, tail_;
  int tail_loop_ = -1;  // the loop whose last block is the tail; -1 without one
  int64_t head_points_ = 0;
};

// Lanes of the last block that hold elements.
inline int tail_lanes(const Step& step) {
  const LaneBlock& lane = step.lane;
  const int64_t blocks = lane.block_loop < 0 ? 1 : step.loops[static_cast<size_t>(lane.block_loop)].extent;
  return static_cast<int>(lane.extent - lane.lanes * (blocks - 1));
}

}  // namespace openspyre
