#include "steps/phrases.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace openspyre {
namespace {

std::optional<LinkKind> link_of(Op op) {
  switch (op) {
    case Op::Add:
      return LinkKind::Add;
    case Op::Sub:
      return LinkKind::Sub;
    case Op::Mul:
      return LinkKind::Mul;
    case Op::Div:
      return LinkKind::Div;
    case Op::Min:
      return LinkKind::Min;
    case Op::Max:
      return LinkKind::Max;
    case Op::Neg:
      return LinkKind::Neg;
    case Op::Exp:
      return LinkKind::Exp;
    case Op::Tanh:
      return LinkKind::Tanh;
    case Op::Erf:
      return LinkKind::Erf;
    case Op::Erfc:
      return LinkKind::Erfc;
    case Op::Sigmoid:
      return LinkKind::Sigmoid;
    case Op::RoundSen169:
      return LinkKind::RoundSen169;
    default:
      return std::nullopt;
  }
}

// The link with its operands the other way round. Min and Max have none: of two zeros they give the second.
std::optional<LinkKind> turned(LinkKind kind) {
  switch (kind) {
    case LinkKind::Add:
    case LinkKind::Mul:
      return kind;
    case LinkKind::Sub:
      return LinkKind::SubFrom;
    case LinkKind::Div:
      return LinkKind::DivInto;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool has_link(Op op) { return link_of(op).has_value(); }

bool uses_lanes(LinkKind kind) { return kind < LinkKind::Neg || kind > LinkKind::RoundFraction; }

std::vector<ValuePhrase> in_phrases(std::span<const ValueLink> links, const VectorKernels& kernels) {
  std::vector<ValuePhrase> phrases;
  while (!links.empty()) {
    std::vector<ValueLink> rest(links.begin(), links.end());
    const bool goes_on = rest[0].kind != LinkKind::Load;  // the phrase before has saved the value
    if (goes_on)
      rest.insert(rest.begin(), {LinkKind::Load, phrases.back().links.back().held, phrases.back().links.back().held});
    std::vector<LinkKind> kinds;
    for (const ValueLink& link : rest) kinds.push_back(link.kind);
    const Phrase found = kernels.find_phrase(kinds);
    if (found.kernel == nullptr) fail(Fault::Internal, "no phrase begins with the links of an instruction");
    rest.resize(found.length);
    if (found.saves) rest.push_back({LinkKind::Save, rest.back().held, rest.back().held});
    links = links.subspan(found.length - (goes_on ? 1 : 0));
    phrases.push_back({std::move(rest), found.kernel});
  }
  return phrases;
}

LinkBuilder::LinkBuilder(std::vector<int> uses)
    : uses_(std::move(uses)), ranges_(uses_.size()), sen169_(uses_.size()), of_code_(uses_.size()) {}

LinkKind LinkBuilder::kind_of(const ValueInstruction& instruction) const {
  const LinkKind kind = *link_of(instruction.op);
  if (kind == LinkKind::Mul && instruction.reads[0] == instruction.reads[1]) return LinkKind::Square;
  return kind == LinkKind::RoundSen169 && range(instruction.reads[0]) == Range::Fraction ? LinkKind::RoundFraction
                                                                                         : kind;
}

std::optional<LinkBuilder::Form> LinkBuilder::form_with_held(const ValueInstruction& instruction) const {
  const LinkKind kind = kind_of(instruction);
  const size_t a = instruction.reads[0], b = instruction.reads[1];
  if (held_ == a) return Form{kind, b, uses_lanes(kind) ? 1 : arity(instruction.op)};
  if (held_ != b || arity(instruction.op) < 2 || !turned(kind)) return std::nullopt;
  return Form{*turned(kind), a, 1};
}

// Before another value takes its place: unless the next link is the last reader.
void LinkBuilder::save_unless_spared(int held_reads) {
  if (!held_ || held_in_lanes_ || uses_[*held_] == held_reads) return;
  link(LinkKind::Save, *held_);
  held_in_lanes_ = true;
}

void LinkBuilder::load(size_t value) {
  held_ = value;
  held_in_lanes_ = true;
  link(LinkKind::Load, value);
}

// Whether the last link made the value, of which nobody but the next instruction gets to know.
bool LinkBuilder::is_only_for(LinkKind kind, size_t value) const {
  return held_ == value && !held_in_lanes_ && uses_[value] == 1 && links_.back().kind == kind;
}

Range LinkBuilder::range_of(const ValueInstruction& instruction) const {
  const Range before = range(instruction.reads[0]);
  switch (instruction.op) {
    case Op::RoundSen169:
      return before;
    case Op::Sigmoid:
      return Range::Fraction;
    case Op::Exp:
      return before == Range::NotPositive ? Range::Fraction : Range::Any;
    default:
      return Range::Any;
  }
}

// The link that gives the held value rounded, where there is one for it, instead of the last ones.
std::optional<LinkKind> LinkBuilder::function_rounded(size_t value) {
  if (is_only_for(LinkKind::Sigmoid, value) && of_code_[value]) return LinkKind::SigmoidFraction;
  const bool is_exp = is_only_for(LinkKind::Exp, value) && range(value) == Range::Fraction;
  if (!is_exp || links_[links_.size() - 2].kind != LinkKind::RoundForExp) return std::nullopt;
  links_.pop_back();
  return LinkKind::ExpFraction;
}

void LinkBuilder::add(const ValueInstruction& instruction, Range range) {
  const size_t a = instruction.reads[0];
  ranges_[instruction.target] = range == Range::Any ? range_of(instruction) : range;
  if (instruction.op == Op::Exp && is_only_for(LinkKind::RoundSen169, a)) links_.back().kind = LinkKind::RoundForExp;
  sen169_[instruction.target] = instruction.op == Op::RoundSen169;
  of_code_[instruction.target] = arity(instruction.op) == 1 && sen169_[a];
  if (const auto kind = instruction.op == Op::RoundSen169 ? function_rounded(a) : std::nullopt) {
    links_.back() = {*kind, instruction.target, instruction.target};
    held_ = instruction.target;
    --uses_[a];
    return;
  }
  std::optional<Form> form = form_with_held(instruction);
  save_unless_spared(form ? form->held_reads : 0);
  if (!form) {
    load(a);
    form = form_with_held(instruction);
  }
  held_ = instruction.target;
  held_in_lanes_ = false;
  link(form->kind, form->other);
  for (int i = 0; i < arity(instruction.op); ++i) --uses_[instruction.reads[static_cast<size_t>(i)]];
}

void LinkBuilder::fold(LinkKind kind, size_t value, size_t accumulators) {
  save_unless_spared(held_ == value ? 1 : 0);
  if (held_ != value) load(value);
  link(kind, accumulators);
  --uses_[value];
}

std::vector<ValueLink> LinkBuilder::finish() {
  save_unless_spared(0);
  held_.reset();
  return std::exchange(links_, {});
}

}  // namespace openspyre
