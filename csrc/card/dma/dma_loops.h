// The loops around a move.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "dma/dma_plan.h"

namespace openspyre::dma {

// Calls body(host, device) for every combination of the loops except those in `inner`.
template <typename Body>
bool around(const Piece& piece, std::span<const Axis* const> inner, Body&& body) {
  std::vector<const Axis*> loops;
  for (const Axis& axis : piece.axes) {
    if (std::find(inner.begin(), inner.end(), &axis) == inner.end()) loops.push_back(&axis);
  }
  std::vector<int64_t> index(loops.size(), 0);
  int64_t host = piece.host, device = piece.device;
  while (true) {
    if (!body(host, device)) return false;
    size_t level = loops.size();
    while (level > 0) {
      const Axis& axis = *loops[level - 1];
      host += axis.host;
      device += axis.device;
      if (++index[level - 1] < axis.count) break;
      host -= axis.count * axis.host;
      device -= axis.count * axis.device;
      index[--level] = 0;
    }
    if (level == 0) return true;
  }
}

}  // namespace openspyre::dma
