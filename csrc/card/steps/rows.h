// Rows steps made ready: stages gathered into passes over the row.
#pragma once

#include <array>
#include <vector>

#include "program/program.h"
#include "steps/fold.h"
#include "steps/vector_code.h"

namespace openspyre {

constexpr int64_t kRowMemoryBytes = 256 << 10;  // of a group of rows: half of a small second-level cache
constexpr int kMostRows = 16;                   // of a group

// The output a stage's target goes to as soon as it is known; -1: none.
struct CompiledStage {
  RowStage::Kind kind;
  std::vector<uint8_t> rows;
  CompiledCode code;
  Folding folding;
  uint8_t target = 0;
  size_t number = 0;  // among the step's stages
  int output = -1;
  bool binds_target = false;  // the code may write the target's lanes directly
  bool only_stored = false;   // no stage reads the target
  size_t first_constant = 0;  // of the stage's constants among the step's
};

// What a phrase's link works on: a row register, row scalar, its reciprocal, constant, accumulators (by their numbers),
// a temporary of the chunk, or an output's memory.
struct RowPlace {
  enum class Kind : uint8_t { Row, Scalar, Reciprocal, Constant, Accumulator, Temporary, Output } kind;
  uint8_t index;
  bool operator==(const RowPlace&) const = default;
};
constexpr size_t kMostPlaces = 48;

struct PassPhrase {
  PhraseKernel kernel;
  std::vector<uint8_t> places;  // of its links
};

// The stages of a pass on a whole chunk with one point per row. Without phrases there are only the stages.
struct PassPhrases {
  std::vector<PassPhrase> phrases;
  std::vector<RowPlace> places;
  int stored_output = -1;  // by a phrase, straight to memory
  struct Output {
    int output;
    uint8_t row;
  };
  std::vector<Output> outputs;       // to be stored from their rows
  std::vector<uint8_t> fractions;    // row registers that are from 0 to 1 or NaN, whatever the data
  std::vector<uint8_t> reciprocals;  // row scalars that are multiplied by as such
};

// Stages that can share one walk along the row: none needs a scalar that another of them is still folding.
struct RowPass {
  std::vector<CompiledStage> stages;
  std::vector<uint8_t> loads;  // inputs read in this pass
  PassPhrases whole;           // all stages at once
};

struct RowPlan {
  std::vector<RowPass> passes;
  std::vector<int> stored_row;  // place in row memory of a row register that outlives its pass; -1: none
  int stored_rows = 0;
  std::array<bool, kMaxRowRegisters> fractions{};  // of the passes' phrases
  std::array<bool, kMaxRowScalars> reciprocals{};
  std::vector<uint8_t> results;  // as Step::row_results
  std::vector<Lane> constants;
  std::vector<RegisterType> types;  // of each output's register
};

RowPlan plan_rows(const Step& step, const VectorKernels& kernels);

}  // namespace openspyre
