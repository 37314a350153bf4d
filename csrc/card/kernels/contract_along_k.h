// A few rows of A times columns of B that run along k, as they lie in memory: four rows of pairs of codes are turned at
// a time, in registers, and widened there. Turning them to sticks along n first pays where more rows share it.
// Included by contract_block.h, once per instruction set.
#pragma once

#include <cstdint>

#include "kernels/contract_groups.h"
#include "kernels/contract_kernels.h"

namespace openspyre::contract {
namespace {

constexpr int64_t kPiece = 8;  // lanes of k that are turned at a time: 16 bytes of each column
constexpr int kFewRows = 4;    // of A, whose sums stay in registers
constexpr int64_t kStickLanes = kStickBytes / sizeof(uint16_t);

struct AlongTile {
  const float* a;
  int64_t a_pitch;
  const uint16_t* b;
  int64_t stride;
  int64_t lanes;
  float* sums;
  bool first;
};

// The first `count` of a piece's lanes, for the columns of vector `v` of a panel.
template <typename V, int R, bool exact>
CONTRACT_INLINE void add_piece(const float* a, int64_t a_pitch, const uint16_t* b, int64_t stride, int v, int64_t count,
                               typename V::F (*sum)[V::kPanel / V::kLanes], typename V::Watch& watch) {
  typename V::Codes pairs[kPiece / 2];
  V::load_pairs(b, stride, v, pairs);
#pragma GCC unroll 4
  for (int64_t pair = 0; pair < kPiece / 2; ++pair) {
    typename V::F column[2];
    V::template widen_pairs<exact>(pairs[pair], column, watch);
#pragma GCC unroll 2
    for (int64_t odd = 0; odd < 2; ++odd) {
      if (2 * pair + odd >= count) return;
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i)
        sum[i][v] = V::fma(V::broadcast(a + i * a_pitch + 2 * pair + odd), column[odd], sum[i][v]);
    }
  }
}

template <typename V, int R, bool exact>
CONTRACT_INLINE bool along_once(const AlongTile& tile) {
  constexpr int kVectors = V::kPanel / V::kLanes;
  constexpr int64_t kAhead = 64;  // columns: where they lie one behind the other, what a task takes next
  typename V::F sum[R][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      sum[i][v] = tile.first ? V::zero() : V::load(tile.sums + i * V::kPanel + v * V::kLanes);
  }
  const float* a = tile.a;
  const uint16_t *b = tile.b, *ahead = b + kAhead * tile.stride;
  const int64_t a_pitch = tile.a_pitch, stride = tile.stride;
  typename V::Watch watch = V::watch();
  int64_t left = tile.lanes;
  for (; left >= kPiece; left -= kPiece, a += kPiece, b += kPiece) {
#pragma GCC unroll 4
    for (int i = 0; i < V::kPanel * kPiece / kStickLanes; ++i, ahead += stride) {  // its share of a stick's pieces
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + kStickLanes / 2);
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) add_piece<V, R, exact>(a, a_pitch, b, stride, v, kPiece, sum, watch);
  }
  for (int v = 0; left > 0 && v < kVectors; ++v) add_piece<V, R, exact>(a, a_pitch, b, stride, v, left, sum, watch);
  if (!exact && !V::clean(watch)) return false;
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) V::store(tile.sums + i * V::kPanel + v * V::kLanes, sum[i][v]);
  }
  return true;
}

template <typename V, int R>
[[gnu::noinline]] void along_tile(const AlongTile& tile) {
  if (!along_once<V, R, false>(tile)) along_once<V, R, true>(tile);
}

template <typename V>
void stream_along_k(const AlongBlock& block) {
  uint16_t padded[V::kPanel * kStickLanes];
  const uint16_t* columns = static_cast<const uint16_t*>(block.b.first);
  const int64_t bytes = (block.lanes + kPiece - 1) / kPiece * kPiece * int64_t(sizeof(uint16_t));
  for (int64_t column = 0; column < block.b.rows; column += V::kPanel) {
    const int64_t given = block.b.rows - column;
    AlongTile tile = {nullptr, block.a_pitch, columns + column * block.b.stride, block.b.stride, block.lanes,
                      nullptr, block.first};
    if (given < V::kPanel) {  // a panel has whole vectors; what is behind the last column is never stored
      __builtin_memset(padded, 0, sizeof padded);
      for (int64_t i = 0; i < given; ++i)
        __builtin_memcpy(padded + i * kStickLanes, tile.b + i * tile.stride, static_cast<size_t>(bytes));
      tile.b = padded, tile.stride = kStickLanes;
    }
    visit_groups<kFewRows>(block.rows, [&]<int R>(int64_t row) {
      tile.a = block.a + row * block.a_pitch;
      tile.sums = block.sums + column * block.rows + row * V::kPanel;
      along_tile<V, R>(tile);
    });
  }
}

}  // namespace
}  // namespace openspyre::contract
