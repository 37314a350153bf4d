// exp and its relatives on one lane (N7). The polynomials are minimax fits with coefficients rounded to fp32 in turn.
#pragma once

#include "kernels/lane_math.h"

namespace openspyre {
namespace {

constexpr float kRounder = 0x1.8p23f;  // adding it rounds to an integer and leaves that in the low bits
constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kLn2High = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f;

LANE float power_of_two(int32_t exponent) { return as_float(static_cast<uint32_t>(exponent + 127) << 23); }

// value * 2^exponent with one rounding, for -254 <= exponent <= 254; two factors reach subnormals and infinity. At -253
// and -254 a factor is zero, so that what underflows altogether, a mask's -inf, is spared the processor's slow way
// there.
LANE float scale(float value, int32_t exponent) {
  const int32_t half = exponent >> 1;
  return value * power_of_two(half) * power_of_two(exponent - half);
}

LANE int32_t rounded_integer(float shifted) { return as_int(as_bits(shifted) - as_bits(kRounder)); }

struct ExpParts {
  float rest;        // |rest| <= ln 2 / 2
  int32_t exponent;  // x = exponent * ln 2 + rest
};

LANE ExpParts exp_parts(float x) {
  const float shifted = fma(x, kLog2E, kRounder), n = shifted - kRounder;
  return {fma(n, -kLn2Low, fma(n, -kLn2High, x)), rounded_integer(shifted)};
}

// Limits to both sides, as integers: comparisons of floats become branches or blends, these an instruction each. A NaN
// is limited too; the result gets it back.
LANE float within(float x, float limit) {
  return with_sign(as_float(smaller(as_bits(magnitude(x)), as_bits(limit))), x);
}
LANE float or_nan(float result, float x) { return as_float(as_bits(result) | (is_nan(x) ? 0xFFFFFFFFu : 0u)); }

// A comparison with NaN is false: these let it through.
LANE float at_most(float x, float limit) { return x > limit ? limit : x; }
LANE float at_least(float x, float limit) { return x < limit ? limit : x; }

LANE float exp2_of_rest(float r) {
  const float q = polynomial(r, 0x1.62e43p-1f, 0x1.ebfbep-3f, 0x1.c6b06ep-5f, 0x1.3b2a7ap-7f, 0x1.5da71p-10f,
                             0x1.4366c8p-13f, 0x1.d7f02p-17f);
  return fma(r, q, 1.0f);
}

LANE float exp2_lane(float x) {
  const float inside = within(x, 254.0f);
  const float shifted = inside + kRounder;
  return or_nan(scale(exp2_of_rest(inside - (shifted - kRounder)), rounded_integer(shifted)), x);
}

// 2^n p + 2^n - 1 with p = expm1(rest), at half the scale so that 2^128 is not needed.
LANE float expm1_lane(float x) {
  const ExpParts parts = exp_parts(at_least(at_most(x, 89.0f), -30.0f));
  const float r = parts.rest;
  const float q =
      polynomial(r, 0x1p-1f, 0x1.55552cp-3f, 0x1.555502p-5f, 0x1.1155aap-7f, 0x1.6d2e4cp-10f, 0x1.3b8446p-13f);
  const float p = fma(r * r, q, r);
  const float half = power_of_two(parts.exponent - 1);
  const float scaled = fma(p, half, half - 0.5f) * 2.0f;
  const float result = parts.exponent == 0 ? p : scaled;
  return magnitude(x) < 0x1p-25f ? x : result;
}

}  // namespace
}  // namespace openspyre
