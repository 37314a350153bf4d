// Arithmetic on one lane, for loops the compiler vectorises. Only for sources that are compiled once per instruction
// set: everything is in an unnamed namespace and always inlined, so that no copy is shared between them.
#pragma once

#include <cstdint>

#define LANE [[gnu::always_inline]] inline

namespace openspyre {
namespace {

LANE float as_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
LANE uint32_t as_bits(float value) { return __builtin_bit_cast(uint32_t, value); }
LANE int32_t as_int(uint32_t bits) { return static_cast<int32_t>(bits); }
LANE double as_double(uint64_t bits) { return __builtin_bit_cast(double, bits); }

LANE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
LANE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
LANE float magnitude(float x) { return as_float(as_bits(x) & 0x7FFFFFFFu); }
LANE float with_sign(float value, float sign) {
  return as_float((as_bits(value) & 0x7FFFFFFFu) | (as_bits(sign) & 0x80000000u));
}
LANE bool is_nan(float x) { return x != x; }

constexpr float kInfinity = __builtin_huge_valf();
constexpr float kNan = __builtin_nanf("");

// Polynomials by Horner's rule, lowest coefficient first.
template <typename Real>
LANE Real polynomial(Real, Real c0) {
  return c0;
}
template <typename Real, typename... Rest>
LANE Real polynomial(Real x, Real c0, Rest... rest) {
  return fma(polynomial(x, static_cast<Real>(rest)...), x, c0);
}

// SEN169 as the card computes with it: NINF is an infinity.
LANE uint32_t sen169_to_lane(uint32_t code) {
  const uint32_t magnitude = code & 0x7FFFu;
  const uint32_t normal = (magnitude << 14) + (96u << 23);
  const uint32_t finite = magnitude == 0 ? 0u : normal;
  return ((code & 0x8000u) << 16) | (magnitude == 0x7FFFu ? 0x7F800000u : finite);
}

// Rounded once, ties away from zero; beyond the range NINF by sign, NaN is +NINF (N1, N2).
LANE uint32_t lane_to_sen169(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const int32_t scaled = static_cast<int32_t>((magnitude + 0x2000u) >> 14) - (96 << 9);
  const bool beyond = magnitude > ((159u << 23) | (510u << 14) | 0x1FFFu);
  const uint32_t finite = scaled < 0 ? 0u : static_cast<uint32_t>(scaled);
  const uint32_t sign = magnitude > 0x7F800000u ? 0u : (bits >> 16) & 0x8000u;
  return (beyond ? 0x7FFFu : finite) | sign;
}

// N8: truncate, saturate, NaN gives 0.
LANE int32_t float_to_int(float x) {
  const bool inside = x > -2147483904.0f && x < 2147483648.0f;
  const int32_t truncated = static_cast<int32_t>(inside ? x : 0.0f);
  const int32_t beyond = x > 0.0f ? INT32_MAX : INT32_MIN;
  return inside ? truncated : (is_nan(x) ? 0 : beyond);
}

// Exact: a quotient of two int32 is never closer than 2^-31 to an integer it does not reach.
LANE int32_t truncated_quotient(int32_t a, int32_t b) {
  const double quotient = static_cast<double>(a) / static_cast<double>(b == 0 ? 1 : b);
  const int32_t inside = static_cast<int32_t>(quotient > 2147483647.0 ? -2147483648.0 : quotient);
  return b == 0 ? 0 : inside;
}

LANE int32_t wrapping_product(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

LANE int32_t truncated_remainder(int32_t a, int32_t b) {
  const int32_t rest = static_cast<int32_t>(static_cast<uint32_t>(a) -
                                            static_cast<uint32_t>(wrapping_product(truncated_quotient(a, b), b)));
  return b == 0 ? 0 : rest;
}

LANE int32_t floored_remainder(int32_t a, int32_t b) {
  const int32_t rest = truncated_remainder(a, b);
  return rest != 0 && (rest ^ b) < 0 ? rest + b : rest;
}

LANE int32_t floored_quotient(int32_t a, int32_t b) {
  const int32_t rest = truncated_remainder(a, b);
  return truncated_quotient(a, b) - (rest != 0 && (rest ^ b) < 0 ? 1 : 0);
}

}  // namespace
}  // namespace openspyre
