#include "steps/vector_code.h"

#include <algorithm>
#include <array>

namespace openspyre {
namespace {

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

int reads_of(const ValueInstruction& instruction) { return instruction.table != nullptr ? 1 : arity(instruction.op); }

void count_uses(ValueCode& code) {
  std::fill(code.uses.begin(), code.uses.end(), 0);
  for (const ValueInstruction& instruction : code.instructions)
    for (int i = 0; i < reads_of(instruction); ++i) ++code.uses[instruction.reads[static_cast<size_t>(i)]];
  for (const size_t result : code.results) ++code.uses[result];
}

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
    for (size_t j = 0; j < static_cast<size_t>(arity(instruction.op)); ++j)
      made.reads[j] = current[instruction.sources()[j]];
    made.target = define(instruction.target);
    named.instructions.push_back(made);
  }
  for (const uint8_t result : code.results) named.results.push_back(current[result]);
  count_uses(named);
  return named;
}

// A phrase, or an instruction by itself.
struct ValueOperation {
  ValuePhrase phrase;
  ValueInstruction single{};
};

// Storing the only result instead of saving it; rounding it before would add nothing. False: it is not saved here.
bool store_result(const ValueCode& code, std::vector<ValueLink>& links) {
  if (code.results.size() != 1 || links.size() < 3) return false;
  if (links.back().kind != LinkKind::Save || links.back().value != code.results[0]) return false;
  links.pop_back();
  if (links.back().kind == LinkKind::RoundSen169 || links.back().kind == LinkKind::RoundFraction) links.pop_back();
  links.push_back({LinkKind::StoreSen169, code.results[0], code.results[0]});
  return links.size() > 2;
}

// Empty if the result shall be stored and cannot be.
std::vector<ValueOperation> operations_of(const ValueCode& code, const VectorKernels& kernels, bool stores) {
  LinkBuilder builder(code.uses);
  std::vector<ValueOperation> operations;
  const auto add_phrases = [&](std::span<const ValueLink> links) {
    for (ValuePhrase& phrase : in_phrases(links, kernels)) operations.push_back({std::move(phrase)});
  };
  for (const ValueInstruction& instruction : code.instructions) {
    if (instruction.table == nullptr && has_link(instruction.op)) {
      builder.add(instruction);
      continue;
    }
    add_phrases(builder.finish());
    for (int i = 0; i < reads_of(instruction); ++i) builder.read(instruction.reads[static_cast<size_t>(i)]);
    operations.push_back({{}, instruction});
  }
  std::vector<ValueLink> last = builder.finish();
  if (stores && !store_result(code, last)) return {};
  add_phrases(last);
  return operations;
}

// Gives values their slots in the order in which a lane meets them; a slot is free again after its value's last reader.
class SlotAssignment {
 public:
  SlotAssignment(const ValueCode& code, std::span<const CodeInput> inputs, size_t constants)
      : last_use_(code.uses.size(), -1), slots_(code.uses.size(), 0) {
    for (size_t v = 0; v < inputs.size() + constants; ++v) {
      if (v >= inputs.size() || inputs[v].kept) last_use_[v] = kForever;
      slots_[v] = allocation_.take();
    }
    for (const size_t result : code.results) last_use_[result] = kForever;
  }

  std::vector<Operation> assign(std::span<const ValueOperation> operations, const VectorKernels& kernels) {
    find_last_uses(operations);
    std::vector<Operation> assigned;
    for (const ValueOperation& operation : operations) assigned.push_back(assign(operation, kernels));
    return assigned;
  }

  uint8_t slot(size_t value) const { return slots_[value]; }

 private:
  static constexpr int kForever = 1 << 30;

  void find_last_uses(std::span<const ValueOperation> operations) {
    int place = 0;
    const auto reads = [&](size_t value) { last_use_[value] = std::max(last_use_[value], place); };
    for (const ValueOperation& operation : operations) {
      for (const ValueLink& link : operation.phrase.links) {
        if (uses_lanes(link.kind) && link.kind != LinkKind::Save) reads(link.value);
        ++place;
      }
      if (operation.phrase.links.empty())
        for (const size_t read : operation.single.reads) reads(read);
      ++place;
    }
  }

  Operation assign(const ValueOperation& operation, const VectorKernels& kernels) {
    Operation made;
    made.phrase = operation.phrase.kernel;
    for (const ValueLink& link : operation.phrase.links) made.links.push_back(assign(link));
    if (made.phrase == nullptr) {
      const auto& [op, reads, target, table] = operation.single;
      made.table = table;
      made.look_up = table != nullptr ? kernels.look_up : nullptr;
      made.kernel = table != nullptr ? nullptr : kernels.map[static_cast<size_t>(op)];
      if (op == Op::Philox) made.draw = kernels.draw;
      for (size_t i = 0; i < reads.size(); ++i) made.sources[i] = slots_[reads[i]];
      for (auto read = reads.begin(); read != reads.end(); ++read)
        if (std::find(reads.begin(), read, *read) == read) release_after_last_use(*read);
      made.target = take(target);
    }
    ++place_;
    return made;
  }

  uint8_t assign(const ValueLink& link) {
    uint8_t slot = 0;
    if (link.kind == LinkKind::Save) {
      slot = take(link.value);
    } else if (uses_lanes(link.kind)) {
      slot = slots_[link.value];
      release_after_last_use(link.value);
    }
    ++place_;
    return slot;
  }

  uint8_t take(size_t value) {
    slots_[value] = allocation_.take();
    if (last_use_[value] < 0) allocation_.release(slots_[value]);
    return slots_[value];
  }
  void release_after_last_use(size_t value) {
    if (last_use_[value] == place_) allocation_.release(slots_[value]);
  }

  SlotAllocation allocation_;
  std::vector<int> last_use_;
  std::vector<uint8_t> slots_;
  int place_ = 0;
};

// The links of a phrase with the lanes they work on.
using BoundLinks = std::array<Link, kMostPhraseLinks>;
BoundLinks bound_links(std::span<const uint8_t> links, const Slots& slots) {
  BoundLinks bound;
  for (size_t i = 0; i < links.size(); ++i) bound[i] = {reinterpret_cast<std::byte*>(slots[links[i]]), 0};
  return bound;
}

void execute(std::span<const Operation> operations, const Slots& slots, int64_t lanes) {
  for (const Operation& step : operations) {
    const auto source = [&](size_t i) { return slots[step.sources[i]]; };
    if (step.table != nullptr)
      step.look_up(slots[step.target], source(0), step.table, lanes);
    else if (step.kernel != nullptr)
      step.kernel(slots[step.target], source(0), source(1), source(2), lanes);
    else if (step.draw != nullptr)
      step.draw(slots[step.target], source(0),
                std::array<const Lane*, 4>{source(1), source(2), source(3), source(4)}.data(), lanes);
    else
      step.phrase(bound_links(step.links, slots).data(), lanes, lanes);
  }
}

}  // namespace

CompiledCode compile(const VectorCode& code, std::span<const CodeInput> inputs, const VectorKernels& kernels,
                     int64_t lanes) {
  constexpr int64_t kLanesWorthATable = 16 << 10;
  std::vector<std::string> problems;
  CompiledCode compiled;
  compiled.types = check_code(code, inputs, "code", problems);
  ValueCode named = name_values(code, inputs.size());
  if (lanes >= kLanesWorthATable) {
    std::vector<bool> sen169;
    for (const CodeInput& input : inputs) sen169.push_back(input.sen169);
    TabledCode tabled = with_tables(named.instructions, sen169, code.constants, named.results, kernels);
    named.instructions = std::move(tabled.instructions);
    compiled.tables = std::move(tabled.tables);
    count_uses(named);
  }
  SlotAssignment slots(named, inputs, code.constants.size()), storing_slots = slots;  // inputs and constants are shared
  compiled.operations = slots.assign(operations_of(named, kernels, false), kernels);
  compiled.storing = storing_slots.assign(operations_of(named, kernels, true), kernels);
  for (size_t i = 0; i < inputs.size(); ++i) compiled.inputs.push_back(slots.slot(i));
  for (size_t i = 0; i < code.constants.size(); ++i)
    compiled.constants.push_back({slots.slot(inputs.size() + i), code.constants[i].bits});
  for (const size_t result : named.results) compiled.results.push_back(slots.slot(result));
  return compiled;
}

void execute(const CompiledCode& code, const Slots& slots, int64_t lanes) { execute(code.operations, slots, lanes); }

bool stores_at_once(const CompiledCode& code, const Port& port) {
  return !code.storing.empty() && port.kind == OperandKind::Vector && port.dense && port.sen169;
}

void execute_to(const CompiledCode& code, const Slots& slots, const Port& port, std::byte* base, const int64_t* offsets,
                int blocks) {
  const Operation& last = code.storing.back();
  execute(std::span(code.storing).first(code.storing.size() - 1), slots, int64_t{blocks} * port.lanes);
  BoundLinks bound = bound_links(last.links, slots);
  for (int i = 0; i < blocks;) {
    const int run = contiguous_blocks(port, offsets + i, blocks - i);
    const int64_t lanes = int64_t{run} * port.lanes;
    bound[last.links.size() - 1].place = base + offsets[i];
    last.phrase(bound.data(), lanes, lanes);
    for (size_t link = 0; link + 1 < last.links.size(); ++link)
      bound[link].place += lanes * static_cast<int64_t>(sizeof(Lane));
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
