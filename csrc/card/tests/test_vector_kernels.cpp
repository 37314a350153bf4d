// The kernels of every instruction set: SEN169 in and out of registers against the format's definition, and runs of
// instructions in one phrase against the same instructions one by one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "formats/formats.h"
#include "steps/vector_code.h"

using namespace openspyre;

namespace {

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (int i = 0; i < kIsaCount; ++i)
    if (available(static_cast<Isa>(i))) found.push_back(static_cast<Isa>(i));
  return found;
}

Lane bits(float value) { return std::bit_cast<Lane>(value); }

Lane register_of(uint16_t code) { return bits(sen169_to_float(code)); }

// Which NaN is in a register is no property of the program.
bool same(Lane a, Lane b) {
  return a == b || (std::isnan(std::bit_cast<float>(a)) && std::isnan(std::bit_cast<float>(b)));
}

// Both sides of every place where rounding decides, everything beyond the range, NaNs of either sign, and a sample.
std::vector<Lane> interesting_patterns() {
  std::vector<Lane> patterns;
  for (uint32_t code = 0; code < 0x8000; ++code)
    for (int32_t d = -2; d <= 2; ++d)
      for (const uint32_t sign : {0u, 0x80000000u}) {
        const uint32_t grid = (96u << 23) + (code << 14);
        patterns.push_back(sign | (grid + static_cast<uint32_t>(d)));
        patterns.push_back(sign | (grid + 0x2000u + static_cast<uint32_t>(d)));
      }
  for (uint64_t pattern = 0; pattern < (1ull << 32); pattern += 9973) patterns.push_back(static_cast<Lane>(pattern));
  for (const Lane pattern : {0u, 0x80000000u, 1u, 0x80000001u, 0x7F800000u, 0xFF800000u, 0x7F800001u, 0xFF800001u,
                             0x7FC00000u, 0xFFC00000u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    patterns.push_back(pattern);
  while (patterns.size() % kLaneUnit != 0) patterns.push_back(0);
  return patterns;
}

// Three operands that meet in all ways: infinities, NaN, zeros, numbers at the ends of SEN169 and of exp.
struct Operands {
  alignas(64) Lane lanes[3][kChunkLanes];
  Operands() {
    const float specials[] = {0.0f, -0.0f, 1.0f,       -3.0f,    INFINITY, -INFINITY,
                              NAN,  -NAN,  0x1.fep32f, 0x1p-31f, -100.0f,  std::bit_cast<float>(~Lane{0})};
    std::mt19937_64 random(5);
    std::normal_distribution<float> some(0, 3);
    for (auto& operand : lanes)
      for (Lane& lane : operand)
        lane = bits(random() % 4 == 0 ? specials[random() % std::size(specials)] : some(random));
  }
};

std::vector<Lane> run(const CompiledCode& code, const Operands& operands) {
  const Slots& slots = RegisterFile::mine().slots();
  for (size_t i = 0; i < code.inputs.size(); ++i) std::copy_n(operands.lanes[i], kChunkLanes, slots[code.inputs[i]]);
  execute(code, slots, kChunkLanes);
  return {slots[code.results[0]], slots[code.results[0]] + kChunkLanes};
}

std::vector<Lane> one_by_one(const VectorCode& code, const Operands& operands, const VectorKernels& kernels) {
  alignas(64) Lane registers[8][kChunkLanes];
  for (size_t i = 0; i < 3; ++i) std::copy_n(operands.lanes[i], kChunkLanes, registers[i]);
  for (const Instruction& step : code.instructions)
    kernels.map[static_cast<size_t>(step.op)](registers[step.target], registers[step.a], registers[step.b],
                                              registers[step.c], kChunkLanes);
  return {registers[code.results[0]], registers[code.results[0]] + kChunkLanes};
}

bool same(const std::vector<Lane>& left, const std::vector<Lane>& right) {
  const auto alike = [](Lane a, Lane b) { return same(a, b); };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), alike);
}

CompiledCode compiled(const VectorCode& code, Isa isa) {
  const std::vector<CodeInput> inputs(3, {RegisterType::Float, false});
  return compile(code, inputs, vector_kernels(isa));
}

}  // namespace

TEST(every_sen169_code_is_loaded_as_its_value) {
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  std::vector<Lane> lanes(codes.size());
  for (const Isa isa : isas()) {
    vector_kernels(isa).load[static_cast<size_t>(HotFormat::Sen169)](codes.data(), lanes.data(), 65536);
    int wrong = 0;
    for (size_t i = 0; i < codes.size(); ++i) wrong += !same(lanes[i], register_of(codes[i]));
    CHECK_EQ(wrong, 0);
  }
}

TEST(storing_and_rounding_to_sen169_follow_the_format) {
  const std::vector<Lane> patterns = interesting_patterns();
  const auto count = static_cast<int64_t>(patterns.size());
  std::vector<uint16_t> codes(patterns.size());
  std::vector<Lane> rounded(patterns.size());
  for (const Isa isa : isas()) {
    const VectorKernels& kernels = vector_kernels(isa);
    kernels.store[static_cast<size_t>(HotFormat::Sen169)](patterns.data(), codes.data(), count);
    kernels.map[static_cast<size_t>(Op::RoundSen169)](rounded.data(), patterns.data(), patterns.data(), patterns.data(),
                                                      count);
    int wrong_codes = 0, wrong_values = 0;
    for (size_t i = 0; i < patterns.size(); ++i) {
      const auto value = std::bit_cast<float>(patterns[i]);
      const uint16_t expected = std::isnan(value) ? kSen169NaN : sen169_from_float(value);  // N2
      wrong_codes += codes[i] != expected;
      wrong_values += !same(rounded[i], register_of(expected));
    }
    CHECK_EQ(wrong_codes, 0);
    CHECK_EQ(wrong_values, 0);
  }
}

// Random code of instructions that have links, and now and then one that has none.
VectorCode random_code(std::mt19937_64& random) {
  const Op with_links[] = {Op::Add, Op::Sub,  Op::Mul, Op::Div,  Op::Min,     Op::Max,        Op::Neg,
                           Op::Exp, Op::Tanh, Op::Erf, Op::Erfc, Op::Sigmoid, Op::RoundSen169};
  const auto below = [&](uint64_t limit) { return static_cast<uint8_t>(random() % limit); };
  VectorCode code;
  const int length = 1 + below(12);
  uint8_t last = 0;
  for (int i = 0; i < length; ++i) {
    const Op op = below(8) == 0 ? Op::Abs : with_links[below(std::size(with_links))];
    const uint8_t registers = static_cast<uint8_t>(3 + std::min(i, 5));
    const auto source = [&] { return below(2) == 0 ? last : below(registers); };
    const uint8_t target = static_cast<uint8_t>(3 + (i < 5 ? i : below(5)));
    code.instructions.push_back({op, target, source(), source()});
    last = target;
  }
  code.results = {last};
  return code;
}

TEST(phrases_give_the_bits_of_their_instructions_one_by_one) {
  const Operands operands;
  std::mt19937_64 random(11);
  for (int round = 0; round < 1000; ++round) {
    const VectorCode code = random_code(random);
    std::vector<Lane> of_first_isa;
    for (const Isa isa : isas()) {
      const std::vector<Lane> got = run(compiled(code, isa), operands);
      CHECK(same(got, one_by_one(code, operands, vector_kernels(isa))));
      if (of_first_isa.empty()) of_first_isa = got;
      CHECK(same(got, of_first_isa));
    }
  }
}

TEST(common_instructions_share_phrases) {
  const VectorCode code{{{Op::Sub, 3, 0, 1},
                         {Op::Mul, 3, 3, 2},
                         {Op::Mul, 3, 3, 1},
                         {Op::Add, 3, 3, 0},
                         {Op::RoundSen169, 3, 3},
                         {Op::RoundSen169, 4, 0},
                         {Op::Sigmoid, 4, 4},
                         {Op::RoundSen169, 4, 4},
                         {Op::Mul, 4, 3, 4}},
                        {},
                        {4}};
  const CompiledCode made = compiled(code, Isa::Baseline);
  CHECK_EQ(made.operations.size(), size_t{4});           // the norm, the rounding, the sigmoid, what stands behind it
  CHECK_EQ(made.operations[0].links.size(), size_t{7});  // with a load and a save
  CHECK_EQ(made.storing.size(), size_t{4});
}

TEST(a_sigmoid_is_rounded_with_the_same_bits) {
  const VectorCode code{{{Op::RoundSen169, 3, 0}, {Op::Sigmoid, 3, 3}, {Op::RoundSen169, 3, 3}}, {}, {3}};
  Operands operands;
  std::mt19937_64 random(12);
  for (Lane& lane : operands.lanes[0])
    if (!std::isnan(std::bit_cast<float>(lane)))
      lane = bits(static_cast<float>(static_cast<int64_t>(random() % 240) - 120) / 4);
  for (const Isa isa : isas())
    CHECK(same(run(compiled(code, isa), operands), one_by_one(code, operands, vector_kernels(isa))));
}

TEST(a_phrase_stores_what_saving_and_storing_would) {
  const Operands operands;
  const auto word = static_cast<size_t>(HotFormat::Sen169);
  for (const bool rounds : {false, true}) {
    VectorCode code{{{Op::Mul, 3, 0, 1}, {Op::Add, 3, 3, 2}}, {}, {3}};
    if (rounds) code.instructions.push_back({Op::RoundSen169, 3, 3});
    for (const Isa isa : isas()) {
      const VectorKernels& kernels = vector_kernels(isa);
      std::vector<uint16_t> expected(kChunkLanes), got(kChunkLanes);
      kernels.store[word](one_by_one(code, operands, kernels).data(), expected.data(), kChunkLanes);
      const Port port = store_port({}, RegisterType::Float, 64, kernels);
      const CompiledCode made = compiled(code, isa);
      CHECK(stores_at_once(made, port));
      const Slots& slots = RegisterFile::mine().slots();
      for (size_t i = 0; i < 3; ++i) std::copy_n(operands.lanes[i], kChunkLanes, slots[made.inputs[i]]);
      std::array<int64_t, kChunkLanes / 64> offsets;  // the first half of the blocks behind the second
      for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<int64_t>((i + 8) % 16) * 128;
      execute_to(made, slots, port, reinterpret_cast<std::byte*>(got.data()), offsets.data(), 16);
      std::rotate(got.begin(), got.begin() + kChunkLanes / 2, got.end());
      CHECK(got == expected);
    }
  }
}

// Runs a phrase of one kernel over all lanes.
void run_phrase(const VectorKernels& kernels, std::initializer_list<LinkKind> kinds, std::vector<std::byte*> places,
                size_t lanes) {
  const std::vector<LinkKind> links(kinds);
  const Phrase phrase = kernels.find_phrase(links);
  CHECK_EQ(phrase.length, links.size());
  std::vector<Link> bound;
  for (std::byte* place : places) bound.push_back({place, 0});
  phrase.kernel(bound.data(), static_cast<int64_t>(lanes), static_cast<int64_t>(lanes));
}

std::byte* bytes_of(const auto& values) {
  return reinterpret_cast<std::byte*>(const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(values.data())));
}

// Every number that rounding to SEN169's steps gives, and both sides of where it decides.
std::vector<Lane> numbers_not_above_zero() {
  std::vector<Lane> patterns;
  for (uint32_t grid = 0x80000000u; grid <= 0xFF800000u; grid += 0x4000)
    for (const uint32_t d : {0u, 1u, 0x1FFFu, 0x2000u, 0x2001u, 0x3FFFu}) patterns.push_back(grid + d);
  for (const Lane pattern : {0u, 0x7FC00000u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0xFF800001u, 0x7FC02000u})
    patterns.push_back(pattern);
  while (patterns.size() % kLaneUnit != 0) patterns.push_back(0);
  for (int i = 0; i < 64; ++i)  // one among masked ones, in every lane
    for (int lane = 0; lane < 64; ++lane) patterns.push_back(lane != i ? 0xFF800000u : i % 2 == 0 ? 0xFFC00000u : 0u);
  return patterns;
}

TEST(an_exponential_between_roundings_has_the_bits_of_all_three) {
  const std::vector<Lane> x = numbers_not_above_zero();
  std::vector<Lane> expected(x.size()), got(x.size());
  const auto count = static_cast<int64_t>(x.size());
  const auto apply = [&](const VectorKernels& kernels, Op op, const std::vector<Lane>& from) {
    kernels.map[static_cast<size_t>(op)](expected.data(), from.data(), from.data(), from.data(), count);
  };
  for (const Isa isa : isas()) {
    const VectorKernels& kernels = vector_kernels(isa);
    apply(kernels, Op::RoundSen169, x);
    apply(kernels, Op::Exp, expected);
    apply(kernels, Op::RoundSen169, expected);
    run_phrase(kernels, {LinkKind::Load, LinkKind::ExpFraction, LinkKind::Save}, {bytes_of(x), nullptr, bytes_of(got)},
               x.size());
    CHECK(same(got, expected));
  }
}

TEST(a_sigmoid_of_every_code_is_rounded_with_the_same_bits) {
  std::vector<Lane> x(65536), expected(x.size()), got(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = register_of(static_cast<uint16_t>(i));
  x[0x7FFE] = 0x7FFFFFFFu;  // a NaN that an addition to its bits would wrap
  for (const Isa isa : isas()) {
    const VectorKernels& kernels = vector_kernels(isa);
    kernels.map[static_cast<size_t>(Op::Sigmoid)](expected.data(), x.data(), x.data(), x.data(), 65536);
    kernels.map[static_cast<size_t>(Op::RoundSen169)](expected.data(), expected.data(), x.data(), x.data(), 65536);
    run_phrase(kernels, {LinkKind::Load, LinkKind::SigmoidFraction, LinkKind::Save},
               {bytes_of(x), nullptr, bytes_of(got)}, x.size());
    CHECK(same(got, expected));
  }
}

TEST(fractions_are_stored_as_all_numbers_are) {
  std::vector<Lane> x = interesting_patterns();
  std::erase_if(x, [](Lane pattern) { return pattern > 0x3F800000u && !std::isnan(std::bit_cast<float>(pattern)); });
  x.resize(x.size() / kLaneUnit * kLaneUnit);
  std::vector<uint16_t> expected(x.size()), got(x.size());
  for (const Isa isa : isas()) {
    const VectorKernels& kernels = vector_kernels(isa);
    kernels.store[static_cast<size_t>(HotFormat::Sen169)](x.data(), expected.data(), static_cast<int64_t>(x.size()));
    run_phrase(kernels, {LinkKind::Load, LinkKind::StoreFraction}, {bytes_of(x), bytes_of(got)}, x.size());
    CHECK(got == expected);
  }
}

// All pairs of significands, at the exponents where quotients are flushed, overflow, and are usual; and what is no
// number.
TEST(multiplying_by_a_reciprocal_rounds_as_dividing_does) {
  std::vector<Lane> numbers, divisors;
  for (const uint32_t exponent : {0u, 1u, 2u, 16u, 30u, 31u, 32u, 62u, 63u})
    for (uint32_t fraction = 0; fraction < 512; ++fraction)
      for (const uint32_t sign : {0u, 0x8000u})
        numbers.push_back(register_of(static_cast<uint16_t>(sign | exponent << 9 | fraction)));
  for (const uint32_t exponent : {0u, 31u, 63u})
    for (uint32_t fraction = 0; fraction < 512; ++fraction)
      divisors.push_back(register_of(static_cast<uint16_t>(exponent << 9 | fraction)));
  divisors.push_back(register_of(0x8000));
  divisors.push_back(register_of(0xFFFF));
  std::vector<Lane> divisor(numbers.size()), reciprocal(numbers.size()), expected(numbers.size()), got(numbers.size());
  const auto count = static_cast<int64_t>(numbers.size());
  const VectorKernels& kernels = vector_kernels(isas().back());
  const auto apply = [&](Op op, std::vector<Lane>& target, const std::vector<Lane>& a, const std::vector<Lane>& b) {
    kernels.map[static_cast<size_t>(op)](target.data(), a.data(), b.data(), b.data(), count);
  };
  for (const Lane each : divisors) {
    std::fill(divisor.begin(), divisor.end(), each);
    apply(Op::Reciprocal, reciprocal, divisor, divisor);
    apply(Op::Div, expected, numbers, divisor);
    apply(Op::RoundSen169, expected, expected, expected);
    apply(Op::Mul, got, numbers, reciprocal);
    apply(Op::RoundSen169, got, got, got);
    CHECK(same(got, expected));
  }
}

TEST(a_value_that_is_read_again_is_not_lost_in_a_run) {
  const Operands operands;
  const std::vector<VectorCode> codes = {
      {{{Op::Add, 3, 0, 1}, {Op::RoundSen169, 4, 3}, {Op::Mul, 5, 4, 3}}, {}, {5}},
      {{{Op::Mul, 3, 0, 1}, {Op::Add, 4, 3, 2}, {Op::Sub, 5, 3, 4}}, {}, {5}},
      {{{Op::Sub, 3, 0, 1}, {Op::Exp, 4, 3}, {Op::Add, 4, 4, 0}}, {}, {3}},
      {{{Op::Sub, 3, 0, 1}, {Op::Add, 3, 3, 3}, {Op::Div, 4, 3, 2}}, {}, {4}},
  };
  for (const Isa isa : isas())
    for (const VectorCode& code : codes)
      CHECK(same(run(compiled(code, isa), operands), one_by_one(code, operands, vector_kernels(isa))));
}
