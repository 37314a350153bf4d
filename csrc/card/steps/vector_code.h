// Vector code made ready: kernels looked up, registers packed into as few chunk-sized slots as possible.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/vector_kernels.h"
#include "program/nest.h"
#include "program/port.h"
#include "program/program.h"
#include "steps/function_tables.h"
#include "steps/phrases.h"

namespace openspyre {

constexpr int kMaxSlots = 2 * kMaxRegisters;

struct CodeInput {
  RegisterType type = RegisterType::Any;
  bool kept = false;    // loaded once and valid for all chunks
  bool sen169 = false;  // its lanes are numbers of SEN169, NaN or infinite
};

// A kernel over all lanes of a chunk, or a phrase.
struct Operation {
  MapKernel kernel = nullptr;
  DrawKernel draw = nullptr;  // Philox
  LookUpKernel look_up = nullptr;
  const Lane* table = nullptr;
  uint8_t target = 0;  // slots
  std::array<uint8_t, kMaxSources> sources{};
  PhraseKernel phrase = nullptr;
  std::vector<uint8_t> links;  // their slots
};

struct CompiledCode {
  std::vector<Operation> operations;
  std::vector<Operation> storing;   // the same with the only result stored by the last link; empty where that cannot be
  std::vector<uint8_t> inputs;      // slot of input i
  std::vector<Constant> constants;  // their targets are slots
  std::vector<uint8_t> results;     // slot of result i
  std::vector<RegisterType> types;  // type of result i
  std::vector<std::shared_ptr<const FunctionTable>> tables;
};

// Appends what is wrong with the code to `problems`; `where` names it. Gives the types of the results.
std::vector<RegisterType> check_code(const VectorCode& code, std::span<const CodeInput> inputs,
                                     const std::string& where, std::vector<std::string>& problems);
// `lanes`: how many there will be, at least; many are worth tables.
CompiledCode compile(const VectorCode& code, std::span<const CodeInput> inputs, const VectorKernels& kernels,
                     int64_t lanes = 0);

// Where each slot's lanes are.
using Slots = std::array<Lane*, kMaxSlots>;

// Chunk-sized lanes for all slots, of the running thread.
class RegisterFile {
 public:
  static RegisterFile& mine();
  const Slots& slots() const { return slots_; }

 private:
  RegisterFile();
  alignas(64) ChunkLanes lanes_[kMaxSlots];
  Slots slots_;
};

void set_constants(const CompiledCode& code, const Slots& slots);
void execute(const CompiledCode& code, const Slots& slots, int64_t lanes);

// Whether execute_to can store the code's result; blocks must be filled with valid lanes.
bool stores_at_once(const CompiledCode& code, const Port& port);
// Executes the code and stores its result; no slot has it afterwards.
void execute_to(const CompiledCode& code, const Slots& slots, const Port& port, std::byte* base, const int64_t* offsets,
                int blocks);

}  // namespace openspyre
