// An operand made ready: how its values get from memory to a register's lanes and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/vector_kernels.h"
#include "program/program.h"

namespace openspyre {

RegisterType register_type(const Operand& operand);  // what loading it gives
bool is_sen169(const Operand& operand);              // loading it gives numbers of the 16-bit format
bool can_load(const Operand& operand);
bool can_store(const Operand& operand, RegisterType type);

struct Port {
  OperandKind kind = OperandKind::Vector;
  LoadKernel load = nullptr;  // nullptr: `convert` does it
  StoreKernel store = nullptr;
  Convert convert = nullptr;
  int itemsize = 0;
  int lanes = 0;        // of a block
  int stick_lanes = 0;  // that are contiguous
  int64_t stick_bytes = 0;
  int64_t tile_stride = 0;  // bytes; values for an Iota
  bool dense = false;       // the whole block is contiguous
  bool sen169 = false;      // stored by the kernel for SEN169 numbers
  bool bits = false;        // elements are loaded and stored as the bits they are
  int64_t first = 0;        // an Iota's value where all offsets are 0
};

Port load_port(const Operand& operand, int lanes, const VectorKernels& kernels);
Port store_port(const Operand& operand, RegisterType type, int lanes, const VectorKernels& kernels);

// How many blocks from the first on follow each other in memory.
int contiguous_blocks(const Port& port, const int64_t* offsets, int blocks);

// Asks the host for a block's lines ahead of their use.
inline void prefetch_block(const Port& port, const std::byte* block) {
  if (port.kind != OperandKind::Vector || !port.dense) return;
  for (int64_t line = 0; line < int64_t{port.lanes} * port.itemsize; line += 64) __builtin_prefetch(block + line);
}

// Fills target[0 .. blocks * lanes) from the blocks at base + offsets[..]. Iota: the offsets are the values.
// `valid`: lanes of each block that are there, of a Strided operand; the others are 0.
void load_blocks(const Port& port, const std::byte* base, const int64_t* offsets, int blocks, Lane* target,
                 int valid = std::numeric_limits<int>::max());
// Stores the first `valid` lanes of each block; a Splat stores lane 0.
void store_blocks(const Port& port, const Lane* source, std::byte* base, const int64_t* offsets, int blocks, int valid);

// Bytes from memory to memory, without registers in between: between ports of the same bits.
struct CopiedBlocks {
  const Port& load;
  const std::byte* source;
  const int64_t* source_offsets;
  const Port& store;
  std::byte* target;
  const int64_t* target_offsets;
};
bool can_copy(const Port& load, const Port& store);
void copy_blocks(const CopiedBlocks& copied, int blocks, int valid);

// The same for blocks at equal distances, all in bytes.
struct BlockRun {
  int64_t source_stride, target_stride, block;
};
void copy_run(const std::byte* source, std::byte* target, int64_t count, const BlockRun& run);

}  // namespace openspyre
