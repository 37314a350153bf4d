// Precompiled loops over the lanes of registers: one per opcode and memory format, for each instruction set.
#pragma once

#include <array>
#include <cstdint>

#include "formats.h"
#include "isa.h"
#include "program.h"

namespace openspyre {

using Lane = uint32_t;  // the 32 bits of a register's lane

// `target` may be one of the sources, never a shifted one; n is a multiple of kLaneUnit.
constexpr int64_t kLaneUnit = 32;
using MapKernel = void (*)(Lane* target, const Lane* a, const Lane* b, const Lane* c, int64_t n);
using LoadKernel = void (*)(const void* source, Lane* target, int64_t n);
using StoreKernel = void (*)(const Lane* source, void* target, int64_t n);
// A map whose results go to memory at once.
using MapStoreKernel = void (*)(void* target, const Lane* a, const Lane* b, const Lane* c, int64_t n);
// Folds: an associative opcode applied again and again.
enum class Fold : uint8_t { Add, Mul, Max, Min, AddI, MulI, MaxI, MinI, And, Or };
constexpr int kFoldCount = 10;
constexpr int64_t kFoldLanes = 64;  // accumulators of a reduction over lanes (N6)
// acc[l] = fold(acc[l], x[r * row_stride + l]) for r ascending; `lanes` is a multiple of kLaneUnit.
using RowFoldKernel = void (*)(Lane* acc, const void* x, int64_t lanes, int64_t rows, int64_t row_stride);
// total[r] = the 64 lanes of acc[r] folded 32, 16, ... 1.
using LaneFoldKernel = void (*)(Lane* acc, Lane* total, int64_t rows);
// A better x replaces value and index; lane l of x has index first + l * step. An index of -1 is nothing yet.
using ArgKernel = void (*)(Lane* value, Lane* index, const Lane* x, int32_t first, int32_t step, int64_t n);

// Formats with kernels of their own; everything else goes through the conversions of formats.h.
enum class HotFormat : uint8_t {
  Sen169,
  Fp32,               // stored with one NaN: which of two NaNs an instruction keeps is no property of the program
  Word,               // 32 bits as they are
  BoolSen169,         // to and from an fp32 register
  BoolSen169FromInt,  // stores only
  Int16,
  Int8,
  UInt8Word,  // a uint8 that fills 32 bits
};
constexpr int kHotFormatCount = 8;

// What runs of instructions are made of, see fuse.h. SubFrom and DivInto have the run's value as their second operand.
enum class FusedFirst : uint8_t { Add, Sub, Mul, Div, Neg, RoundSen169 };
constexpr int kFusedFirstCount = 6;
enum class FusedSecond : uint8_t { None, Add, Sub, SubFrom, Mul, Square, DivInto, Exp };
constexpr int kFusedSecondCount = 8;
// By first, whether it is rounded to SEN169, second, whether that is.
using FusedKernels =
    std::array<std::array<std::array<std::array<MapKernel, 2>, kFusedSecondCount>, 2>, kFusedFirstCount>;

struct VectorKernels {
  std::array<MapKernel, kOpCount> map;
  FusedKernels fused;  // sources: both of the first, then the second's other one
  std::array<MapStoreKernel, kFusedFirstCount> sen169_store_of;  // the first alone; rounding it before adds nothing
  std::array<LoadKernel, kHotFormatCount> load;
  std::array<StoreKernel, kHotFormatCount> store;
  std::array<RowFoldKernel, kFoldCount> fold_rows;         // of registers, and of memory in 32-bit formats
  std::array<RowFoldKernel, kFoldCount> fold_sen169_rows;  // of memory
  std::array<LaneFoldKernel, kFoldCount> fold_lanes;
  ArgKernel arg_max, arg_min, arg_max_int, arg_min_int;
};

const VectorKernels& vector_kernels(Isa isa);

}  // namespace openspyre
