// The inner loops of a contraction, compiled once per instruction set. All give the same bits (contract N5): every
// output is one chain acc = fma(a_k, b_k, acc) over ascending k, whatever the vector width.
// A panel is a few columns side by side. The order of its lanes is the kernel's own, until its sums are stored.
#pragma once

#include <cstdint>

#include "formats/formats.h"
#include "kernels/isa.h"

namespace openspyre::contract {

// Rows of B: one stick along n each, or along k where it is to be turned.
struct StickRows {
  const void* first;
  int64_t stride;  // elements
  int64_t rows;
  bool cold = false;  // nobody has brought them near yet
};

// Rows of A in fp32, `a_pitch` apart, times panels of B, added to the running sums.
// B: panel p is [k][panel_columns]. Sums: panel p is [sums_rows][panel_columns]; the block starts at the given pointer.
struct Block {
  const float* a;
  int64_t a_pitch;
  int64_t rows;
  const int64_t* ends;  // per row: from here on A is zero, which adds nothing; null: not known
  const float* b;
  int64_t panels;
  int64_t k;
  float* sums;
  int64_t sums_rows;
  bool first;               // the sums start at +0 instead of their stored value
  const char* ahead;        // rows of B that come next, brought near meanwhile
  int64_t ahead_row_bytes;  // from one to the next
  int64_t ahead_rows;
};

// Rows of A times a stick of B. B is widened in registers, on the way to the products of the first few rows; if there
// are more, they find it in the panel.
struct StreamBlock {
  const float* a;
  int64_t a_pitch;
  int64_t rows;
  const int64_t* ends;  // per row: from here on A is zero, which adds nothing if B is finite; null: not known
  StickRows b;
  const void* ahead;  // where the next such rows start, brought near meanwhile
  int64_t columns;    // of the stick
  float* panel;       // [rows of B][panel_columns], scratch
  float* sums;        // panels of [rows][panel_columns]
  bool first;
};

// One row of A times sticks of few rows of B: so little that a call for each stick would take longer.
struct ShallowBlock {
  const float* a;
  const void* b;
  int64_t b_stride, b_rows;  // elements from row to row
  const int64_t* sticks;     // elements from `b` to each
  int64_t count;
  float* sums;  // a stick each, as panels
};
constexpr int64_t kShallowRows = 32;

// Rows of A times columns of B that run along k: up to a stick of each, and up to a stick of columns.
struct AlongBlock {
  const float* a;
  int64_t a_pitch;
  int64_t rows;
  StickRows b;  // a column each
  int64_t lanes;
  float* sums;  // panels of [rows][panel_columns]
  bool first;
};
// Of A, for which B is turned in registers; more share what is turned before.
constexpr int64_t kAlongRows = 8;

// Sums of a stick of C, in panels of [rows][panel_columns], rounded to it: row i goes to c + c_row[i], `columns` lanes.
struct StickStore {
  const float* sums;
  int64_t rows;
  void* c;
  const int64_t* c_row;  // elements
  int64_t columns;
};

// What depends on the format of A and B.
struct OperandKernels {
  void (*widen)(const void* source, float* target, int64_t count);
  // The first `columns` lanes (rounded up to whole panels) of each row, as panels [rows][panel_columns]. Whether zeros
  // of A are known to add nothing to products with them.
  bool (*fill_panels)(const StickRows& source, int64_t columns, float* panels);
  void (*stream)(const StreamBlock& block);
  void (*stream_shallow)(const ShallowBlock& block);
  void (*stream_along_k)(const AlongBlock& block);  // null: `turn` comes first
  // The first `lanes` lanes of up to a stick's number of rows: lane i of row j becomes lane j of stick i.
  void (*turn)(const StickRows& source, int64_t lanes, void* target);
  void (*store_sen169)(const StickStore& store);
  void (*store_fp32)(const StickStore& store);
};

struct Kernels {
  int panel_columns;
  int tile_rows;  // most rows that share one pass over a panel
  void (*multiply)(const Block& block);
  OperandKernels sen169, fp32;
};

const Kernels& baseline_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
#endif
const Kernels& kernels(Isa isa);  // isa must be available on this host

}  // namespace openspyre::contract
