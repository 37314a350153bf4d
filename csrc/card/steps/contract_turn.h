// Turns rows of B that run along k, as they lie in memory, into rows along n: what the other loops of a contraction
// read. Elements keep their format, so that products and sums are the same code for both ways B can lie.
// Included by contract_block.h, once per instruction set.
#pragma once

#include <cstdint>

#include "formats/square.h"
#include "kernels/contract_kernels.h"

namespace openspyre::contract {
namespace {

template <typename Element>
void turn(const StickRows& source, int64_t lanes, void* target) {
  constexpr int64_t kStick = kStickBytes / sizeof(Element), kSide = Square<sizeof(Element)>::kSide;
  constexpr int64_t kTurnedAhead = 64;  // rows: what a task turns next, where its columns lie one behind the other
  const Element* from = static_cast<const Element*>(source.first);
  Element* to = static_cast<Element*>(target);
  const int64_t whole_rows = source.rows / kSide * kSide, whole_lanes = lanes / kSide * kSide;
  for (int64_t row = 0; row < whole_rows; row += kSide) {
    for (int64_t i = row; i < row + kSide; ++i) {
      const char* ahead = reinterpret_cast<const char*>(from + (i + kTurnedAhead) * source.stride);
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + kStickBytes / 2);
    }
    for (int64_t lane = 0; lane < whole_lanes; lane += kSide)
      turn_square(from + row * source.stride + lane, source.stride, to + lane * kStick + row, kStick);
  }
  for (int64_t lane = 0; lane < lanes; ++lane)
    for (int64_t row = lane < whole_lanes ? whole_rows : 0; row < source.rows; ++row)
      to[lane * kStick + row] = from[row * source.stride + lane];
}

}  // namespace
}  // namespace openspyre::contract
