// exp and its relatives on one lane (N7). The polynomials are minimax fits with coefficients rounded to fp32 in turn.
#pragma once

#include "lane_math.h"

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
LANE float magnitude_within(float x, float limit) { return as_float(smaller(as_bits(magnitude(x)), as_bits(limit))); }
LANE float or_nan(float result, float x) { return as_float(as_bits(result) | (is_nan(x) ? 0xFFFFFFFFu : 0u)); }

// A comparison with NaN is false: these let it through.
LANE float at_most(float x, float limit) { return x > limit ? limit : x; }
LANE float at_least(float x, float limit) { return x < limit ? limit : x; }

// A number and what it lacks.
struct Sum {
  float high, low;
};

LANE Sum exp_of_rest_in_parts(float r) {
  const float q = polynomial(r, 0x1.fffffcp-2f, 0x1.555488p-3f, 0x1.555842p-5f, 0x1.1240dep-7f, 0x1.6ae888p-10f);
  const float sum = 1.0f + r, lost = r - (sum - 1.0f);
  return {sum, fma(r * r, q, lost)};
}

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

// exp(-x^2) / (|x| + 1.5) times a polynomial in (|x| - 1.5) / (|x| + 1.5). What the square, the quotient and the
// products lose to rounding is added at the end; w + 1.08 is how a change of the quotient acts, within 0.15.
LANE float erfc_lane(float x) {
  const float a = magnitude_within(x, 13.25f), under = a + 1.5f;
  const float w = 1.0f / under, w_lost = fma(-w, a - (under - 1.5f), fma(-w, under, 1.0f));
  const float q = polynomial(fma(-3.0f, w, 1.0f), 0x1.edf488p-1f, -0x1.0404eap-1f, 0x1.35bf26p-4f, 0x1.8750cap-5f,
                             -0x1.0a0fd4p-7f, -0x1.35fa24p-7f, -0x1.a763d2p-11f, 0x1.d0aee2p-10f, 0x1.c65e72p-11f,
                             -0x1.202406p-14f, -0x1.dde648p-13f, -0x1.30592ep-14f);
  const float square = a * a, square_lost = fma(a, a, -square);
  const ExpParts parts = exp_parts(-square);
  const Sum e = exp_of_rest_in_parts(parts.rest);
  const float scaled = w * q, scaled_lost = fma(w, q, -scaled);
  const float product = e.high * scaled, product_lost = fma(e.high, scaled, -product);
  const float change = fma(w + 1.08f, w_lost, -square_lost), whole = fma(e.low, scaled, product);
  const float lost = fma(e.low, scaled, fma(whole, change, fma(e.high, scaled_lost, product_lost)));
  const float tail = scale(product + lost, parts.exponent);
  return or_nan(x < 0.0f ? 2.0f - tail : tail, x);
}

}  // namespace
}  // namespace openspyre
