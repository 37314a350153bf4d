// Moves one piece of a copy, in either direction.
#pragma once

#include <cstddef>

#include "dma/dma_plan.h"
#include "formats/convert.h"

namespace openspyre::dma {

struct Transfer {
  const BufferShape* shape;
  std::byte* host;    // first element of the host tensor
  std::byte* device;  // first element of the buffer
  int host_itemsize;
  int device_itemsize;
  convert::Conversion convert;
  bool inbound;    // host to device
  bool streaming;  // large: write around the cache
};

// False if a value does not fit the target.
[[nodiscard]] bool move(const Transfer& transfer, const Piece& piece);

}  // namespace openspyre::dma
