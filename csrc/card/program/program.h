// Waist 2: what a card executes. A program is a list of steps, with counted loops around some; a step is an affine loop
// nest over device memory, cut into slices for the cores. Everything is decided here except addresses and scalars,
// which a launch supplies. Twin of openspyre/program/model.py, from which programs are built and the enumerations
// generated; what their members mean is said there.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/formats.h"
#include "formats/layout.h"
#include "generated/counters.h"
#include "generated/program.h"
#include "streams/card.h"

namespace openspyre {

// A loop of a step, outermost first. `split` core slices of equal extent; the product of all splits is the number of
// cores used.
struct Loop {
  int64_t extent = 1;
  int32_t split = 1;
  bool reduced = false;  // no output depends on it
};

// Where an operand's values come from. Memory address of a lane block at loop indices i:
//   symbol's address + (offset + sum_k i[k] * stride[k]) elements.
// Vector: the block's L lanes are L / e sticks of e elements (e = elems_per_stick of the format), `tile_stride`
// elements apart. Splat: the one value at lane 0 serves all lanes. Iota: value = offset + sum_k i[k] * stride[k] + lane
// * tile_stride (int32). Scalar: launch scalar number `symbol`, 32 bits already in the register's representation.
// Strided: the block's lanes are `tile_stride` elements apart, across the sticks of a tensor. Inputs of maps,
// reductions and rows whose blocks are whole; or of a map with one block, of which `extent` lanes are read and the rest
// is zero.
constexpr bool has_memory(OperandKind kind) { return kind != OperandKind::Iota && kind != OperandKind::Scalar; }

// As an output, a Splat stores lane 0 alone: one element per point.
// Scratchpad: the operand lies in the core's own 2 MB, or in those of another core (`owner`; such a step has one core).
// It has no symbol's address, its offset counts from the scratchpad's first byte, and loop indices count from the
// core's first: every core has its slice at the same place. What is written there stays until it is overwritten, also
// from launch to launch.
struct Operand {
  OperandKind kind = OperandKind::Vector;
  Space space = Space::Memory;
  int32_t symbol = 0;
  int64_t offset = 0;
  std::vector<int64_t> stride;  // one per loop
  int64_t tile_stride = 0;
  DeviceElement element{DType::Float16, DataFormat::SEN169_FP16};
  int32_t owner = -1;                 // of the scratchpad; -1: the core that runs the step
  std::vector<int64_t> advance = {};  // elements per iteration of each repeat around the step, outermost first
};

// Lanes: the innermost dimension, walked in blocks of `lanes` elements. If block_loop >= 0, that loop counts the blocks
// and the last block has extent - lanes * (blocks - 1) valid lanes; padding lanes are computed but never stored, unless
// the output operand's padding may be overwritten (store_padding), and never take part in a reduction.
struct LaneBlock {
  int32_t lanes = 64;
  int64_t extent = 64;
  int32_t block_loop = -1;
  bool reduced = false;
  bool store_padding = false;
};

// --- vector code
// ------------------------------------------------------------------------------------------------------ Registers hold
// 32 bits per lane: an fp32 value, or an int32 (integers and, as 0/1, predicates). Register r < inputs.size() is
// preloaded with input r, converted from its format (16-bit floats, fp8 and bool to fp32; ints to
// int32). The last written register(s) named in Step::results are stored, converted to the output's format (rounded
// once, N1/N3/N8).
int arity(Op op);
inline const char* signature(Op op) { return kSignatures[static_cast<size_t>(op)]; }

struct Instruction {
  Op op;
  uint8_t target;
  uint8_t a = 0, b = 0, c = 0, d = 0, e = 0;

  std::array<uint8_t, kMaxSources> sources() const { return {a, b, c, d, e}; }
};

// A register that holds the same 32 bits in every lane and is set before the first instruction.
struct Constant {
  uint8_t target;
  uint32_t bits;
};

struct VectorCode {
  std::vector<Instruction> instructions;
  std::vector<Constant> constants;
  std::vector<uint8_t> results;          // register of each output
  std::vector<RegisterType> types = {};  // of the results, if not empty: constants and scalars do not tell theirs
};

// --- steps
// ------------------------------------------------------------------------------------------------------------
// One stage of a Rows step. Row registers hold a whole row in 32-bit lanes; row scalars hold one value per row (and per
// lane, where the rows run along a loop); kRowScalar + s names row scalar s. The reduced loops and lanes of the step
// are what a row runs along.
struct RowStage {
  enum class Kind : uint8_t { Map, Reduce } kind;
  std::vector<uint8_t> rows;  // Map: what the code gets as r0, r1, ...; Reduce: the row to fold, then scalars
  // Map: an instruction writes the one result; for Reduce the finish: r0 the total, r1 ... row scalars or launch
  // scalars.
  VectorCode code;
  Combine combine = Combine::Sum;  // Sum, Prod, Max or Min
  uint8_t target = 0;              // row register (Map) or number of the row scalar (Reduce)
};

struct Step {
  std::string name;
  StepKind kind = StepKind::Map;
  std::vector<Loop> loops;
  LaneBlock lane;
  std::vector<Operand> inputs, outputs;
  VectorCode code, finish;
  Combine combine = Combine::Sum;
  std::vector<RowStage> stages;      // Rows: row registers 0..inputs-1 are the inputs
  std::vector<uint8_t> row_results;  // Rows: row register or 128 + row scalar of each output

  // Contract. Loops: batch loops, then m, then n blocks (lane.block_loop), then k blocks of `k_lanes` (reduced). A is
  // read as Vector along k, B as Vector along n with one row per k, or along k with one row per n (`b_along_k`): from
  // one row to the next, within a block, it is `b_row_stride` elements. What is read goes through a code of its own on
  // the way to the products: its one input is an element, its one result the fp32 that is multiplied.
  int64_t k_extent = 0;
  int32_t k_lanes = 64;
  int64_t b_row_stride = 0;
  bool b_along_k = false;
  VectorCode a_code, b_code;  // without a result: there is none

  // Relayout: views in host coordinates of the two buffers, resolved against the launch's addresses.
  struct View {
    ShapePtr shape;
    DType dtype;
    int64_t offset;  // host elements; the launch adds the symbol's own
    std::vector<int64_t> size, stride;
  };
  std::vector<View> views;  // source, target

  // Gather/Scatter: inputs[0] is the table (Vector; of a scatter, outputs[0] is), inputs[1] the index (one value per
  // point of the index loops, int32); the index counts steps of `index_stride` elements in the table,
  // -index_bound <= index < index_bound: one below 0 counts from the end. An index read as Vector names an element per
  // lane, of a table that is a Splat; with an `index_stride` of 0 it counts along the table's sticks, tile_stride
  // apart.
  int64_t index_stride = 0;
  int64_t index_bound = 0;
  bool accumulate = false;

  std::vector<int32_t> cores = {};  // the core of each slice, first loop fastest; empty: slice i is core i's
};

// The row that an index names: what is not below `bound` afterwards names none.
inline uint32_t indexed_row(uint32_t index, int64_t bound) {
  return index < bound ? index : index + static_cast<uint32_t>(bound);
}

// A counted loop around steps [first, end): they run `count` times, each time with their operands moved by `advance`.
struct Repeat {
  size_t first = 0, end = 0;
  int64_t count = 1;
};

struct Program {
  std::string name;
  int32_t symbols = 0;  // addresses a launch supplies
  int32_t scalars = 0;
  std::vector<Step> steps;
  std::vector<std::string> symbol_names = {};  // for reports; may be shorter than `symbols`
  // Steps walk whole sticks and do not know which lanes are elements: a lane nobody wrote, in a stick somebody wrote
  // to, is computed with and stays what it is. Without it, such a lane in a result is a finding.
  bool whole_sticks = false;
  std::vector<Repeat> repeats = {};  // in the order in which they begin, outer ones first; apart or in each other
  LaunchWork work = {};              // what a launch amounts to on a real card, as its compiler counted it
  int cores() const;                 // most that any step uses
};

// When a launch began, and when each run of a step ended, in nanoseconds since the epoch. A step begins where the one
// before it ended, the first one with the launch: no time of a launch lies between its steps.
struct StepEnd {
  uint32_t step;
  int64_t end;
};
struct LaunchTimes {
  bool with_steps = true;
  int64_t began = 0;  // once the scratchpads were its own
  std::vector<StepEnd> steps;
};

// What a launch supplies. `addresses` are handles of the card; `offsets` are device elements added to every operand of
// the symbol (whole sticks), `host_offsets` host elements added to views of relayouts.
struct LaunchArguments {
  std::span<const Address> addresses;
  std::span<const int64_t> offsets;
  std::span<const int64_t> host_offsets;
  std::span<const uint32_t> scalars;
  std::span<const int64_t> iterations = {};  // of the repeats around the step that runs, outermost first: the card's
  LaunchTimes* times = nullptr;              // where it leaves its times, if somebody asks
};

// Checks what can be checked without addresses and prepares the program for execution (dims merged, kernels chosen).
// InvalidArgument lists every problem.
class PreparedProgram {
 public:
  virtual ~PreparedProgram() = default;
  virtual const Program& program() const = 0;
  virtual bool lengthy() const = 0;  // takes more than some milliseconds: as Stream::submit asks
  // Runs in the calling thread and the worker pool; call it from a stream's task.
  virtual void run(Card& card, const LaunchArguments& arguments) const = 0;
};
std::shared_ptr<const PreparedProgram> prepare(Program program);

}  // namespace openspyre
