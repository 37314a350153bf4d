// The loops of contract_kernels.h written over a vector type `V`. Included by one source file per instruction set,
// which must not share compiled code with the others: hence the unnamed namespace and no library templates.
#pragma once

#include <cstdint>

#include "kernels/contract_along_k.h"
#include "kernels/contract_groups.h"
#include "kernels/contract_kernels.h"
#include "steps/contract_turn.h"

namespace openspyre::contract {
namespace {

// Zeros of A add nothing where B is finite and no product vanishes: 16-bit numbers have too few exponents for that.
template <typename V, typename Element>
constexpr bool kZerosAddNothing = V::kWatches && sizeof(Element) == sizeof(uint16_t);

// One tile: R rows by one panel, its sums in registers over all of k.
template <typename V, int R>
[[gnu::noinline]] void multiply_tile(const float* a, int64_t a_pitch, const float* b, int64_t k, float* sums,
                                     bool first) {
  constexpr int kVectors = V::kPanel / V::kLanes;
  typename V::F sum[R][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = first ? V::zero() : V::load(sums + i * V::kPanel + v * V::kLanes);
  }
#pragma GCC unroll 4
  for (int64_t p = 0; p < k; ++p, ++a, b += V::kPanel) {
    typename V::F column[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) column[v] = V::load(b + v * V::kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const typename V::F row = V::broadcast(a + i * a_pitch);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = V::fma(row, column[v], sum[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) V::store(sums + i * V::kPanel + v * V::kLanes, sum[i][v]);
  }
}

// A stick is two cache lines.
CONTRACT_INLINE void fetch_stick(const char* stick) {
  __builtin_prefetch(stick, 0, 2);
  __builtin_prefetch(stick + kStickBytes / 2, 0, 2);
}

// How far rows of A are worth multiplying.
CONTRACT_INLINE int64_t end_of(const int64_t* ends, int64_t rows) {
  int64_t end = 0;
  for (int64_t i = 0; i < rows; ++i) end = ends[i] > end ? ends[i] : end;
  return end;
}

template <typename V>
void multiply(const Block& block) {
  const int64_t tiles = block.panels * ((block.rows + V::kRows - 1) / V::kRows);
  const int64_t share = (block.ahead_rows + tiles - 1) / tiles;  // rows to fetch per tile
  const char *ahead = block.ahead, *end = ahead + block.ahead_rows * block.ahead_row_bytes;
  for (int64_t p = 0; p < block.panels; ++p) {
    const float* b = block.b + p * block.k * V::kPanel;
    float* sums = block.sums + p * block.sums_rows * V::kPanel;
    visit_groups<V::kRows>(block.rows, [&]<int R>(int64_t row) {
      for (int64_t i = 0; i < share && ahead != end; ++i, ahead += block.ahead_row_bytes) fetch_stick(ahead);
      const float* a = block.a + row * block.a_pitch;
      const int64_t depth = block.ends != nullptr ? end_of(block.ends + row, R) : block.k;
      multiply_tile<V, R>(a, block.a_pitch, b, depth, sums + row * V::kPanel, block.first);
    });
  }
}

// --- reading operands ---
// Infinities are so rare that loops only watch for them, and are then run again in their exact form.
template <typename V, bool exact, typename Element>
CONTRACT_INLINE void widen_run(const Element* from, float* to, typename V::Watch& watch) {
  if constexpr (exact)
    V::widen_exactly(from, to);
  else
    V::widen_watching(from, to, watch);
}

template <typename V, typename Element>
void widen(const void* source, float* target, int64_t count) {
  const Element* from = static_cast<const Element*>(source);
  typename V::Watch watch = V::watch();
  int64_t i = 0;
#pragma GCC unroll 4
  for (; i + V::kRun <= count; i += V::kRun) widen_run<V, false>(from + i, target + i, watch);
  if (!V::clean(watch))
    for (i = 0; i + V::kRun <= count; i += V::kRun) widen_run<V, true>(from + i, target + i, watch);
  if (i == count) return;
  Element rest[V::kRun] = {};
  float widened[V::kRun];
  __builtin_memcpy(rest, from + i, static_cast<size_t>(count - i) * sizeof(Element));
  V::widen_exactly(rest, widened);
  __builtin_memcpy(target + i, widened, static_cast<size_t>(count - i) * sizeof(float));
}

constexpr int64_t kRowsAhead = 48;  // beyond the page in which the processor looks ahead by itself

template <typename V, bool exact, int64_t fixed_columns, typename Element>
CONTRACT_INLINE bool fill_once(const StickRows& source, int64_t columns, float* panels) {
  if (fixed_columns) columns = fixed_columns;
  const Element* from = static_cast<const Element*>(source.first);
  const int64_t panel_size = source.rows * V::kPanel;
  typename V::Watch watch = V::watch();
  for (int64_t k = 0; k < source.rows; ++k, from += source.stride, panels += V::kPanel) {
    if (source.cold) fetch_stick(reinterpret_cast<const char*>(from + kRowsAhead * source.stride));
#pragma GCC unroll 8
    for (int64_t n = 0; n < columns; n += V::kPanel) {
#pragma GCC unroll 4
      for (int i = 0; i < V::kPanel; i += V::kRun) {
        typename V::F column[V::kRun / V::kLanes];
        V::template widen_in_registers<exact>(from + n + i, column, watch);
#pragma GCC unroll 2
        for (int v = 0; v < V::kRun / V::kLanes; ++v)
          V::store(panels + n / V::kPanel * panel_size + i + v * V::kLanes, column[v]);
      }
    }
  }
  return exact || V::clean(watch);
}

template <typename V, typename Element>
bool fill_panels(const StickRows& source, int64_t columns, float* panels) {
  constexpr int64_t kStick = kStickBytes / sizeof(Element);
  const bool clean = columns == kStick ? fill_once<V, false, kStick, Element>(source, columns, panels)
                                       : fill_once<V, false, 0, Element>(source, columns, panels);
  if (!clean) fill_once<V, true, 0, Element>(source, columns, panels);
  return clean && kZerosAddNothing<V, Element>;
}

// --- streaming: R rows by C columns, sums in registers over all of k ---
template <typename V, typename Element, int R, int C, bool keeps, bool exact>
CONTRACT_INLINE void stream_row(const float* a, int64_t a_pitch, const Element* from,
                                typename V::F (*sum)[C / V::kLanes], float* panel, typename V::Watch& watch) {
  constexpr int kRunVectors = V::kRun / V::kLanes;
#pragma GCC unroll 4
  for (int c = 0; c < C; c += V::kRun) {
    typename V::F column[kRunVectors];
    V::template widen_in_registers<exact>(from + c, column, watch);
#pragma GCC unroll 2
    for (int v = 0; keeps && v < kRunVectors; ++v) V::store(panel + c + v * V::kLanes, column[v]);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const typename V::F row = V::broadcast(a + i * a_pitch);
#pragma GCC unroll 2
      for (int v = 0; v < kRunVectors; ++v)
        sum[i][c / V::kLanes + v] = V::fma(row, column[v], sum[i][c / V::kLanes + v]);
    }
  }
}

// Where a tile reads and writes. A panel, if there is one, gets the widened columns.
template <typename Element>
struct StreamTile {
  const float* a;
  int64_t a_pitch;
  StickRows b;
  const Element* ahead;
  float* panel;
  float* sums;
  bool first;
};

template <typename V, typename Element, int R, int C, bool keeps, bool exact>
CONTRACT_INLINE bool stream_once(const StreamTile<Element>& tile) {
  constexpr int kVectors = C / V::kLanes;
  constexpr int64_t kPasses = kStickBytes / sizeof(Element) / C;  // over the same rows, one per tile of columns
  typename V::F sum[R][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[i][v] = tile.first ? V::zero() : V::load(tile.sums + i * C + v * V::kLanes);
  }
  const Element *from = static_cast<const Element*>(tile.b.first), *ahead = tile.ahead;
  const float* a = tile.a;
  float* panel = tile.panel;
  const int64_t stride = tile.b.stride, rows = tile.b.rows, a_pitch = tile.a_pitch;
  typename V::Watch watch = V::watch();
  int64_t k = 0;
  for (; k + kPasses <= rows; k += kPasses, ahead += stride) {
    fetch_stick(reinterpret_cast<const char*>(ahead));  // each pass brings its share of the next rows
#pragma GCC unroll 8
    for (int64_t i = 0; i < kPasses; ++i, ++a, from += stride, panel += keeps ? C : 0)
      stream_row<V, Element, R, C, keeps, exact>(a, a_pitch, from, sum, panel, watch);
  }
  for (; k < rows; ++k, ++a, from += stride, panel += keeps ? C : 0)
    stream_row<V, Element, R, C, keeps, exact>(a, a_pitch, from, sum, panel, watch);
  if (!exact && !V::clean(watch)) return false;
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) V::store(tile.sums + i * C + v * V::kLanes, sum[i][v]);
  }
  return true;
}

// Whether zeros of A are known to add nothing.
template <typename V, typename Element, int R, int C, bool keeps>
[[gnu::noinline]] bool stream_tile(const StreamTile<Element>& tile) {
  const bool clean = stream_once<V, Element, R, C, keeps, false>(tile);
  if (!clean) stream_once<V, Element, R, C, keeps, true>(tile);
  return clean && kZerosAddNothing<V, Element>;
}

// A few rows widen the panel, the others follow.
template <typename V, typename Element>
void stream(const StreamBlock& block) {
  constexpr int64_t kStick = kStickBytes / sizeof(Element);
  const Element* ahead = static_cast<const Element*>(block.ahead);
  StreamTile<Element> tile = {block.a, block.a_pitch, block.b, ahead, block.panel, block.sums, block.first};
  // One row: a whole stick at once has the most chains of sums in flight.
  if (block.rows == 1) {
    stream_tile<V, Element, 1, kStick, false>(tile);
    return;
  }
  const int64_t widening = block.rows <= V::kStreamRows ? block.rows : V::kWidenRows;
  for (int64_t column = 0; column < block.columns; column += V::kPanel) {
    tile.b.first = static_cast<const Element*>(block.b.first) + column;
    tile.ahead = ahead + column / V::kPanel * (block.b.rows / (kStick / V::kPanel)) * block.b.stride;
    tile.sums = block.sums + column * block.rows;
    bool finite = false;
    const auto widen = [&]<int R>(int64_t) {
      finite = widening < block.rows ? stream_tile<V, Element, R, V::kPanel, true>(tile)
                                     : stream_tile<V, Element, R, V::kPanel, false>(tile);
    };
    visit_group<V::kStreamRows>(widening, 0, widen);
    if (widening == block.rows) continue;
    visit_groups<V::kRows>(block.rows - widening, [&]<int R>(int64_t after) {
      const int64_t row = widening + after;
      const int64_t depth = finite && block.ends != nullptr ? end_of(block.ends + row, R) : block.b.rows;
      multiply_tile<V, R>(block.a + row * block.a_pitch, block.a_pitch, block.panel, depth, tile.sums + row * V::kPanel,
                          block.first);
    });
  }
}

// --- one row by few: S sticks at once, so that their chains of sums run side by side
template <typename V, typename Element, int S, bool exact>
CONTRACT_INLINE bool shallow_once(const ShallowBlock& block, const int64_t* sticks, float* sums) {
  constexpr int kStick = kStickBytes / sizeof(Element), kVectors = kStick / V::kLanes,
                kRunVectors = V::kRun / V::kLanes;
  typename V::F sum[S][kVectors];
  const Element* from[S];
#pragma GCC unroll 4
  for (int s = 0; s < S; ++s) {
    from[s] = static_cast<const Element*>(block.b) + sticks[s];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[s][v] = V::zero();
  }
  typename V::Watch watch = V::watch();
  for (int64_t k = 0; k < block.b_rows; ++k) {
    const typename V::F row = V::broadcast(block.a + k);
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) {
#pragma GCC unroll 8
      for (int run = 0; run < kVectors / kRunVectors; ++run) {
        typename V::F column[kRunVectors];
        V::template widen_in_registers<exact>(from[s] + run * V::kRun, column, watch);
#pragma GCC unroll 4
        for (int v = 0; v < kRunVectors; ++v)
          sum[s][run * kRunVectors + v] = V::fma(row, column[v], sum[s][run * kRunVectors + v]);
      }
      from[s] += block.b_stride;
    }
  }
  if (!exact && !V::clean(watch)) return false;
#pragma GCC unroll 4
  for (int s = 0; s < S; ++s) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) V::store(sums + s * kStick + v * V::kLanes, sum[s][v]);
  }
  return true;
}

template <typename V, typename Element>
void stream_shallow(const ShallowBlock& block) {
  constexpr int kStick = kStickBytes / sizeof(Element), kSticks = 8 * V::kLanes / kStick > 1 ? 2 : 1;
  int64_t i = 0;
  for (; i + kSticks <= block.count; i += kSticks)
    if (!shallow_once<V, Element, kSticks, false>(block, block.sticks + i, block.sums + i * kStick))
      shallow_once<V, Element, kSticks, true>(block, block.sticks + i, block.sums + i * kStick);
  for (; i < block.count; ++i)
    if (!shallow_once<V, Element, 1, false>(block, block.sticks + i, block.sums + i * kStick))
      shallow_once<V, Element, 1, true>(block, block.sticks + i, block.sums + i * kStick);
}

// --- writing C: sums of operands as `From` are rounded to `Element` ---
// A row's whole stick before the next row: C is mostly not in the cache, and each of its lines is fetched once.
template <typename V, typename From, typename Element>
void store_stick(const StickStore& store) {
  constexpr int64_t kStick = kStickBytes / sizeof(Element), kAhead = 16;
  Element* c = static_cast<Element*>(store.c);
  const int64_t panel_size = store.rows * V::kPanel;
  for (int64_t i = 0; i < store.rows; ++i) {
    const float* sums = store.sums + i * V::kPanel;
    Element* to = c + store.c_row[i];
    const Element* ahead = c + store.c_row[i + kAhead < store.rows ? i + kAhead : i];
    __builtin_prefetch(ahead, 1);
    __builtin_prefetch(ahead + kStick / 2, 1);
    if (store.columns == kStick) {
#pragma GCC unroll 8
      for (int64_t n = 0; n < kStick; n += V::kPanel, sums += panel_size) V::template round_panel<From>(sums, to + n);
    } else {
      Element row[kStick];
      for (int64_t n = 0; n < store.columns; n += V::kPanel, sums += panel_size)
        V::template round_panel<From>(sums, row + n);
      __builtin_memcpy(to, row, static_cast<size_t>(store.columns) * sizeof(Element));
    }
  }
}

template <typename V, typename Element>
constexpr OperandKernels operand_kernels() {
  OperandKernels kernels = {widen<V, Element>,
                            fill_panels<V, Element>,
                            stream<V, Element>,
                            stream_shallow<V, Element>,
                            nullptr,
                            turn<Element>,
                            store_stick<V, Element, uint16_t>,
                            store_stick<V, Element, float>};
  if constexpr (V::kTurnsInRegisters && sizeof(Element) == sizeof(uint16_t)) kernels.stream_along_k = stream_along_k<V>;
  return kernels;
}

template <typename V>
constexpr Kernels kernels_of() {
  return {V::kPanel, V::kRows, multiply<V>, operand_kernels<V, uint16_t>(), operand_kernels<V, float>()};
}

}  // namespace
}  // namespace openspyre::contract
