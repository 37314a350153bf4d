// The inner loops of a contraction, compiled once per instruction set. All give the same bits (contract N5): every
// output is one chain acc = fma(a_k, b_k, acc) over ascending k, whatever the vector width.
#pragma once

#include <cstdint>

#include "formats.h"
#include "isa.h"

namespace openspyre::contract {

// Rows of A in fp32, `a_pitch` apart, times panels of B, added to the running sums.
// B: panel p is [k][panel_columns]. Sums: panel p is [sums_rows][panel_columns]; the block starts at the given pointer.
struct Block {
  const float* a;
  int64_t a_pitch;
  int64_t rows;
  const float* b;
  int64_t panels;
  int64_t k;
  float* sums;
  int64_t sums_rows;
  bool first;  // the sums start at +0 instead of their stored value
};

// Rows of B as they lie in memory: one stick along n each, `stride` apart.
struct StickRows {
  const void* first;
  int64_t stride;  // elements
  int64_t rows;
  const void* ahead;  // what will be read next, to be fetched meanwhile; may be null
};

// What depends on the format of A and B.
struct OperandKernels {
  void (*widen)(const void* source, float* target, int64_t count);
  // The first `columns` lanes (rounded up to whole panels) of each row, as panels [rows][panel_columns].
  void (*fill_panels)(const StickRows& source, int64_t columns, float* panels);
  // One row of A times the whole stick of each row of B: sums[n] = fma(a[k], b[k][n], sums[n]).
  // False, with the sums unchanged, if B holds a code this loop does not treat: then panels are the way.
  bool (*stream)(const float* a, const StickRows& source, float* sums, bool first);
};

// Sums of one panel rounded to C: row i of the panel goes to c + c_row[i], `columns` lanes of it.
struct PanelStore {
  const float* sums;
  int64_t rows;
  void* c;
  const int64_t* c_row;  // elements
  int64_t columns;
};

struct Kernels {
  int panel_columns;
  int tile_rows;  // most rows that share one pass over a panel
  void (*multiply)(const Block& block);
  OperandKernels sen169, fp32;
  void (*store_sen169)(const PanelStore& store);
  void (*store_fp32)(const PanelStore& store);
};

const Kernels& baseline_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
#endif
const Kernels& kernels(Isa isa);  // isa must be available on this host

}  // namespace openspyre::contract
