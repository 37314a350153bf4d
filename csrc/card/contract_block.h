// The loops of contract_kernels.h written over a vector type `V`. Included by one source file per instruction set,
// which must not share compiled code with the others: hence the unnamed namespace and no library templates.
#pragma once

#include <cstdint>

#include "contract_kernels.h"

namespace openspyre::contract {
namespace {

#define CONTRACT_INLINE [[gnu::always_inline]] inline

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

// visit.operator()<R>(first row) for groups of R rows: nearly equal heights, none above `most`.
template <int most, typename Visit>
CONTRACT_INLINE void visit_group(int64_t rows, int64_t first, Visit& visit) {
  if (rows == most)
    visit.template operator()<most>(first);
  else if constexpr (most > 1)
    visit_group<most - 1>(rows, first, visit);
}

template <int most, typename Visit>
CONTRACT_INLINE void visit_groups(int64_t rows, Visit visit) {
  const int64_t groups = (rows + most - 1) / most, base = rows / groups, larger = rows % groups;
  for (int64_t g = 0, row = 0; g < groups; ++g) {
    const int64_t height = base + (g < larger);
    visit_group<most>(height, row, visit);
    row += height;
  }
}

// A stick is two cache lines.
CONTRACT_INLINE void fetch_stick(const char* stick) {
  __builtin_prefetch(stick, 0, 2);
  __builtin_prefetch(stick + kStickBytes / 2, 0, 2);
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
      multiply_tile<V, R>(a, block.a_pitch, b, block.k, sums + row * V::kPanel, block.first);
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
      for (int i = 0; i < V::kPanel; i += V::kRun)
        widen_run<V, exact>(from + n + i, panels + n / V::kPanel * panel_size + i, watch);
    }
  }
  return exact || V::clean(watch);
}

template <typename V, typename Element>
void fill_panels(const StickRows& source, int64_t columns, float* panels) {
  constexpr int64_t kStick = kStickBytes / sizeof(Element);
  const bool clean = columns == kStick ? fill_once<V, false, kStick, Element>(source, columns, panels)
                                       : fill_once<V, false, 0, Element>(source, columns, panels);
  if (!clean) fill_once<V, true, 0, Element>(source, columns, panels);
}

// --- streaming: R rows by C columns, sums in registers over all of k ---
template <typename V, typename Element, int R, int C, bool exact>
CONTRACT_INLINE void stream_row(const float* a, int64_t a_pitch, const Element* from,
                                typename V::F (*sum)[C / V::kLanes], typename V::Watch& watch) {
  constexpr int kRunVectors = V::kRun / V::kLanes;
#pragma GCC unroll 4
  for (int c = 0; c < C; c += V::kRun) {
    typename V::F column[kRunVectors];
    V::template widen_in_registers<exact>(from + c, column, watch);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const typename V::F row = V::broadcast(a + i * a_pitch);
#pragma GCC unroll 2
      for (int v = 0; v < kRunVectors; ++v)
        sum[i][c / V::kLanes + v] = V::fma(row, column[v], sum[i][c / V::kLanes + v]);
    }
  }
}

template <typename V, typename Element, int R, int C, bool exact>
CONTRACT_INLINE bool stream_once(const float* a, int64_t a_pitch, const StickRows& b, const Element* ahead, float* sums,
                                 bool first) {
  constexpr int kVectors = C / V::kLanes;
  constexpr int64_t kPasses = kStickBytes / sizeof(Element) / C;  // over the same rows, one per tile of columns
  typename V::F sum[R][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[i][v] = first ? V::zero() : V::load(sums + i * C + v * V::kLanes);
    V::template exchange<Element, kVectors>(sum[i]);
  }
  const Element* from = static_cast<const Element*>(b.first);
  typename V::Watch watch = V::watch();
  int64_t k = 0;
  for (; k + kPasses <= b.rows; k += kPasses, ahead += b.stride) {
    fetch_stick(reinterpret_cast<const char*>(ahead));  // each pass brings its share of the next rows
#pragma GCC unroll 8
    for (int64_t i = 0; i < kPasses; ++i, ++a, from += b.stride)
      stream_row<V, Element, R, C, exact>(a, a_pitch, from, sum, watch);
  }
  for (; k < b.rows; ++k, ++a, from += b.stride) stream_row<V, Element, R, C, exact>(a, a_pitch, from, sum, watch);
  if (!exact && !V::clean(watch)) return false;
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    V::template exchange<Element, kVectors>(sum[i]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) V::store(sums + i * C + v * V::kLanes, sum[i][v]);
  }
  return true;
}

template <typename V, typename Element, int R, int C>
[[gnu::noinline]] void stream_tile(const float* a, int64_t a_pitch, const StickRows& b, const Element* ahead,
                                   float* sums, bool first) {
  if (!stream_once<V, Element, R, C, false>(a, a_pitch, b, ahead, sums, first))
    stream_once<V, Element, R, C, true>(a, a_pitch, b, ahead, sums, first);
}

template <typename V, typename Element>
void stream(const StreamBlock& block) {
  constexpr int64_t kStick = kStickBytes / sizeof(Element);
  const Element* ahead = static_cast<const Element*>(block.ahead);
  // One row: a whole stick at once has the most chains of sums in flight.
  if (block.rows == 1) return stream_tile<V, Element, 1, kStick>(block.a, 0, block.b, ahead, block.sums, block.first);
  for (int64_t column = 0; column < block.columns; column += V::kPanel) {
    const StickRows b = {static_cast<const Element*>(block.b.first) + column, block.b.stride, block.b.rows};
    const Element* share = ahead + column / V::kPanel * (b.rows / (kStick / V::kPanel)) * b.stride;
    visit_groups<V::kStreamRows>(block.rows, [&]<int R>(int64_t row) {
      const float* a = block.a + row * block.a_pitch;
      float* sums = block.sums + column * block.rows + row * V::kPanel;
      stream_tile<V, Element, R, V::kPanel>(a, block.a_pitch, b, share, sums, block.first);
    });
  }
}

// --- writing C ---
template <typename V, typename Element>
void store_panel(const PanelStore& store) {
  Element* c = static_cast<Element*>(store.c);
  for (int64_t i = 0; i < store.rows; ++i) {
    const float* sums = store.sums + i * V::kPanel;
    Element* to = c + store.c_row[i];
    if (store.columns == V::kPanel) {
      V::round_panel(sums, to);
    } else {
      Element row[V::kPanel];
      V::round_panel(sums, row);
      __builtin_memcpy(to, row, static_cast<size_t>(store.columns) * sizeof(Element));
    }
  }
}

template <typename V, typename Element>
constexpr OperandKernels operand_kernels() {
  return {widen<V, Element>, fill_panels<V, Element>, stream<V, Element>};
}

template <typename V>
constexpr Kernels kernels_of() {
  return {V::kPanel,
          V::kRows,
          multiply<V>,
          operand_kernels<V, uint16_t>(),
          operand_kernels<V, float>(),
          store_panel<V, uint16_t>,
          store_panel<V, float>};
}

}  // namespace
}  // namespace openspyre::contract
