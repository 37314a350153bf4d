#include "vector_code.h"

#include <algorithm>
#include <array>

namespace openspyre {
namespace {

std::array<uint8_t, 3> sources(const Instruction& instruction) { return {instruction.a, instruction.b, instruction.c}; }

RegisterType type_of(char letter) {
  return letter == 'f' ? RegisterType::Float : letter == 'i' ? RegisterType::Int : RegisterType::Any;
}

bool compatible(RegisterType have, RegisterType want) {
  return have == want || have == RegisterType::Any || want == RegisterType::Any;
}

// Follows the registers' types through the code.
class TypeCheck {
 public:
  TypeCheck(const std::string& where, std::vector<std::string>& problems) : where_(where), problems_(problems) {}

  void set(uint8_t target, RegisterType type, const std::string& what) {
    if (target >= kMaxRegisters)
      return complain(what + " writes r" + std::to_string(target) + ", the last register is r" +
                      std::to_string(kMaxRegisters - 1));
    types_[target] = type;
    known_[target] = true;
  }

  RegisterType get(uint8_t source, const std::string& what) {
    if (source >= kMaxRegisters || !known_[source]) {
      complain(what + " reads r" + std::to_string(source) + ", which nothing has set");
      return RegisterType::Any;
    }
    return types_[source];
  }

  void step(const Instruction& instruction, size_t index) {
    const std::string what = "instruction " + std::to_string(index);
    if (static_cast<int>(instruction.op) >= kOpCount)
      return complain(what + " has the unknown opcode " + std::to_string(static_cast<int>(instruction.op)));
    const std::string named = what + " (" + name(instruction.op) + ")";
    const char* letter = signature(instruction.op);
    RegisterType shared = RegisterType::Any;
    for (size_t i = 0; *letter != '>'; ++letter, ++i) {
      const uint8_t source = sources(instruction)[i];
      const RegisterType have = get(source, named), want = *letter == '*' ? shared : type_of(*letter);
      if (!compatible(have, want))
        complain(named + " needs " + name(want) + " in r" + std::to_string(source) + ", found " + name(have));
      if (*letter == '*' && have != RegisterType::Any) shared = have;
    }
    set(instruction.target, letter[1] == '*' ? shared : type_of(letter[1]), named);
  }

 private:
  void complain(const std::string& what) { problems_.push_back(where_ + ": " + what); }
  const std::string& where_;
  std::vector<std::string>& problems_;
  std::array<RegisterType, kMaxRegisters> types_{};
  std::array<bool, kMaxRegisters> known_{};
};

// Every write makes a new value; a value's slot is free again after its last use, kept values stay.
struct Value {
  int last_use = -1;
  bool kept = false;
  uint8_t slot = 0;
};

constexpr int kForever = 1 << 30;

class SlotAllocation {
 public:
  SlotAllocation() { used_.fill(false); }
  uint8_t take() {
    const auto free = std::find(used_.begin(), used_.end(), false);
    if (free == used_.end()) fail(Fault::Internal, "vector code needs more slots than there are registers");
    *free = true;
    return static_cast<uint8_t>(free - used_.begin());
  }
  void release(uint8_t slot) { used_[slot] = false; }

 private:
  std::array<bool, kMaxSlots> used_;
};

}  // namespace

std::vector<RegisterType> check_code(const VectorCode& code, std::span<const CodeInput> inputs,
                                     const std::string& where, std::vector<std::string>& problems) {
  TypeCheck check(where, problems);
  for (size_t i = 0; i < inputs.size(); ++i) check.set(static_cast<uint8_t>(i), inputs[i].type, "an input");
  for (const Constant& constant : code.constants) check.set(constant.target, RegisterType::Any, "a constant");
  for (size_t i = 0; i < code.instructions.size(); ++i) check.step(code.instructions[i], i);
  std::vector<RegisterType> types;
  for (const uint8_t result : code.results) types.push_back(check.get(result, "a result"));
  return types;
}

CompiledCode compile(const VectorCode& code, std::span<const CodeInput> inputs, const VectorKernels& kernels) {
  std::vector<std::string> problems;
  CompiledCode compiled;
  compiled.types = check_code(code, inputs, "code", problems);
  std::vector<Value> values;
  std::array<size_t, kMaxRegisters> current{};
  const auto define = [&](uint8_t target, bool kept) {
    current[target] = values.size();
    values.push_back({kept ? kForever : -1, kept, 0});
  };
  for (size_t i = 0; i < inputs.size(); ++i) define(static_cast<uint8_t>(i), inputs[i].kept);
  for (const Constant& constant : code.constants) define(constant.target, true);
  const size_t first_computed = values.size();
  std::vector<std::array<size_t, 3>> reads;
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const Instruction& instruction = code.instructions[i];
    std::array<size_t, 3> read{};
    for (size_t j = 0; j < 3; ++j) {
      const bool real = j < static_cast<size_t>(arity(instruction.op));
      read[j] = current[real ? sources(instruction)[j] : instruction.a];
      values[read[j]].last_use = std::max(values[read[j]].last_use, static_cast<int>(i));
    }
    reads.push_back(read);
    define(instruction.target, false);
  }
  for (const uint8_t result : code.results) values[current[result]].last_use = kForever;

  SlotAllocation slots;
  for (size_t v = 0; v < first_computed; ++v) values[v].slot = slots.take();
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    Value& target = values[first_computed + i];
    const std::array<size_t, 3>& read = reads[i];
    for (size_t j = 0; j < 3; ++j) {
      const bool again = std::find(read.begin(), read.begin() + static_cast<int64_t>(j), read[j]) !=
                         read.begin() + static_cast<int64_t>(j);
      if (!again && values[read[j]].last_use == static_cast<int>(i)) slots.release(values[read[j]].slot);
    }
    target.slot = slots.take();
    if (target.last_use < 0) slots.release(target.slot);
    compiled.operations.push_back({kernels.map[static_cast<size_t>(code.instructions[i].op)], target.slot,
                                   values[read[0]].slot, values[read[1]].slot, values[read[2]].slot});
  }
  for (size_t i = 0; i < inputs.size(); ++i) compiled.inputs.push_back(values[i].slot);
  for (size_t i = 0; i < code.constants.size(); ++i)
    compiled.constants.push_back({values[inputs.size() + i].slot, code.constants[i].bits});
  for (const uint8_t result : code.results) compiled.results.push_back(values[current[result]].slot);
  return compiled;
}

RegisterFile::RegisterFile() {
  for (size_t i = 0; i < kMaxSlots; ++i) slots_[i] = lanes_[i];
}

RegisterFile& RegisterFile::mine() {
  static thread_local RegisterFile registers;
  return registers;
}

void set_constants(const CompiledCode& code, const Slots& slots) {
  for (const Constant& constant : code.constants) std::fill_n(slots[constant.target], kChunkLanes, constant.bits);
}

}  // namespace openspyre
