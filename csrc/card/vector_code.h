// Vector code made ready: kernels looked up, registers packed into as few chunk-sized slots as possible.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nest.h"
#include "port.h"
#include "program.h"
#include "vector_kernels.h"

namespace openspyre {

constexpr int kMaxSlots = 2 * kMaxRegisters;

struct CodeInput {
  RegisterType type = RegisterType::Any;
  bool kept = false;  // loaded once and valid for all chunks
};

struct Operation {
  MapKernel kernel;
  uint8_t target, a, b, c;  // slots
};

struct CompiledCode {
  std::vector<Operation> operations;
  std::vector<uint8_t> inputs;      // slot of input i
  std::vector<Constant> constants;  // their targets are slots
  std::vector<uint8_t> results;     // slot of result i
  std::vector<RegisterType> types;  // type of result i
};

// Appends what is wrong with the code to `problems`; `where` names it. Gives the types of the results.
std::vector<RegisterType> check_code(const VectorCode& code, std::span<const CodeInput> inputs,
                                     const std::string& where, std::vector<std::string>& problems);
CompiledCode compile(const VectorCode& code, std::span<const CodeInput> inputs, const VectorKernels& kernels);

// Where each slot's lanes are.
using Slots = std::array<Lane*, kMaxSlots>;

// Chunk-sized lanes for all slots, of the running thread.
class RegisterFile {
 public:
  static RegisterFile& mine();
  const Slots& slots() const { return slots_; }

 private:
  RegisterFile();
  alignas(64) Lane lanes_[kMaxSlots][kChunkLanes];
  Slots slots_;
};

void set_constants(const CompiledCode& code, const Slots& slots);
inline void execute(const CompiledCode& code, const Slots& slots, int64_t lanes) {
  for (const Operation& step : code.operations)
    step.kernel(slots[step.target], slots[step.a], slots[step.b], slots[step.c], lanes);
}

}  // namespace openspyre
