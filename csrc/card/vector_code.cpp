#include "vector_code.h"

#include <algorithm>
#include <array>

#include "fuse.h"

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

// A value's slot is free again after its last use, kept values stay.
struct Value {
  int last_use = -1;
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

// Code on values: the inputs', the constants', then one for each instruction.
struct ValueCode {
  std::vector<ValueInstruction> instructions;
  std::vector<size_t> results;
  std::vector<int> uses;  // of each value
};

ValueCode name_values(const VectorCode& code, size_t inputs) {
  ValueCode named;
  std::array<size_t, kMaxRegisters> current{};
  const auto define = [&](uint8_t target) {
    current[target] = named.uses.size();
    named.uses.push_back(0);
    return current[target];
  };
  for (size_t i = 0; i < inputs; ++i) define(static_cast<uint8_t>(i));
  for (const Constant& constant : code.constants) define(constant.target);
  for (const Instruction& instruction : code.instructions) {
    ValueInstruction made{instruction.op, {}, 0};
    made.reads.fill(current[instruction.a]);
    for (size_t j = 0; j < static_cast<size_t>(arity(instruction.op)); ++j) {
      made.reads[j] = current[sources(instruction)[j]];
      ++named.uses[made.reads[j]];
    }
    made.target = define(instruction.target);
    named.instructions.push_back(made);
  }
  for (const uint8_t result : code.results) {
    named.results.push_back(current[result]);
    ++named.uses[current[result]];
  }
  return named;
}

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
  const ValueCode named = name_values(code, inputs.size());
  const std::vector<FusedInstruction> instructions = fuse(named.instructions, named.uses, kernels);

  const size_t first_computed = inputs.size() + code.constants.size();
  std::vector<Value> values(named.uses.size());
  for (size_t i = 0; i < instructions.size(); ++i)
    for (const size_t read : instructions[i].reads) values[read].last_use = static_cast<int>(i);
  for (size_t v = 0; v < first_computed; ++v)
    if (v >= inputs.size() || inputs[v].kept) values[v].last_use = kForever;
  for (const size_t result : named.results) values[result].last_use = kForever;

  SlotAllocation slots;
  for (size_t v = 0; v < first_computed; ++v) values[v].slot = slots.take();
  for (size_t i = 0; i < instructions.size(); ++i) {
    const auto& [kernel, store, reads, target] = instructions[i];
    for (auto read = reads.begin(); read != reads.end(); ++read) {
      const bool again = std::find(reads.begin(), read, *read) != read;
      if (!again && values[*read].last_use == static_cast<int>(i)) slots.release(values[*read].slot);
    }
    values[target].slot = slots.take();
    if (values[target].last_use < 0) slots.release(values[target].slot);
    compiled.operations.push_back(
        {kernel, values[target].slot, values[reads[0]].slot, values[reads[1]].slot, values[reads[2]].slot});
  }
  if (!instructions.empty() && named.results == std::vector{instructions.back().target})
    compiled.sen169_store = instructions.back().sen169_store;
  for (size_t i = 0; i < inputs.size(); ++i) compiled.inputs.push_back(values[i].slot);
  for (size_t i = 0; i < code.constants.size(); ++i)
    compiled.constants.push_back({values[inputs.size() + i].slot, code.constants[i].bits});
  for (const size_t result : named.results) compiled.results.push_back(values[result].slot);
  return compiled;
}

bool stores_at_once(const CompiledCode& code, const Port& port) {
  return code.sen169_store != nullptr && port.kind == OperandKind::Vector && port.dense && port.sen169;
}

void execute_to(const CompiledCode& code, const Slots& slots, const Port& port, std::byte* base, const int64_t* offsets,
                int blocks) {
  const Operation& last = code.operations.back();
  execute(std::span(code.operations).first(code.operations.size() - 1), slots, int64_t{blocks} * port.lanes);
  for (int i = 0; i < blocks;) {
    const int run = contiguous_blocks(port, offsets + i, blocks - i);
    const int64_t at = int64_t{i} * port.lanes;
    code.sen169_store(base + offsets[i], slots[last.a] + at, slots[last.b] + at, slots[last.c] + at,
                      int64_t{run} * port.lanes);
    i += run;
  }
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
