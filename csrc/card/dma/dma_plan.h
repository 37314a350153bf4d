// Plans a copy between a strided host tensor and a view of a tiled buffer: cuts it into pieces on which both sides
// advance by constant strides. Where no such cut exists, a piece is marked irregular and decoded element by element.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/layout.h"

namespace openspyre::dma {

// One loop of a copy: strides in elements. `view` is the stride in the buffer's host space, `device` in its memory.
struct Axis {
  int64_t count, host, view, device;
  bool operator==(const Axis&) const = default;
};

// Part of a row: `tiles` times `lanes` elements, contiguous on the host as a whole, on the device within each tile.
struct Run {
  int64_t lanes, tiles;
  int64_t device;       // relative to the piece's
  int64_t tile_stride;  // on the device
  int64_t elements() const { return lanes * tiles; }
};

struct Piece {
  std::vector<Axis> axes;  // by decreasing host stride; never of count 1
  std::vector<Run> row;    // inside the axes: one after the other on the host; empty: a single element
  int64_t host = 0;        // first element, relative to the host tensor's
  int64_t view = 0;        // the same in the buffer's host space
  int64_t device = 0;      // and in its memory
  bool irregular = false;  // `device` and the axes' device strides mean nothing
  int64_t row_elements() const;
  int64_t elements() const;
};

// Loops over all elements of two equally sized strided tensors, merged where possible. Empty result with elements 0 if
// a size is 0.
std::vector<Axis> merged_axes(std::span<const int64_t> size, std::span<const int64_t> host_stride,
                              std::span<const int64_t> view_stride);

// Throws InvalidArgument if the view leaves the buffer.
std::vector<Piece> plan(const BufferShape& shape, int64_t view_offset, std::vector<Axis> axes);

}  // namespace openspyre::dma
