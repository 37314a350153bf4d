// Contractions (contract N5): what a Contract step multiplies, and running it in own kernels on the tiled operands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "program/step_runner.h"

namespace openspyre::contract {

// For every batch: C[m][n] = sum_k A[m][k] * B[k][n]. All offsets are elements from the operand's base.
// Loops over which B does not vary become rows m, so that one reading of B serves them all.
struct Plan {
  DataFormat operands = DataFormat::SEN169_FP16;  // of A and B
  DataFormat result = DataFormat::SEN169_FP16;
  int64_t m = 0, n = 0, k = 0;
  struct Batch {
    int64_t a, b, c;
  };
  std::vector<Batch> batches;
  std::vector<int64_t> a_row, c_row;  // per m
  std::vector<int64_t> a_stick;       // per stick along k
  std::vector<int64_t> c_stick;       // per stick along n
  bool b_along_k = false;             // B's sticks run along k and its rows are n; otherwise the other way round
  std::vector<int64_t> b_stick;       // per stick of a row
  std::vector<int64_t> b_block;       // row r of B is at b_block[r / b_block_rows]
  int64_t b_block_rows = 1;           //   + r % b_block_rows * b_row_stride
  int64_t b_row_stride = 0;
  const VectorCode *a_code = nullptr,
                   *b_code = nullptr;  // of the step: elements go through it before they are multiplied
  std::vector<int64_t> slices;  // first k of each core slice, ascending, then k: their sums are added in this order
};

// What the kernels can't do of a step, or nothing.
std::string problem_of(const Step& step);

// The part of the step in `box`; a split of k must be whole in it. InvalidArgument for what the kernels can't do.
Plan plan(const Step& step, const CoreBox& box);

// How a plan is cut into tasks and cache blocks. Results don't depend on it.
struct Blocking {
  bool stream;                      // B is widened as it is used (one block of rows), not before
  int64_t task_rows, task_columns;  // of C, done by one thread over all of k
  int64_t depth;                    // of k, widened to fp32 at a time
  int64_t block_rows;               // of A, widened at a time
  int64_t group_columns;            // of B, widened before they are used
};
Blocking choose_blocking(const Plan& plan, int threads);

void run(const Plan& plan, const void* a, const void* b, void* c, Isa isa);
void run(const Plan& plan, const void* a, const void* b, void* c, Isa isa, const Blocking& blocking);

}  // namespace openspyre::contract
