// Precompiled loops over the lanes of registers: one per opcode and memory format, for each instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/formats.h"
#include "kernels/isa.h"
#include "program/program.h"

namespace openspyre {

using Lane = uint32_t;  // the 32 bits of a register's lane

// `target` may be one of the sources, never a shifted one; n is a multiple of kLaneUnit.
using MapKernel = void (*)(Lane* target, const Lane* a, const Lane* b, const Lane* c, int64_t n);
// Words of a seed's stream: `words` are the lanes of seed low, high, offset low, high.
using DrawKernel = void (*)(Lane* target, const Lane* place, const Lane* const* words, int64_t n);
// target[l] = table[the upper 18 bits of a[l]]
using LookUpKernel = void (*)(Lane* target, const Lane* a, const Lane* table, int64_t n);
using LoadKernel = void (*)(const void* source, Lane* target, int64_t n);
using StoreKernel = void (*)(const Lane* source, void* target, int64_t n);
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
  Fp8E4M3,    // loads only
  Fp8E5M2,
};
constexpr int kHotFormatCount = 10;

// A link of a phrase (see phrases.h), bound to what it works on: lanes in `place`, from one block to the next `step`
// bytes further. A step of 0 is lanes that all blocks share.
struct Link {
  std::byte* place;
  int64_t step;
};
// Runs the links over `lanes` lanes in blocks, multiples of the kernels' unit_lanes.
using PhraseKernel = void (*)(const Link* links, int64_t lanes, int64_t block);
struct Phrase {
  PhraseKernel kernel;
  size_t length;  // links it is made of
  bool saves;     // a Save comes on top of them
};
constexpr size_t kMostPhraseLinks = 8;

enum class LinkKind : uint8_t {
  Load,
  Save,
  StoreSen169,    // to memory, rounded
  StoreFraction,  // the same for a number from 0 to 1
  // The value and the link's lanes, in this order; SubFrom and DivInto in the other one.
  Add,
  Sub,
  SubFrom,
  Mul,
  Div,
  DivInto,
  Min,
  Max,
  // The value alone.
  Neg,
  Square,
  Exp,
  Tanh,
  Erf,
  Erfc,
  Sigmoid,
  RoundSen169,
  RoundForExp,      // to SEN169's steps, as far as an exponential can tell
  ExpFraction,      // exp of a number not above 0, rounded before and behind
  SigmoidFraction,  // sigmoid of a SEN169 number, rounded behind
  RoundFraction,    // a number from 0 to 1 to SEN169
  // The link's lanes are folded with the value, which stays.
  FoldAdd,
  FoldMul,
  FoldMax,
  FoldMin,
};
constexpr int kLinkCount = static_cast<int>(LinkKind::FoldMin) + 1;

struct VectorKernels {
  std::array<MapKernel, kOpCount> map;  // none for Philox, which has more operands
  DrawKernel draw;
  LookUpKernel look_up;
  int64_t unit_lanes;                                      // a phrase's blocks may be any number of them
  Phrase (*find_phrase)(std::span<const LinkKind> links);  // the longest that they begin with
  std::array<LoadKernel, kHotFormatCount> load;
  std::array<StoreKernel, kHotFormatCount> store;
  std::array<RowFoldKernel, kFoldCount> fold_rows;         // of registers, and of memory in 32-bit formats
  std::array<RowFoldKernel, kFoldCount> fold_sen169_rows;  // of memory
  std::array<LaneFoldKernel, kFoldCount> fold_lanes;
  ArgKernel arg_max, arg_min, arg_max_int, arg_min_int;
};

const VectorKernels& vector_kernels(Isa isa);

}  // namespace openspyre
