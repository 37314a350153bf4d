// Functions of one SEN169 number as tables. The format has 65,536 codes, so that whatever vector code makes of one of
// them, and of constants, can be looked up: the entries are what the code gives, so that no bit depends on it.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "kernels/vector_kernels.h"
#include "program/program.h"
#include "steps/phrases.h"

namespace openspyre {

// A result for every number of SEN169, every NaN and both infinities, at its fp32 bits without the 14 that are zero in
// all of them: a quarter of the places is used, the others take no memory.
class FunctionTable {
 public:
  FunctionTable();
  Lane* entries() { return entries_.get(); }
  const Lane* entries() const { return entries_.get(); }

 private:
  struct Free {
    void operator()(Lane* memory) const { std::free(memory); }
  };
  std::unique_ptr<Lane[], Free> entries_;
};

// Value code, with the bits of its constants. Values are numbered: inputs, constants, then those of instructions.
struct TabledCode {
  std::vector<ValueInstruction> instructions;
  std::vector<std::shared_ptr<const FunctionTable>> tables;  // of the instructions that have one
};

// The instructions with those that make a costly function of one SEN169 number replaced by a look-up; as they are where
// there is none. `sen169`: whether an input is such a number; `results` are values, too.
TabledCode with_tables(std::span<const ValueInstruction> instructions, const std::vector<bool>& sen169,
                       std::span<const Constant> constants, std::span<const size_t> results,
                       const VectorKernels& kernels);

}  // namespace openspyre
