// N7: the card's functions against the host's double and long double libm, and against themselves on every instruction
// set.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "formats/formats.h"
#include "kernels/vector_kernels.h"

using namespace openspyre;

namespace {

struct Function {
  Op op;
  long double (*exact)(long double);
};

long double exact_sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double exact_rsqrt(long double x) { return 1 / std::sqrt(x); }
long double exact_reciprocal(long double x) { return 1 / x; }

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {Op::Exp, std::exp},          {Op::Exp2, std::exp2},    {Op::Expm1, std::expm1},
      {Op::Log, std::log},          {Op::Log2, std::log2},    {Op::Log10, std::log10},
      {Op::Log1p, std::log1p},      {Op::Sin, std::sin},      {Op::Cos, std::cos},
      {Op::Tan, std::tan},          {Op::Tanh, std::tanh},    {Op::Sinh, std::sinh},
      {Op::Cosh, std::cosh},        {Op::Asin, std::asin},    {Op::Acos, std::acos},
      {Op::Atan, std::atan},        {Op::Erf, std::erf},      {Op::Erfc, std::erfc},
      {Op::Sigmoid, exact_sigmoid}, {Op::Rsqrt, exact_rsqrt}, {Op::Reciprocal, exact_reciprocal},
  };
  return all;
}

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (int i = 0; i < kIsaCount; ++i)
    if (available(static_cast<Isa>(i))) found.push_back(static_cast<Isa>(i));
  return found;
}

constexpr size_t kBatch = 512;
using Batch = std::vector<Lane>;

Batch apply(Isa isa, Op op, const Batch& a, const Batch& b = {}) {
  Batch result(a.size());
  const Batch& second = b.empty() ? a : b;
  vector_kernels(isa).map[static_cast<size_t>(op)](result.data(), a.data(), second.data(), second.data(),
                                                   static_cast<int64_t>(a.size()));
  return result;
}

// Distance in units of the last place of fp32 at the exact value.
double ulps(float got, long double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(nearest) || std::isnan(got)) return std::isnan(nearest) && std::isnan(got) ? 0 : 1e9;
  if (std::isinf(nearest) || std::isinf(got)) {
    if (got == nearest) return 0;
    // Next to the overflow threshold the largest number and infinity are one ulp apart.
    return std::fabs(exact) < 3.4028237e38L && std::fabs(exact) > 3.4028233e38L ? 1 : 1e9;
  }
  int exponent = 0;
  std::frexp(nearest, &exponent);
  const long double unit = std::ldexp(1.0L, std::max(exponent - 24, -149));
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / unit);
}

std::string text(float x) {
  char out[64];
  std::snprintf(out, sizeof out, "%a (%.9g)", static_cast<double>(x), static_cast<double>(x));
  return out;
}

void keep_worst(float x, float got, long double exact, double& worst, float& where) {
  const double distance = ulps(got, exact);
  if (distance > worst) {
    worst = distance;
    where = x;
  }
}

constexpr float kSpecials[] = {0.0f,       -0.0f,      1.0f,       -1.0f,           0x1p-149f,
                               -0x1p-149f, 0x1p-126f,  -0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f,
                               0.5f,       -0.5f,      88.72284f,  -87.33655f,      -103.97209f,
                               3.1415927f, 1.5707964f, 1e5f,       1e20f,           -1e30f};

// Every bit pattern in steps of a prime, and the neighbourhoods of the specials.
std::vector<Lane> sweep(uint64_t step) {
  std::vector<Lane> patterns;
  for (uint64_t bits = 0; bits < (1ull << 32); bits += step) patterns.push_back(static_cast<Lane>(bits));
  for (const float special : kSpecials)
    for (int d = -200; d <= 200; ++d) patterns.push_back(std::bit_cast<Lane>(special) + static_cast<Lane>(d));
  for (const float special : {INFINITY, -INFINITY, NAN}) patterns.push_back(std::bit_cast<Lane>(special));
  while (patterns.size() % kBatch != 0) patterns.push_back(0);
  return patterns;
}

Isa fastest() { return isas().back(); }

}  // namespace

TEST(functions_are_within_two_ulps_over_all_of_fp32) {
  const std::vector<Lane> inputs = sweep(4093);
  for (const Function& function : functions()) {
    const Batch results = apply(fastest(), function.op, inputs);
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto x = std::bit_cast<float>(inputs[i]);
      keep_worst(x, std::bit_cast<float>(results[i]), function.exact(x), worst, where);
    }
    const bool fine = worst <= 2.0;
    if (!fine || std::getenv("SHOW"))
      std::printf("%s: %.3f ulp at %s\n", name(function.op), worst, text(where).c_str());
    CHECK(fine);
  }
}

TEST(functions_of_two_operands_are_within_two_ulps) {
  std::mt19937_64 random(7);
  Batch x(1 << 20), y(1 << 20);
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 2 == 0) {
      x[i] = static_cast<Lane>(random());
      y[i] = static_cast<Lane>(random());
    } else {
      std::uniform_real_distribution<float> some(-20, 20);
      x[i] = std::bit_cast<Lane>(some(random));
      y[i] = std::bit_cast<Lane>(i % 4 == 1 ? some(random) : std::round(some(random)));
    }
  }
  const std::vector<float> specials = {0.0f, -0.0f,     1.0f,       -1.0f,           2.0f,        -2.0f,
                                       3.0f, -3.0f,     0.5f,       -0.5f,           INFINITY,    -INFINITY,
                                       NAN,  0x1p-149f, -0x1p-149f, 0x1.fffffep127f, 16777215.0f, 33554432.0f};
  size_t at = 0;
  for (const float a : specials)
    for (const float b : specials) {
      x[at] = std::bit_cast<Lane>(a);
      y[at++] = std::bit_cast<Lane>(b);
    }
  struct Row {
    Op op;
    long double (*exact)(long double, long double);
  };
  for (const Row& row : {Row{Op::Pow, std::pow}, Row{Op::Atan2, std::atan2}, Row{Op::Fmod, std::fmod}}) {
    const Batch results = apply(fastest(), row.op, x, y);
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const long double exact = row.exact(std::bit_cast<float>(x[i]), std::bit_cast<float>(y[i]));
      const auto got = std::bit_cast<float>(results[i]);
      double distance = ulps(got, exact);
      if (distance == 0 && got == 0 && std::signbit(got) != std::signbit(exact)) distance = 1e9;
      if (distance > worst) {
        worst = distance;
        where = i;
      }
    }
    const bool fine = worst <= (row.op == Op::Fmod ? 0.0 : 2.0);
    if (!fine || std::getenv("SHOW"))
      std::printf("%s: %.3f ulp at %s, %s\n", name(row.op), worst, text(std::bit_cast<float>(x[where])).c_str(),
                  text(std::bit_cast<float>(y[where])).c_str());
    CHECK(fine);
  }
}

// The exact value rounded to SEN169, and whether it is so near a tie that one more ulp of fp32 could decide.
TEST(every_sen169_input_gives_the_correctly_rounded_sen169_result) {
  Batch inputs(65536);
  const VectorKernels& kernels = vector_kernels(fastest());
  std::vector<uint16_t> codes(65536), rounded(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  kernels.load[static_cast<size_t>(HotFormat::Sen169)](codes.data(), inputs.data(), 65536);
  for (const Function& function : functions()) {
    const Batch results = apply(fastest(), function.op, inputs);
    kernels.store[static_cast<size_t>(HotFormat::Sen169)](results.data(), rounded.data(), 65536);
    int wrong = 0, ties = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      const long double exact = function.exact(std::bit_cast<float>(inputs[i]));
      if (std::isnan(exact)) {
        wrong += rounded[i] != kSen169NaN;
        continue;
      }
      const auto expected = [&](long double value) { return sen169_from_float(static_cast<float>(value)); };
      if (rounded[i] == expected(exact)) continue;
      const bool hair =
          rounded[i] == expected(exact * (1 + 0x1p-22L)) || rounded[i] == expected(exact * (1 - 0x1p-22L));
      (hair ? ties : wrong)++;
    }
    if (std::getenv("SHOW")) std::printf("%s: %d wrong, %d within a hair\n", name(function.op), wrong, ties);
    CHECK_EQ(wrong, 0);
    CHECK(ties <= 16);
  }
}

TEST(signs_of_zero_and_values_at_the_ends_are_kept) {
  for (const Function& function : functions()) {
    for (const float x : {0.0f, -0.0f, INFINITY, -INFINITY, 1.0f, -1.0f}) {
      const auto got = std::bit_cast<float>(apply(fastest(), function.op, Batch(32, std::bit_cast<Lane>(x)))[0]);
      const auto exact = static_cast<float>(function.exact(x));
      if (std::isnan(exact)) {
        CHECK(std::isnan(got));
      } else if (exact == 0 || std::isinf(exact)) {
        if (std::bit_cast<uint32_t>(got) != std::bit_cast<uint32_t>(exact))
          std::printf("%s(%g) = %g\n", name(function.op), static_cast<double>(x), static_cast<double>(got));
        CHECK_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(exact));
      }
    }
  }
}

TEST(huge_angles_are_reduced_exactly) {
  std::mt19937_64 random(3);
  Batch inputs(1 << 16);
  for (Lane& bits : inputs)
    bits = (static_cast<Lane>(random()) & 0x807FFFFFu) | (143u + static_cast<Lane>(random() % 112)) << 23;
  for (const Function& function : functions()) {
    if (function.op != Op::Sin && function.op != Op::Cos && function.op != Op::Tan) continue;
    const Batch results = apply(fastest(), function.op, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto x = std::bit_cast<float>(inputs[i]);
      CHECK(ulps(std::bit_cast<float>(results[i]), function.exact(x)) <= 2.0);
    }
  }
}

TEST(every_instruction_set_gives_the_same_bits) {
  std::vector<Lane> a = sweep(65521);
  std::mt19937_64 random(1);
  Batch b(a.size()), c(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const uint64_t bits = random();
    b[i] = i % 3 == 0 ? static_cast<Lane>(bits % 70) : static_cast<Lane>(bits);
    c[i] = static_cast<Lane>(bits >> 32);
  }
  for (int op = 0; op < kOpCount; ++op) {
    if (static_cast<Op>(op) == Op::Philox) continue;  // five operands: test_random.cpp
    Batch first;
    for (const Isa isa : isas()) {
      Batch result(a.size());
      vector_kernels(isa).map[static_cast<size_t>(op)](result.data(), a.data(), b.data(), c.data(),
                                                       static_cast<int64_t>(a.size()));
      if (first.empty()) first = result;
      size_t different = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        const bool nans = std::string(signature(static_cast<Op>(op))).back() != 'i' &&
                          std::isnan(std::bit_cast<float>(result[i])) && std::isnan(std::bit_cast<float>(first[i]));
        different += result[i] != first[i] && !nans;
      }
      if (different != 0) std::printf("%s on %s: %zu lanes differ\n", name(static_cast<Op>(op)), name(isa), different);
      CHECK_EQ(different, 0u);
    }
  }
}
