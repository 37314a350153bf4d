#include "program/box_parts.h"

namespace openspyre {

BoxParts::BoxParts(const Step& step, std::vector<StreamOffsets> strides, std::vector<int> loops)
    : strides_(std::move(strides)) {
  const LaneBlock& lane = step.lane;
  CoreBox box = core_box(step, 0);
  const int valid = lane.store_padding ? lane.lanes : tail_lanes(step);
  const bool walks_blocks = std::find(loops.begin(), loops.end(), lane.block_loop) != loops.end();
  whole_ = {make_nest(strides_, box, loops), lane.block_loop < 0 ? valid : lane.lanes};
  if (!walks_blocks || valid == lane.lanes) return;
  tail_loop_ = lane.block_loop;
  int64_t& extent = box.extent[static_cast<size_t>(tail_loop_)];
  extent -= 1;
  head_ = {make_nest(strides_, box, loops), lane.lanes};
  head_points_ = head_.nest.points() * (extent == 0 ? 0 : 1);
  extent = 1;
  tail_ = {make_nest(strides_, box, loops), valid};
}

bool BoxParts::reaches_end(const Step& step, const CoreBox& box) const {
  const auto loop = static_cast<size_t>(tail_loop_);
  return box.begin[loop] + box.extent[loop] == step.loops[loop].extent;
}

StreamOffsets BoxParts::tail_base(const CoreBox& box, const StreamOffsets& base) const {
  const auto loop = static_cast<size_t>(tail_loop_);
  StreamOffsets tail = base;
  for (size_t s = 0; s < kMaxStreams; ++s) tail[s] += (box.extent[loop] - 1) * strides_[loop][s];
  return tail;
}

}  // namespace openspyre
