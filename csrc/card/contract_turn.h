// Turns rows of B that run along k, as they lie in memory, into rows along n: what the other loops of a contraction
// read. Elements keep their format, so that products and sums are the same code for both ways B can lie.
// Included by contract_block.h, once per instruction set.
#pragma once

#include <cstdint>

#include "contract_kernels.h"

namespace openspyre::contract {
namespace {

// 16 bytes of a row; a square has as many rows.
template <int itemsize>
struct Square;

template <>
struct Square<2> {
  using Lanes [[gnu::vector_size(16)]] = uint16_t;
  static constexpr int kSide = 8;
  static constexpr Lanes kLower = {0, 8, 1, 9, 2, 10, 3, 11}, kUpper = {4, 12, 5, 13, 6, 14, 7, 15};
};

template <>
struct Square<4> {
  using Lanes [[gnu::vector_size(16)]] = uint32_t;
  static constexpr int kSide = 4;
  static constexpr Lanes kLower = {0, 4, 1, 5}, kUpper = {2, 6, 3, 7};
};

// Each round interleaves the first half of the rows with the second; after log2(side) of them rows are columns.
template <typename Element>
[[gnu::always_inline]] inline void turn_square(const Element* from, int64_t stride, Element* to, int64_t to_stride) {
  using S = Square<sizeof(Element)>;
  typename S::Lanes rows[S::kSide], mixed[S::kSide];
#pragma GCC unroll 8
  for (int i = 0; i < S::kSide; ++i) __builtin_memcpy(&rows[i], from + i * stride, sizeof rows[i]);
#pragma GCC unroll 3
  for (int round = 1; round < S::kSide; round *= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < S::kSide / 2; ++i) {
      mixed[2 * i] = __builtin_shuffle(rows[i], rows[i + S::kSide / 2], S::kLower);
      mixed[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + S::kSide / 2], S::kUpper);
    }
#pragma GCC unroll 8
    for (int i = 0; i < S::kSide; ++i) rows[i] = mixed[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < S::kSide; ++i) __builtin_memcpy(to + i * to_stride, &rows[i], sizeof rows[i]);
}

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
