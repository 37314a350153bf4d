#include "steps/row_phrases.h"

#include <algorithm>
#include <array>
#include <optional>

#include "program/step_inputs.h"

namespace openspyre {
namespace {

std::optional<LinkKind> fold_link(Combine combine) {
  switch (combine) {
    case Combine::Sum:
      return LinkKind::FoldAdd;
    case Combine::Prod:
      return LinkKind::FoldMul;
    case Combine::Max:
      return LinkKind::FoldMax;
    case Combine::Min:
      return LinkKind::FoldMin;
    default:
      return std::nullopt;
  }
}

bool is_rounded(const VectorCode& code) {
  const auto& all = code.instructions;
  return !all.empty() && all.back().op == Op::RoundSen169 && all.back().target == code.results[0];
}

// The pass on values: each has a place where its lanes are, if they are anywhere.
class PassBuilder {
 public:
  PassBuilder(const Step& step, const RowPlan& plan, const RowPass& pass, const VectorKernels& kernels)
      : step_(step), plan_(plan), pass_(pass), kernels_(kernels) {
    rows_.fill(kNone);
    scalars_.fill(kNone);
  }

  PassPhrases build() {
    for (const CompiledStage& stage : pass_.stages)
      if (!(stage.kind == RowStage::Kind::Map ? add_map(stage) : add_fold(stage))) return {};
    for (const CompiledStage& stage : pass_.stages)
      if (stage.kind == RowStage::Kind::Map && !keep_row(stage)) return {};
    std::vector<ValueLink> links = make_links();
    store_last(links);
    for (const ValuePhrase& phrase : in_phrases(links, kernels_)) {
      PassPhrase made{phrase.kernel, {}};
      for (const ValueLink& link : phrase.links) made.places.push_back(static_cast<uint8_t>(place_of(link)));
      made_.phrases.push_back(std::move(made));
    }
    if (made_.places.size() > kMostPlaces) return {};
    expect_outputs_saved(links);
    return std::move(made_);
  }

 private:
  static constexpr size_t kNone = ~size_t{0};
  using Kind = RowPlace::Kind;

  size_t new_value(RowPlace place) {
    places_.push_back(place);
    uses_.push_back(0);
    return uses_.size() - 1;
  }

  size_t value_of(uint8_t name) {
    const bool scalar = name >= kRowScalar;
    size_t& value = scalar ? scalars_[name - kRowScalar] : rows_[name];
    if (value != kNone) return value;
    return value =
               new_value({scalar ? Kind::Scalar : Kind::Row, scalar ? static_cast<uint8_t>(name - kRowScalar) : name});
  }

  bool add_map(const CompiledStage& stage) {
    const VectorCode& code = step_.stages[stage.number].code;
    std::array<size_t, kMaxRegisters> registers{};
    for (size_t i = 0; i < stage.rows.size(); ++i) registers[i] = value_of(stage.rows[i]);
    for (size_t i = 0; i < code.constants.size(); ++i)
      registers[code.constants[i].target] = new_value({Kind::Constant, static_cast<uint8_t>(stage.first_constant + i)});
    for (const Instruction& instruction : code.instructions) {
      if (instruction.op == Op::Copy) {
        registers[instruction.target] = registers[instruction.a];
        continue;
      }
      if (!has_link(instruction.op)) return false;
      const auto sources = instruction.sources();
      PassStep step{{instruction.op, {}, 0}, std::nullopt, range_of(stage, instruction)};
      step.instruction.reads.fill(registers[instruction.a]);
      for (size_t j = 0; j < static_cast<size_t>(arity(instruction.op)); ++j) {
        step.instruction.reads[j] = registers[sources[j]];
        ++uses_[step.instruction.reads[j]];
      }
      if (is_by_reciprocal(stage, instruction)) multiply_instead(step.instruction);
      step.instruction.target = registers[instruction.target] = new_value({Kind::Temporary, 0});
      steps_.push_back(step);
    }
    const size_t result = registers[code.results[0]];
    if (places_[result].kind != Kind::Temporary) return false;  // a copy of something else
    const size_t before = rows_[stage.target];
    if (before != kNone && places_[before].kind == Kind::Row) return false;  // may be read after it is overwritten
    rows_[stage.target] = result;
    return true;
  }

  // The stage that a row or a scalar has its value from, if there is but one; nullptr: an input, or written again.
  const RowStage* maker(uint8_t name) const {
    const RowStage* found = nullptr;
    for (const RowStage& stage : step_.stages) {
      const bool scalar = stage.kind == RowStage::Kind::Reduce;
      if (scalar != (name >= kRowScalar) || stage.target != (scalar ? name - kRowScalar : name)) continue;
      if (found != nullptr) return nullptr;
      found = &stage;
    }
    return found;
  }

  // Whether a row or a scalar has none but SEN169's numbers.
  bool is_sen169(uint8_t name) const {
    if (name < step_.inputs.size()) return step_.inputs[name].element.format == DataFormat::SEN169_FP16;
    const RowStage* stage = maker(name);
    return stage != nullptr && is_rounded(stage->code);
  }

  struct RowAndScalar {
    uint8_t row, scalar;
  };
  // The row and the scalar that an instruction of two operands reads, in this order; none if it reads others.
  std::optional<RowAndScalar> row_and_scalar(const CompiledStage& stage, const Instruction& instruction) const {
    if (instruction.a >= stage.rows.size() || instruction.b >= stage.rows.size()) return std::nullopt;
    const std::vector<Instruction>& before = step_.stages[stage.number].code.instructions;
    const auto overwrites = [&](const Instruction& other) {
      return other.target == instruction.a || other.target == instruction.b;
    };
    if (std::any_of(before.data(), &instruction, overwrites)) return std::nullopt;
    const RowAndScalar read{stage.rows[instruction.a], stage.rows[instruction.b]};
    if (read.row >= kRowScalar || read.scalar < kRowScalar) return std::nullopt;
    return read;
  }

  // Whether the scalar is the row's own total, at most rounded as the row's numbers are.
  bool is_total(RowAndScalar read, Combine combine) const {
    const RowStage* total = maker(read.scalar);
    if (total == nullptr || total->combine != combine || total->rows[0] != read.row) return false;
    if (read.row >= step_.inputs.size() && maker(read.row) == nullptr) return false;
    if (total->code.instructions.empty()) return total->code.results[0] == 0;
    const Instruction& first = total->code.instructions[0];
    return is_rounded(total->code) && total->code.instructions.size() == 1 && first.a == 0 && is_sen169(read.row);
  }

  // What softmax makes of a row and its totals.
  Range range_of(const CompiledStage& stage, const Instruction& instruction) {
    const auto read = row_and_scalar(stage, instruction);
    if (!read) return Range::Any;
    if (instruction.op == Op::Sub && is_total(*read, Combine::Max)) return Range::NotPositive;
    const bool fraction = plan_.fractions[read->row] && is_total(*read, Combine::Sum);
    return instruction.op == Op::Div && fraction ? Range::Fraction : Range::Any;
  }

  // Whether a SEN169 number is divided by one, and the quotient rounded to one: the divisor's reciprocal then gives the
  // same. A quotient of 10 bits by 10 bits is never closer than 2^-21 of itself to where rounding decides.
  bool is_by_reciprocal(const CompiledStage& stage, const Instruction& instruction) const {
    const auto read = row_and_scalar(stage, instruction);
    if (instruction.op != Op::Div || !read || !is_sen169(read->row) || !is_sen169(read->scalar)) return false;
    const VectorCode& code = step_.stages[stage.number].code;
    const Instruction* next = &instruction + 1;
    if (next != code.instructions.data() + code.instructions.size())
      return next->op == Op::RoundSen169 && next->a == instruction.target && next->target == instruction.target;
    return stage.only_stored && stage.output >= 0 && instruction.target == code.results[0] &&
           output_port(stage.output).sen169;
  }

  Port output_port(int output) const {
    return store_port(step_.outputs[static_cast<size_t>(output)], RegisterType::Float, step_.lane.lanes, kernels_);
  }

  void multiply_instead(ValueInstruction& instruction) {
    const size_t divisor = instruction.reads[1], reciprocal = new_value({Kind::Reciprocal, places_[divisor].index});
    --uses_[divisor];
    ++uses_[reciprocal];
    instruction.op = Op::Mul;
    instruction.reads[1] = reciprocal;
    made_.reciprocals.push_back(places_[divisor].index);
  }

  bool add_fold(const CompiledStage& stage) {
    const auto kind = fold_link(step_.stages[stage.number].combine);
    if (!kind || !stage.folding.regular() || !stage.folding.folds_floats()) return false;
    const size_t value = value_of(stage.rows[0]);
    ++uses_[value];
    PassStep step{{Op::Copy, {value, value, value}, new_value({Kind::Accumulator, stage.target})}, kind, Range::Any};
    steps_.push_back(step);
    return true;
  }

  // A row that a later pass reads must be in the row's own lanes. An output may be stored from another row's that has
  // the same value. False: two rows of one value must be kept.
  bool keep_row(const CompiledStage& stage) {
    const size_t value = rows_[stage.target];
    const bool read_later = plan_.stored_row[stage.target] >= 0;
    if (!read_later && stage.output < 0) return true;
    if (places_[value].kind == Kind::Temporary) {
      places_[value] = {Kind::Row, stage.target};
      ++uses_[value];
    }
    const uint8_t row = places_[value].index;
    if (read_later && row != stage.target) return false;
    if (stage.output >= 0) made_.outputs.push_back({stage.output, row});
    return true;
  }

  // Whatever phrases do, a row that is stored afterwards is one that a link has saved.
  void expect_outputs_saved(const std::vector<ValueLink>& links) const {
    for (const auto [output, row] : made_.outputs)
      if (std::none_of(links.begin(), links.end(), [&, wanted = rows_[row]](const ValueLink& link) {
            return link.kind == LinkKind::Save && link.value == wanted;
          }))
        fail(Fault::Internal, "step '" + step_.name + "': no phrase saves the row of output " + std::to_string(output));
  }

  std::vector<ValueLink> make_links() {
    LinkBuilder builder(uses_);
    for (uint8_t row = 0; row < kMaxRowRegisters; ++row)
      if (rows_[row] != kNone && places_[rows_[row]].kind == Kind::Row && is_sen169(row))
        builder.know_sen169(rows_[row]);
    for (const PassStep& step : steps_) {
      if (step.fold)
        builder.fold(*step.fold, step.instruction.reads[0], step.instruction.target);
      else
        builder.add(step.instruction, step.range);
    }
    for (const CompiledStage& stage : pass_.stages)
      if (stage.kind == RowStage::Kind::Map && builder.range(rows_[stage.target]) == Range::Fraction)
        made_.fractions.push_back(stage.target);
    return builder.finish();
  }

  // The only output goes to memory at once if it is the last value and nobody else wants it.
  void store_last(std::vector<ValueLink>& links) {
    if (made_.outputs.size() != 1 || links.size() < 3 || links.back().kind != LinkKind::Save) return;
    const auto [output, row] = made_.outputs[0];
    const size_t value = rows_[row];
    const Port port = output_port(output);
    const bool direct = port.kind == OperandKind::Vector && port.dense && port.sen169;
    if (!direct || links.back().value != value || plan_.stored_row[row] >= 0) return;
    links.pop_back();
    if (links.back().kind == LinkKind::RoundSen169 || links.back().kind == LinkKind::RoundFraction) links.pop_back();
    // The value keeps lanes of its own: a phrase may end before the store, and 32-bit lanes have no room in the output.
    const bool fraction = std::find(made_.fractions.begin(), made_.fractions.end(), row) != made_.fractions.end();
    const LinkKind kind =
        fraction && links.back().kind == LinkKind::Mul ? LinkKind::StoreFraction : LinkKind::StoreSen169;
    links.push_back({kind, new_value({Kind::Output, static_cast<uint8_t>(output)}), value});
    made_.outputs.clear();
    made_.stored_output = output;
  }

  size_t place_of(const ValueLink& link) {
    if (!uses_lanes(link.kind)) return 0;
    RowPlace place = places_[link.value];
    if (place.kind == Kind::Temporary && place.index == 0) places_[link.value].index = place.index = ++temporaries_;
    const auto found = std::find(made_.places.begin(), made_.places.end(), place);
    if (found != made_.places.end()) return static_cast<size_t>(found - made_.places.begin());
    made_.places.push_back(place);
    return made_.places.size() - 1;
  }

  struct PassStep {
    ValueInstruction instruction;  // of a fold: reads the value, writes the accumulators
    std::optional<LinkKind> fold;
    Range range;
  };

  const Step& step_;
  const RowPlan& plan_;
  const RowPass& pass_;
  const VectorKernels& kernels_;
  std::array<size_t, kMaxRowRegisters> rows_;
  std::array<size_t, kMaxRowScalars> scalars_;
  std::vector<PassStep> steps_;
  std::vector<RowPlace> places_;
  std::vector<int> uses_;
  uint8_t temporaries_ = 0;
  PassPhrases made_;
};

}  // namespace

PassPhrases pass_phrases(const Step& step, const RowPlan& plan, const RowPass& pass, const VectorKernels& kernels) {
  return PassBuilder(step, plan, pass, kernels).build();
}

}  // namespace openspyre
