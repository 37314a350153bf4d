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
void multiply_tile(const float* a, int64_t a_pitch, const float* b, int64_t k, float* sums, bool first) {
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

using Tile = void (*)(const float*, int64_t, const float*, int64_t, float*, bool);

template <typename V, int R>
constexpr void list_tiles(Tile* tiles) {
  if constexpr (R > 0) {
    tiles[R] = multiply_tile<V, R>;
    list_tiles<V, R - 1>(tiles);
  }
}

template <typename V>
struct Tiles {
  Tile of_rows[V::kRows + 1] = {};
  constexpr Tiles() { list_tiles<V, V::kRows>(of_rows); }
};

template <typename V>
void multiply(const Block& block) {
  static constexpr Tiles<V> tiles;
  const int64_t groups = (block.rows + V::kRows - 1) / V::kRows;
  const int64_t base = block.rows / groups, larger = block.rows % groups;  // groups of nearly equal height
  for (int64_t p = 0; p < block.panels; ++p) {
    const float* b = block.b + p * block.k * V::kPanel;
    float* sums = block.sums + p * block.sums_rows * V::kPanel;
    const float* a = block.a;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t rows = base + (g < larger);
      tiles.of_rows[rows](a, block.a_pitch, b, block.k, sums, block.first);
      a += rows * block.a_pitch;
      sums += rows * V::kPanel;
    }
  }
}

// --- reading operands ---
template <typename V, typename Element>
void widen(const void* source, float* target, int64_t count) {
  const Element* from = static_cast<const Element*>(source);
  int64_t i = 0;
  for (; i + V::kRun <= count; i += V::kRun) V::widen_exactly(from + i, target + i);
  if (i == count) return;
  Element rest[V::kRun] = {};
  float widened[V::kRun];
  __builtin_memcpy(rest, from + i, static_cast<size_t>(count - i) * sizeof(Element));
  V::widen_exactly(rest, widened);
  __builtin_memcpy(target + i, widened, static_cast<size_t>(count - i) * sizeof(float));
}

// A whole stick is 128 bytes: two cache lines.
CONTRACT_INLINE void fetch_row(const void* ahead, int64_t row_bytes) {
  const char* line = static_cast<const char*>(ahead) + row_bytes;
  __builtin_prefetch(line, 0, 2);
  __builtin_prefetch(line + 64, 0, 2);
}

template <typename V, typename Element, bool exact>
bool fill_panels_once(const StickRows& source, int64_t columns, float* panels) {
  const Element* from = static_cast<const Element*>(source.first);
  const int64_t panel_size = source.rows * V::kPanel;
  typename V::Watch watch = V::watch();
  for (int64_t k = 0; k < source.rows; ++k, from += source.stride) {
    if (source.ahead) fetch_row(source.ahead, k * source.stride * static_cast<int64_t>(sizeof(Element)));
    float* row = panels + k * V::kPanel;
    for (int64_t n = 0; n < columns; n += V::kPanel, row += panel_size) {
#pragma GCC unroll 4
      for (int i = 0; i < V::kPanel; i += V::kRun) {
        if constexpr (exact)
          V::widen_exactly(from + n + i, row + i);
        else
          V::widen_watching(from + n + i, row + i, watch);
      }
    }
  }
  return exact || V::clean(watch);
}

// Infinities in B are so rare that the loop only notices them, and is then run again in its exact form.
template <typename V, typename Element>
void fill_panels(const StickRows& source, int64_t columns, float* panels) {
  if (!fill_panels_once<V, Element, false>(source, columns, panels))
    fill_panels_once<V, Element, true>(source, columns, panels);
}

template <typename V, typename Element>
bool stream(const float* a, const StickRows& source, float* sums, bool first) {
  constexpr int kColumns = kStickBytes / sizeof(Element), kVectors = kColumns / V::kLanes;
  constexpr int64_t kAhead = 4096 / kStickBytes;
  typename V::F sum[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) sum[v] = first ? V::zero() : V::load(sums + v * V::kLanes);
  V::template to_stream_order<Element>(sum);
  const Element* from = static_cast<const Element*>(source.first);
  typename V::Watch watch = V::watch();
  for (int64_t k = 0; k < source.rows; ++k, from += source.stride) {
    fetch_row(from, kAhead * source.stride * static_cast<int64_t>(sizeof(Element)));
    V::stream_row(V::broadcast(a + k), from, sum, watch);
  }
  if (!V::clean(watch)) return false;
  V::template from_stream_order<Element>(sum);
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) V::store(sums + v * V::kLanes, sum[v]);
  return true;
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
