// The loops of one core's box, merged where all operands allow it, and walked point by point (a point is a lane block).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "program/step_runner.h"

namespace openspyre {

constexpr int kMaxStreams = 2 * kMaxOperands + 2;  // a step's inputs, then its outputs, then the runner's own
constexpr int kMaxChunkBlocks = 32;
// Lanes of a chunk. What lies a multiple of 4 KB behind a store looks like its address to the processor: it would wait.
using ChunkLanes = uint32_t[kChunkLanes + 160];

// One number per stream: bytes for operands in memory, values for an Iota, 0 for a Scalar.
using StreamOffsets = std::array<int64_t, kMaxStreams>;

struct NestLoop {
  int64_t extent;
  StreamOffsets stride;
};

struct Nest {
  std::vector<NestLoop> loops;  // outermost first
  int streams = 0;              // those after it never move
  int64_t points() const;
};

// Strides of all streams, one row per loop of the step.
std::vector<StreamOffsets> stream_strides(const Step& step);
StreamOffsets stream_base(std::span<const StreamOffsets> strides, const CoreBox& box);  // of the box's first point

// The chosen loops with the extents of `box`, in the given order. Loops of one pass are dropped, neighbours merged.
Nest make_nest(std::span<const StreamOffsets> strides, const CoreBox& box, std::span<const int> loops);

// Loops in the order that walks memory forwards: by decreasing stride of the given stream.
void sort_by_stride(std::span<const StreamOffsets> strides, size_t stream, std::vector<int>& loops);

// Offsets of the points of a chunk, stream by stream.
struct ChunkOffsets {
  std::array<std::array<int64_t, kMaxChunkBlocks>, kMaxStreams> at;
};

// Yields the points of a nest in order, from any point on.
class NestWalk {
 public:
  NestWalk(const Nest& nest, const StreamOffsets& base, int64_t first);
  void next(int points, int streams, ChunkOffsets& offsets);  // the first `streams` of them
  const StreamOffsets& here() const { return here_; }
  void advance();                // to the next point; past the last one it starts again
  void advance(int64_t points);  // at most as many as are ahead
  // Points from here to the end of the innermost loop, equally far apart.
  int64_t ahead() const { return nest_.loops.empty() ? 1 : nest_.loops.back().extent - index_[nest_.loops.size() - 1]; }

 private:
  const Nest& nest_;
  StreamOffsets here_;
  std::array<int64_t, kMaxLoops> index_{};
};

}  // namespace openspyre
