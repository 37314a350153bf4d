// The contraction kernels against the contract's definition (N5), bit for bit, on every instruction set of this host
// and with 1, 2 and 7 threads.
#include <cmath>
#include <cstring>
#include <tuple>

#include "check.h"
#include "child_process.h"
#include "random_contraction.h"
#include "steps/contract.h"
#include "streams/card.h"

using namespace openspyre;
using namespace openspyre::testing;

namespace {

constexpr DataFormat kSen169 = DataFormat::SEN169_FP16, kFp32 = DataFormat::IEEE_FP32;

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (int i = 0; i < kIsaCount; ++i)
    if (available(static_cast<Isa>(i))) found.push_back(static_cast<Isa>(i));
  return found;
}

CoreBox whole(const Step& step) {
  CoreBox box;
  for (size_t i = 0; i < step.loops.size(); ++i) box.extent[i] = step.loops[i].extent;
  return box;
}

void configure_threads(int threads) {
  Configuration configuration;
  configuration.threads = threads;
  configure(configuration);
}

// Everything C's memory holds must agree: what is no element of C stays as it was.
void check_memory(const Contraction& problem, const std::vector<std::byte>& expected, const std::string& how) {
  const std::vector<std::byte>& c = problem.memory[2];
  size_t wrong = 0, first = c.size();
  for (size_t i = 0; i < c.size(); ++i) {
    if (c[i] == expected[i]) continue;
    ++wrong;
    first = std::min(first, i);
  }
  if (wrong)
    check::report(__FILE__, __LINE__,
                  how + ": " + describe(problem) + ": " + std::to_string(wrong) + " bytes differ, the first at " +
                      std::to_string(first));
}

void check_all_isas(Contraction problem) {
  const std::vector<std::byte> expected = Definition(problem).result(), before = problem.memory[2];
  const contract::Plan plan = contract::plan(problem.step, whole(problem.step));
  for (const Isa isa : isas()) {
    problem.memory[2] = before;
    contract::run(plan, problem.memory[0].data(), problem.memory[1].data(), problem.memory[2].data(), isa);
    check_memory(problem, expected, name(isa));
  }
}

VectorCode random_scale(Random& random) {
  VectorCode code;
  if (random.chance(0.5)) return code;
  constexpr float kFactors[] = {0.353553f, -3.0f, 1e-9f, 1e9f};
  code.constants = {{1, std::bit_cast<uint32_t>(kFactors[random.between(0, 3)])}};
  code.instructions = {{Op::Mul, 2, 0, 1}};
  if (random.chance(0.7)) code.instructions.push_back({Op::RoundSen169, 3, 2});
  code.results = {code.instructions.back().target};
  return code;
}

int32_t random_split(int64_t extent, Random& random) {
  const auto split = static_cast<int32_t>(random.between(1, 4));
  return extent % split == 0 ? split : 1;
}

Sizes random_sizes(Random& random) {
  constexpr int64_t kRows[] = {1, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 25, 40};
  Sizes sizes;
  sizes.m = kRows[random.between(0, std::size(kRows) - 1)];
  sizes.n = random.between(1, random.chance(0.3) ? 400 : 130);
  if (random.chance(0.3)) sizes.n = 64 * random.between(1, 3);
  sizes.k = random.between(1, random.chance(0.2) ? 600 : random.chance(0.2) ? 40 : 200);
  for (int64_t loops = random.between(0, 2); loops > 0; --loops) {
    sizes.batches.push_back(random.between(1, 3));
    sizes.shared.push_back(random.chance(0.5));
    sizes.still.push_back(!sizes.shared.back() && random.chance(0.5));
  }
  if (random.chance(0.3)) sizes.operands = kFp32;
  sizes.result = random.chance(0.7) ? sizes.operands : random.chance(0.5) ? kSen169 : kFp32;
  if (sizes.operands == kFp32 && sizes.result == kFp32 && random.chance(0.5)) sizes.lanes = sizes.k_lanes = 32;
  if (random.chance(0.2)) sizes.k_lanes = 128;
  sizes.b_along_k = random.chance(0.4);
  sizes.uneven_blocks = random.chance(0.3);
  sizes.m_split = random_split(sizes.m, random);
  sizes.n_split = random_split((sizes.n + sizes.lanes - 1) / sizes.lanes, random);
  sizes.k_split = random.chance(0.5) ? random_split((sizes.k + sizes.k_lanes - 1) / sizes.k_lanes, random) : 1;
  return sizes;
}

void check_random_problems(uint64_t seed, int count) {
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    const auto values = static_cast<Values>(random.between(0, 3));
    Contraction problem = make_contraction(random_sizes(random), values, random);
    problem.step.a_code = random_scale(random);
    problem.step.b_code = random_scale(random);
    check_all_isas(std::move(problem));
  }
}

Contraction plain(int64_t m, int64_t n, int64_t k, Values values = Values::Normal, DataFormat format = kSen169,
                  bool b_along_k = false) {
  Random random(static_cast<uint64_t>(m * 1000003 + n * 1009 + k));
  Sizes sizes = {.m = m, .n = n, .k = k, .batches = {}, .shared = {}, .operands = format, .result = format};
  sizes.b_along_k = b_along_k;
  return make_contraction(sizes, values, random);
}

Contraction turned(int64_t m, int64_t n, int64_t k, DataFormat format = kSen169) {
  return plain(m, n, k, Values::Normal, format, true);
}

}  // namespace

TEST(random_contractions_are_the_definition_with_one_thread) {
  CHECK_EQ(check::run_in_child([] { configure_threads(1), check_random_problems(1, 80); }), 0);
}

TEST(random_contractions_are_the_definition_with_two_threads) {
  CHECK_EQ(check::run_in_child([] { configure_threads(2), check_random_problems(2, 80); }), 0);
}

TEST(random_contractions_are_the_definition_with_seven_threads) {
  CHECK_EQ(check::run_in_child([] { configure_threads(7), check_random_problems(3, 80); }), 0);
}

// Heights around every tile, block and task boundary, and depths across blocks of k.
TEST(sums_are_one_chain_across_cache_blocks) {
  const auto scenario = [] {
    configure_threads(2);
    for (const int64_t m : {1, 5, 6, 12, 13, 63, 64, 191, 193, 257}) check_all_isas(plain(m, 70, 530));
    check_all_isas(plain(1100, 65, 130));
    check_all_isas(plain(2, 1100, 300));
  };
  CHECK_EQ(check::run_in_child(scenario), 0);
}

// Rows of A that end in zeros, of both signs, as a causal mask leaves them: beside finite columns they may be left out,
// beside an infinity or a NaN they give NaN.
TEST(zeros_at_the_end_of_rows_add_what_they_add) {
  const auto scenario = [] {
    configure_threads(2);
    Random random(7);
    for (const Values values : {Values::Normal, Values::Infinities, Values::AnyCode})
      for (const auto& [m, n, k] :
           {std::tuple{37, 70, 300}, {6, 20, 64}, {130, 33, 530}, {9, 16, 40}, {25, 128, 17}, {600, 70, 300}}) {
        Contraction problem = plain(m, n, k, values);
        const contract::Plan plan = contract::plan(problem.step, whole(problem.step));
        for (const int64_t row : plan.a_row)
          for (int64_t at = random.between(0, k); at < k; ++at) {
            const uint16_t zero = random.chance(0.5) ? 0x8000 : 0;
            std::memcpy(&problem.memory[0][static_cast<size_t>(row + plan.a_stick[at / 64] + at % 64) * 2], &zero, 2);
          }
        check_all_isas(std::move(problem));
      }
  };
  CHECK_EQ(check::run_in_child(scenario), 0);
}

// What a depthwise convolution asks for: one row, a few products each, many columns.
TEST(one_row_by_little_of_k) {
  const auto scenario = [] {
    configure_threads(2);
    for (const DataFormat format : {kSen169, kFp32})
      for (const Values values : {Values::Normal, Values::Infinities, Values::AnyCode})
        for (const int64_t k : {1, 9, 31, 32})
          for (const int64_t n : {1, 64, 130, 4200}) check_all_isas(plain(1, n, k, values, format));
  };
  CHECK_EQ(check::run_in_child(scenario), 0);
}

// Loops along which A stays where it is are columns like those of a stick.
TEST(a_first_operand_may_stay_along_outer_loops) {
  const auto scenario = [] {
    configure_threads(2);
    Random random(8);
    for (const DataFormat format : {kSen169, kFp32})
      for (const int64_t m : {1, 6, 40})
        for (const int64_t n : {64, 128, 96, 100})
          for (const bool still : {true, false}) {
            Sizes sizes = {.m = m, .n = n, .k = 70, .batches = {3, 2, 5}, .shared = {false, false, false}};
            sizes.still = {true, false, still};
            sizes.operands = sizes.result = format;
            if (format == kFp32) sizes.lanes = 32;
            check_all_isas(make_contraction(sizes, Values::AnyCode, random));
          }
  };
  CHECK_EQ(check::run_in_child(scenario), 0);
}

// Parts of squares, sticks and cache blocks, in both formats and for every height of a tile.
TEST(the_second_operand_may_run_along_k) {
  const auto scenario = [] {
    configure_threads(2);
    for (const DataFormat format : {kSen169, kFp32}) {
      for (const int64_t m : {1, 2, 5, 6, 13, 193}) check_all_isas(turned(m, 70, 200, format));
      for (const int64_t n : {1, 7, 8, 63, 64, 65, 130}) check_all_isas(turned(3, n, 64, format));
      for (const int64_t k : {1, 3, 8, 12, 63, 65, 127, 129, 530}) check_all_isas(turned(2, 66, k, format));
    }
    check_all_isas(turned(1, 1100, 128));
  };
  CHECK_EQ(check::run_in_child(scenario), 0);
}

TEST(blocking_does_not_change_a_bit) {
  const auto scenario = [] {
    configure_threads(2);
    Random random(4);
    for (int i = 0; i < 60; ++i) {
      Contraction problem = make_contraction(random_sizes(random), Values::Normal, random);
      const std::vector<std::byte> expected = Definition(problem).result();
      const contract::Plan plan = contract::plan(problem.step, whole(problem.step));
      const int64_t columns = 64 * random.between(1, 5), rows = random.between(1, plan.m);
      const contract::Blocking blocking = {random.chance(0.5),
                                           rows,
                                           columns,
                                           random.between(1, plan.k),
                                           random.between(1, rows),
                                           64 * random.between(1, columns / 64)};
      contract::run(plan, problem.memory[0].data(), problem.memory[1].data(), problem.memory[2].data(), isas().back(),
                    blocking);
      check_memory(problem, expected, "random blocking");
    }
  };
  CHECK_EQ(check::run_in_child(scenario), 0);
}

TEST(a_step_gives_the_same_core_by_core_and_at_once) {
  const auto scenario = [] {
    configure_threads(2);
    Random random(5);
    for (int i = 0; i < 60; ++i) {
      Sizes sizes = random_sizes(random);
      sizes.k_split = 1;  // slices of k can't be run alone
      Contraction problem = make_contraction(sizes, Values::Normal, random);
      const std::vector<std::byte> expected = Definition(problem).result(), before = problem.memory[2];
      run_contract(problem.step, problem.arguments(), all_cores(problem.step));
      check_memory(problem, expected, "all cores");
      problem.memory[2] = before;
      for (int core = core_count(problem.step); core-- > 0;) run_contract(problem.step, problem.arguments(), {core, 1});
      check_memory(problem, expected, "core by core");
    }
  };
  CHECK_EQ(check::run_in_child(scenario), 0);
}

// In the streaming loop, in panels and in the rows of A; one infinity or NaN among ordinary numbers must reach
// exactly its outputs.
TEST(a_single_infinity_is_seen_wherever_it_stands) {
  configure_threads(1);
  for (const int64_t m : {1, 4, 9}) {
    for (const int operand : {0, 1}) {
      for (const uint16_t code : {0x7FFF, 0xFFFF, 0x8000, 0x0000, 0x0001, 0x8001, 0x01FF, 0x7FFE, 0xFFFE}) {
        for (Contraction problem : {plain(m, 100, 150), turned(m, 100, 150)}) {
          const int64_t at = Definition(problem).offset(operand, {m / 2}, 77, 149);
          std::memcpy(&problem.memory[operand][static_cast<size_t>(at) * 2], &code, 2);
          check_all_isas(problem);
        }
      }
    }
  }
}

TEST(infinity_times_zero_is_stored_as_nan_and_overflow_keeps_its_sign) {
  configure_threads(1);
  Contraction problem = plain(1, 64, 2);
  const auto set = [&](int operand, int64_t n, int64_t k, float value) {
    write_element(problem.memory[operand], kSen169, Definition(problem).offset(operand, {0}, n, k), value);
  };
  set(0, 0, 0, -INFINITY), set(0, 0, 1, 8e9f);
  set(1, 0, 0, 0.0f), set(1, 0, 1, 1.0f);       // -inf * 0
  set(1, 1, 0, 1.0f), set(1, 1, 1, 1.0f);       // -inf + 8e9
  set(1, 2, 0, -1.0f), set(1, 2, 1, INFINITY);  // inf + inf
  set(1, 3, 0, 1.0f), set(1, 3, 1, INFINITY);   // -inf + inf
  for (const Isa isa : isas()) {
    contract::run(contract::plan(problem.step, whole(problem.step)), problem.memory[0].data(), problem.memory[1].data(),
                  problem.memory[2].data(), isa);
    uint16_t codes[4];
    std::memcpy(codes, problem.memory[2].data(), sizeof codes);
    CHECK_EQ(codes[0], kSen169NaN);
    CHECK_EQ(codes[1], 0xFFFF);
    CHECK_EQ(codes[2], kSen169Infinity);
    CHECK_EQ(codes[3], kSen169NaN);
  }
}

// The smallest fp32 products are subnormal: neither flushed nor rounded twice.
TEST(subnormal_sums_are_kept) {
  configure_threads(1);
  Random random(6);
  for (const int64_t m : {1, 3}) {
    Contraction problem = plain(m, 40, 50, Values::Normal, kFp32);
    for (int operand = 0; operand < 2; ++operand)
      for (size_t at = 0; at < problem.memory[operand].size(); at += 4)
        write_element(problem.memory[operand], kFp32, static_cast<int64_t>(at / 4),
                      std::ldexp(random.normal(), static_cast<int>(random.between(-76, -62))));
    check_all_isas(problem);
  }
}

TEST(sums_are_close_to_double_arithmetic) {
  configure_threads(1);
  Contraction problem = plain(9, 100, 1500);
  const Definition definition(problem);
  contract::run(contract::plan(problem.step, whole(problem.step)), problem.memory[0].data(), problem.memory[1].data(),
                problem.memory[2].data(), isas().back());
  std::vector<int64_t> index(1, 0);
  do {
    for (int64_t n = 0; n < 100; ++n) {
      double exact = 0, magnitude = 0;
      for (int64_t k = 0; k < 1500; ++k) {
        const double product = static_cast<double>(definition.a(index, k)) * definition.b(index, n, k);
        exact += product, magnitude += std::fabs(product);
      }
      const float found = read_element(problem.memory[2], kSen169, definition.offset(2, index, n, 0));
      CHECK(std::fabs(found - exact) <= std::ldexp(std::fabs(exact), -10) + 1500 * std::ldexp(magnitude, -24));
    }
  } while (definition.advance(index));
}

TEST(an_empty_k_gives_positive_zero) {
  configure_threads(1);
  for (const int64_t m : {1, 5}) check_all_isas(plain(m, 70, 0));
}

TEST(what_the_kernels_cannot_do_is_refused_by_name) {
  configure_threads(1);
  Contraction mixed = plain(2, 64, 64);
  mixed.step.inputs[1].element = {DType::Float32, kFp32};
  CHECK_THROWS_SAYING(InvalidArgument, "convert one of them", contract::plan(mixed.step, whole(mixed.step)));
  Contraction bytes = plain(2, 64, 64);
  bytes.step.inputs[0].element = bytes.step.inputs[1].element = {DType::Int8, DataFormat::SENINT8};
  CHECK_THROWS_SAYING(InvalidArgument, "SENINT8", contract::plan(bytes.step, whole(bytes.step)));
  Contraction half = plain(2, 64, 64);
  half.step.lane.lanes = 32;
  CHECK_THROWS_SAYING(InvalidArgument, "no whole sticks", contract::plan(half.step, whole(half.step)));
}
