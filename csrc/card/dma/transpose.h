// Blocks of elements with rows and columns exchanged: what restickifies and strided copies are made of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace openspyre {

// Element c of row r of the source becomes element r of row c of the target. Pitches are bytes from row to row, any
// multiple of the itemsize, which is 1, 2, 4 or 8.
struct Transpose {
  const std::byte* source;
  int64_t source_pitch;
  std::byte* target;
  int64_t target_pitch;
  int64_t rows, columns;  // of the source
};
void transpose(const Transpose& block, int itemsize);

}  // namespace openspyre
