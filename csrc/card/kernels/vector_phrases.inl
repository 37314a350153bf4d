// Phrases (see phrases.h): loops over the lanes of a chunk, made of links. Each link works on the vectors of a unit,
// which stay in processor registers until the phrase ends. Part of vector_kernels.inl.

constexpr int kUnitVectors = 2;
constexpr int64_t kUnitLanes = kUnitVectors * kVectorLanes;
static_assert(kLaneUnit % kUnitLanes == 0);

struct Unit {
  Floats v[kUnitVectors];
};

LANE Lane* lanes_of(std::byte* place, int64_t at) { return reinterpret_cast<Lane*>(place) + at; }

struct LoadLink {
  static constexpr LinkKind kKind = LinkKind::Load;
  LANE static void run(std::byte* place, int64_t at, Unit& unit) {
    const Lane* lanes = lanes_of(place, at);
    for (int i = 0; i < kUnitVectors; ++i) unit.v[i] = load_vector<Floats>(lanes + i * kVectorLanes);
  }
};

struct SaveLink {
  static constexpr LinkKind kKind = LinkKind::Save;
  LANE static void run(std::byte* place, int64_t at, Unit& unit) {
    Lane* lanes = lanes_of(place, at);
    for (int i = 0; i < kUnitVectors; ++i) store_vector(lanes + i * kVectorLanes, unit.v[i]);
  }
};

struct StoreSen169Link {
  static constexpr LinkKind kKind = LinkKind::StoreSen169;
  LANE static void run(std::byte* place, int64_t at, Unit& unit) {
    store_sen169({unit.v[0], unit.v[1]}, reinterpret_cast<uint16_t*>(place) + at);
  }
};

struct StoreFractionLink {
  static constexpr LinkKind kKind = LinkKind::StoreFraction;
  LANE static void run(std::byte* place, int64_t at, Unit& unit) {
    store_fraction({unit.v[0], unit.v[1]}, reinterpret_cast<uint16_t*>(place) + at);
  }
};

template <LinkKind kLinkKind, typename Function>
struct LinkOf {
  static constexpr LinkKind kKind = kLinkKind;
  LANE static void run(std::byte*, int64_t, Unit& unit) {
    for (int i = 0; i < kUnitVectors; ++i) unit.v[i] = Function::apply(unit.v[i], unit.v[i]);
  }
};

struct ExpFractionLink {
  static constexpr LinkKind kKind = LinkKind::ExpFraction;
  LANE static void run(std::byte*, int64_t, Unit& unit) {
    if (is_flushed_by_exp(unit.v[0], unit.v[1])) {
      unit = {};
      return;
    }
    for (int i = 0; i < kUnitVectors; ++i) unit.v[i] = exp_fraction(unit.v[i]);
  }
};

// The other operand is in the link's lanes.
template <LinkKind kLinkKind, typename Function>
struct LinkWith {
  static constexpr LinkKind kKind = kLinkKind;
  LANE static void run(std::byte* place, int64_t at, Unit& unit) {
    const Lane* other = lanes_of(place, at);
    for (int i = 0; i < kUnitVectors; ++i)
      unit.v[i] = Function::apply(unit.v[i], load_vector<Floats>(other + i * kVectorLanes));
  }
};

// The link's lanes are accumulators.
template <LinkKind kLinkKind, typename Function>
struct FoldLink {
  static constexpr LinkKind kKind = kLinkKind;
  LANE static void run(std::byte* place, int64_t at, Unit& unit) {
    Lane* sums = lanes_of(place, at);
    for (int i = 0; i < kUnitVectors; ++i, sums += kVectorLanes)
      store_vector(sums, Function::apply(load_vector<Floats>(sums), unit.v[i]));
  }
};

using AddLink = LinkWith<LinkKind::Add, AddVector>;
using SubLink = LinkWith<LinkKind::Sub, SubVector>;
using SubFromLink = LinkWith<LinkKind::SubFrom, SubFromVector>;
using MulLink = LinkWith<LinkKind::Mul, MulVector>;
using DivLink = LinkWith<LinkKind::Div, DivVector>;
using DivIntoLink = LinkWith<LinkKind::DivInto, DivIntoVector>;
using MinLink = LinkWith<LinkKind::Min, MinVector>;
using MaxLink = LinkWith<LinkKind::Max, MaxVector>;
using NegLink = LinkOf<LinkKind::Neg, NegVector>;
using SquareLink = LinkOf<LinkKind::Square, SquareVector>;
using ExpLink = LinkOf<LinkKind::Exp, ExpVector>;
using TanhLink = LinkOf<LinkKind::Tanh, TanhVector>;
using ErfLink = LinkOf<LinkKind::Erf, ErfVector>;
using ErfcLink = LinkOf<LinkKind::Erfc, ErfcVector>;
using SigmoidLink = LinkOf<LinkKind::Sigmoid, SigmoidVector>;
using RoundLink = LinkOf<LinkKind::RoundSen169, RoundSen169Vector>;
using RoundForExpLink = LinkOf<LinkKind::RoundForExp, RoundForExpVector>;
using SigmoidFractionLink = LinkOf<LinkKind::SigmoidFraction, SigmoidFractionVector>;
using RoundFractionLink = LinkOf<LinkKind::RoundFraction, RoundFractionVector>;
using FoldAddLink = FoldLink<LinkKind::FoldAdd, AddVector>;
using FoldMulLink = FoldLink<LinkKind::FoldMul, MulVector>;
using FoldMaxLink = FoldLink<LinkKind::FoldMax, MaxVector>;
using FoldMinLink = FoldLink<LinkKind::FoldMin, MinVector>;

template <typename... Links, size_t... kIndices>
LANE void run_phrase(const Link* links, int64_t lanes, int64_t block, std::index_sequence<kIndices...>) {
  std::byte* places[] = {links[kIndices].place...};
  const int64_t steps[] = {links[kIndices].step...};
  for (; lanes > 0; lanes -= block) {
    for (int64_t at = 0; at < block; at += kUnitLanes) {
      Unit unit{};
      (Links::run(places[kIndices], at, unit), ...);
    }
    ((places[kIndices] += steps[kIndices]), ...);
  }
}
template <typename... Links>
void phrase(const Link* links, int64_t lanes, int64_t block) {
  run_phrase<Links...>(links, lanes, block, std::index_sequence_for<Links...>());
}

struct KnownPhrase {
  std::array<LinkKind, kMostPhraseLinks> kinds;
  size_t length;
  PhraseKernel kernel;
};
template <typename... Links>
constexpr KnownPhrase known{{Links::kKind...}, sizeof...(Links), phrase<Links...>};
// A value is loaded, goes through the links, and is kept or stored.
template <typename... Links>
constexpr KnownPhrase kept = known<LoadLink, Links..., SaveLink>;
template <typename... Links>
constexpr KnownPhrase stored = known<LoadLink, Links..., StoreSen169Link>;

template <typename... Links>
struct LinkList {};

// Each link by itself.
template <typename... Links>
constexpr auto each_alone(LinkList<Links...>) {
  return std::array{kept<Links>..., stored<Links>..., kept<Links, RoundLink>...};
}
// A link, perhaps rounded, then each of the others, perhaps rounded.
template <typename First, typename... Seconds>
constexpr auto each_after(LinkList<Seconds...>) {
  return std::array{kept<First, Seconds>...,
                    kept<First, RoundLink, Seconds>...,
                    kept<First, Seconds, RoundLink>...,
                    kept<First, RoundLink, Seconds, RoundLink>...,
                    stored<First, Seconds>...,
                    stored<First, RoundLink, Seconds>...,
                    kept<RoundLink, Seconds>...,
                    stored<RoundLink, Seconds>...};
}

using AllLinks = LinkList<AddLink, SubLink, SubFromLink, MulLink, DivLink, DivIntoLink, MinLink, MaxLink, NegLink,
                          SquareLink, ExpLink, TanhLink, ErfLink, ErfcLink, SigmoidLink, RoundLink, RoundForExpLink>;
using Arithmetic = LinkList<AddLink, SubLink, SubFromLink, MulLink, SquareLink, DivIntoLink>;

constexpr auto kAlone = each_alone(AllLinks());
constexpr auto kAfterAdd = each_after<AddLink>(Arithmetic());
constexpr auto kAfterSub = each_after<SubLink>(Arithmetic());
constexpr auto kAfterMul = each_after<MulLink>(Arithmetic());
constexpr auto kAfterDiv = each_after<DivLink>(Arithmetic());

// Longer ones that models spend their time in. Little stands behind exp and its like: the chain of instructions that
// wait for each other would be longer than processors overlap.
constexpr KnownPhrase kSentences[] = {
    kept<SubLink, ExpLink>,
    known<LoadLink, SubLink, ExpLink, SaveLink, FoldAddLink>,
    known<LoadLink, MulLink, RoundLink, AddLink, RoundLink, SaveLink, FoldMaxLink>,
    known<LoadLink, AddLink, RoundLink, SaveLink, FoldAddLink>,
    known<LoadLink, AddLink, RoundLink, SaveLink, FoldAddLink, SquareLink, FoldAddLink>,
    known<LoadLink, FoldAddLink, SquareLink, FoldAddLink>,
    kept<SubLink, RoundForExpLink, ExpLink>,
    kept<ExpFractionLink>,
    kept<SubLink, ExpFractionLink>,
    known<LoadLink, SubLink, ExpFractionLink, SaveLink, FoldAddLink>,
    known<LoadLink, StoreFractionLink>,
    known<LoadLink, MulLink, StoreFractionLink>,
    known<LoadLink, RoundFractionLink, SaveLink, FoldAddLink>,
    known<LoadLink, SquareLink, RoundLink, FoldAddLink>,
    known<LoadLink, SubLink, SquareLink, FoldAddLink>,
    known<LoadLink, SquareLink, FoldAddLink>,
    known<LoadLink, StoreSen169Link>,
    known<LoadLink, FoldAddLink>,
    known<LoadLink, FoldMulLink>,
    known<LoadLink, FoldMaxLink>,
    known<LoadLink, FoldMinLink>,
    kept<SubLink, MulLink, MulLink, AddLink>,
    kept<SubLink, MulLink, MulLink, AddLink, RoundLink>,
    stored<SubLink, MulLink, MulLink, AddLink>,
    stored<MulLink, RoundLink, MulLink, RoundLink, AddLink>,
    kept<RoundFractionLink>,
    kept<RoundFractionLink, MulLink>,
    stored<RoundFractionLink, MulLink>,
    kept<NegLink, ExpLink>,
    kept<SigmoidFractionLink>,
    stored<SigmoidFractionLink>,
    stored<SubLink, MulLink, MulLink, AddLink, RoundLink, MulLink>,
    kept<MulLink, SigmoidLink>,
    kept<MulLink, ErfcLink>,
    kept<AddLink, DivIntoLink, RoundLink, MulLink>,
    stored<AddLink, DivIntoLink, RoundLink, MulLink>,
};

Phrase find_phrase(std::span<const LinkKind> links) {
  Phrase best{};
  for (const std::span<const KnownPhrase> group :
       {std::span<const KnownPhrase>(kAlone), std::span<const KnownPhrase>(kAfterAdd),
        std::span<const KnownPhrase>(kAfterSub), std::span<const KnownPhrase>(kAfterMul),
        std::span<const KnownPhrase>(kAfterDiv), std::span<const KnownPhrase>(kSentences)})
    for (const KnownPhrase& candidate : group) {
      const auto matches =
          static_cast<size_t>(std::mismatch(links.begin(), links.end(), candidate.kinds.begin(),
                                            candidate.kinds.begin() + static_cast<int64_t>(candidate.length))
                                  .first -
                              links.begin());
      const bool saves = matches + 1 == candidate.length && candidate.kinds[matches] == LinkKind::Save;
      if ((matches == candidate.length || saves) && matches > best.length) best = {candidate.kernel, matches, saves};
    }
  return best;
}
