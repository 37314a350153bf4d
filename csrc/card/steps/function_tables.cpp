#include "steps/function_tables.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <optional>

#include "error.h"
#include "formats/floating_point.h"

namespace openspyre {
namespace {

constexpr int kDroppedBits = 14;
constexpr size_t kEntries = size_t{1} << (32 - kDroppedBits);
constexpr Lane kSmallest = 96u << 23, kInfinity = 0x7F800000u, kSign = 0x80000000u;
constexpr Lane kCodes = 0x7FFE;  // of numbers of one sign, 0 included

// About what a lane takes, in tenths of a nanosecond, of functions that are not cheap.
int cost(Op op) {
  switch (op) {
    case Op::Pow:
    case Op::Atan2:
    case Op::Sinh:
    case Op::Cosh:
      return 60;
    case Op::Erfc:
    case Op::Log10:
    case Op::Log1p:
    case Op::Expm1:
    case Op::Sin:
    case Op::Cos:
    case Op::Tan:
    case Op::Asin:
    case Op::Acos:
    case Op::Atan:
      return 25;
    case Op::Erf:
    case Op::Tanh:
    case Op::Log:
    case Op::Log2:
    case Op::Exp2:
      return 15;
    case Op::Exp:
    case Op::Sigmoid:
      return 8;
    case Op::Div:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Reciprocal:
      return 4;
    default:
      return 1;
  }
}
constexpr int kWorthATable = 14;

// What gives a lane a float that depends on floats of the same lane alone, and on no bit of a NaN.
bool is_function(Op op) {
  switch (op) {
    case Op::LtF:
    case Op::LeF:
    case Op::EqF:
    case Op::NeF:
    case Op::IsNan:
    case Op::IsInf:
    case Op::SignBit:
    case Op::Select:
    case Op::Copy:
      return true;
    default:
      return op <= Op::RoundSen169;
  }
}

// Of the instructions between a leaf and a value, in order; values are numbered anew: the leaf, then the constants'
// bits, then results.
struct Function {
  std::vector<ValueInstruction> instructions;
  std::vector<Lane> constants;

  std::vector<Lane> key() const {
    std::vector<Lane> words{static_cast<Lane>(constants.size())};
    words.insert(words.end(), constants.begin(), constants.end());
    for (const ValueInstruction& each : instructions) {
      words.push_back(static_cast<Lane>(each.op));
      for (int i = 0; i < arity(each.op); ++i) words.push_back(static_cast<Lane>(each.reads[static_cast<size_t>(i)]));
    }
    return words;
  }

  // Lane by lane what the kernels make of `count` values, a multiple of their unit.
  void evaluate(const VectorKernels& kernels, const Lane* from, Lane* to, int64_t count) const {
    std::vector<std::vector<Lane>> values{{from, from + count}};
    for (const Lane constant : constants) values.emplace_back(count, constant);
    for (const ValueInstruction& each : instructions) {
      std::vector<Lane> made(static_cast<size_t>(count));
      const auto read = [&](size_t i) { return values[each.reads[i]].data(); };
      kernels.map[static_cast<size_t>(each.op)](made.data(), read(0), read(1), read(2), count);
      values.push_back(std::move(made));
    }
    std::copy(values.back().begin(), values.back().end(), to);
  }
};

std::shared_ptr<const FunctionTable> filled(const Function& function, const VectorKernels& kernels) {
  const FloatingPointScope as_the_card_has_it;
  auto table = std::make_shared<FunctionTable>();
  Lane* entries = table->entries();
  std::vector<Lane> arguments, results;
  for (const Lane sign : {Lane{0}, kSign}) {
    arguments.push_back(sign);
    for (Lane code = 1; code < kCodes; ++code) arguments.push_back(sign | (kSmallest + (code << kDroppedBits)));
    for (Lane special = kInfinity >> kDroppedBits; special < kSign >> kDroppedBits; ++special)
      arguments.push_back(sign | special << kDroppedBits);
  }
  // NaNs have other bits than these, too: the last dropped ones. A function tells none of them from another.
  for (Lane& argument : arguments)
    if ((argument & ~kSign) > kInfinity) argument |= 1;
  while (arguments.size() % kLaneUnit != 0) arguments.push_back(0);
  results.resize(arguments.size());
  for (size_t done = 0; done < arguments.size(); done += kChunkLanes) {
    const auto count = static_cast<int64_t>(std::min<size_t>(kChunkLanes, arguments.size() - done));
    function.evaluate(kernels, arguments.data() + done, results.data() + done, count);
  }
  for (size_t i = 0; i < arguments.size(); ++i) entries[arguments[i] >> kDroppedBits] = results[i];
  return table;
}

// One for all programs that need it, for as long as one of them is there.
std::shared_ptr<const FunctionTable> table_of(const Function& function, const VectorKernels& kernels) {
  static std::mutex mutex;
  static std::map<std::vector<Lane>, std::weak_ptr<const FunctionTable>> known;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const FunctionTable>& place = known[function.key()];
  std::shared_ptr<const FunctionTable> table = place.lock();
  if (!table) {
    table = filled(function, kernels);
    place = table;
    std::erase_if(known, [](const auto& each) { return each.second.expired(); });
  }
  return table;
}

class Tabler {
 public:
  Tabler(std::span<const ValueInstruction> instructions, const std::vector<bool>& sen169,
         std::span<const Constant> constants, const VectorKernels& kernels)
      : instructions_(instructions),
        constants_(constants),
        inputs_(sen169.size()),
        kernels_(kernels),
        is_number_(sen169),
        leaves_(inputs_ + constants.size() + instructions.size()),
        costs_(leaves_.size()) {
    is_number_.resize(leaves_.size());
    for (const ValueInstruction& each : instructions_) find_leaf(each);
  }

  TabledCode code(std::span<const size_t> results) {
    std::vector<bool> wanted(leaves_.size());
    for (const size_t result : results) wanted[result] = true;
    TabledCode made;
    for (auto each = instructions_.rbegin(); each != instructions_.rend(); ++each) {
      if (!wanted[each->target]) continue;
      ValueInstruction kept = *each;
      if (const auto leaf = leaves_[each->target]; leaf && costs_[each->target] >= kWorthATable) {
        made.tables.push_back(table_of(function(*leaf, each->target), kernels_));
        kept.reads.fill(*leaf);
        kept.table = made.tables.back()->entries();
        wanted[*leaf] = true;
      } else {
        for (int i = 0; i < arity(each->op); ++i) wanted[each->reads[static_cast<size_t>(i)]] = true;
      }
      made.instructions.push_back(kept);
    }
    std::reverse(made.instructions.begin(), made.instructions.end());
    return made;
  }

 private:
  bool is_constant(size_t value) const { return value >= inputs_ && value < inputs_ + constants_.size(); }

  // The number that all operands are functions of, constants aside.
  void find_leaf(const ValueInstruction& each) {
    is_number_[each.target] = each.op == Op::RoundSen169;
    if (!is_function(each.op)) return;
    std::optional<size_t> leaf;
    int spent = cost(each.op);
    for (int i = 0; i < arity(each.op); ++i) {
      const size_t read = each.reads[static_cast<size_t>(i)];
      if (is_constant(read)) continue;
      const auto under = leaves_[read] ? leaves_[read] : is_number_[read] ? std::optional(read) : std::nullopt;
      if (!under || (leaf && leaf != under)) return;
      leaf = under;
      spent += leaves_[read] ? costs_[read] : 0;
    }
    leaves_[each.target] = leaf;
    costs_[each.target] = spent;
  }

  Function function(size_t leaf, size_t result) const {
    std::vector<bool> inside(leaves_.size());
    inside[result] = true;
    for (auto each = instructions_.rbegin(); each != instructions_.rend(); ++each)
      for (int i = 0; inside[each->target] && i < arity(each->op); ++i)
        if (const size_t read = each->reads[static_cast<size_t>(i)]; read != leaf && !is_constant(read))
          inside[read] = true;
    Function found;
    std::map<size_t, size_t> numbers{{leaf, 0}};
    for (const ValueInstruction& each : instructions_)
      for (int i = 0; inside[each.target] && i < arity(each.op); ++i)
        if (const size_t read = each.reads[static_cast<size_t>(i)]; is_constant(read) && !numbers.contains(read)) {
          found.constants.push_back(constants_[read - inputs_].bits);
          numbers[read] = found.constants.size();
        }
    for (const ValueInstruction& each : instructions_) {
      if (!inside[each.target]) continue;
      ValueInstruction renamed{each.op, {}, 0};
      for (int i = 0; i < arity(each.op); ++i)
        renamed.reads[static_cast<size_t>(i)] = numbers.at(each.reads[static_cast<size_t>(i)]);
      numbers[each.target] = 1 + found.constants.size() + found.instructions.size();
      found.instructions.push_back(renamed);
    }
    return found;
  }

  const std::span<const ValueInstruction> instructions_;
  const std::span<const Constant> constants_;
  const size_t inputs_;
  const VectorKernels& kernels_;
  std::vector<bool> is_number_;
  std::vector<std::optional<size_t>> leaves_;
  std::vector<int> costs_;
};

}  // namespace

FunctionTable::FunctionTable() : entries_(static_cast<Lane*>(std::calloc(kEntries, sizeof(Lane)))) {
  if (!entries_) throw std::bad_alloc();
}

TabledCode with_tables(std::span<const ValueInstruction> instructions, const std::vector<bool>& sen169,
                       std::span<const Constant> constants, std::span<const size_t> results,
                       const VectorKernels& kernels) {
  return Tabler(instructions, sen169, constants, kernels).code(results);
}

}  // namespace openspyre
