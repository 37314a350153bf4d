// Whether vector code can be run: registers are set before they are read, and hold what an instruction needs.
#include <algorithm>
#include <array>

#include "steps/vector_code.h"

namespace openspyre {
namespace {

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
      const uint8_t source = instruction.sources()[i];
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

}  // namespace

std::vector<RegisterType> check_code(const VectorCode& code, std::span<const CodeInput> inputs,
                                     const std::string& where, std::vector<std::string>& problems) {
  TypeCheck check(where, problems);
  for (size_t i = 0; i < inputs.size(); ++i) check.set(static_cast<uint8_t>(i), inputs[i].type, "an input");
  for (const Constant& constant : code.constants) check.set(constant.target, RegisterType::Any, "a constant");
  for (size_t i = 0; i < code.instructions.size(); ++i) check.step(code.instructions[i], i);
  std::vector<RegisterType> types;
  for (const uint8_t result : code.results) types.push_back(check.get(result, "a result"));
  if (!code.types.empty() && code.types.size() != types.size())
    problems.push_back(where + ": " + std::to_string(code.types.size()) + " types for " + std::to_string(types.size()) +
                       " results");
  for (size_t i = 0; i < std::min(types.size(), code.types.size()); ++i) {
    if (!compatible(types[i], code.types[i]))
      problems.push_back(where + ": result " + std::to_string(i) + " is said to be " + name(code.types[i]) +
                         ", found " + name(types[i]));
    if (types[i] == RegisterType::Any) types[i] = code.types[i];
  }
  return types;
}

}  // namespace openspyre
