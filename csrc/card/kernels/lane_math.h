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
constexpr uint32_t kSen169Nan = 0x7FFE;

// Polynomials by Horner's rule, lowest coefficient first.
template <typename Real>
LANE Real polynomial(Real, Real c0) {
  return c0;
}
template <typename Real, typename... Rest>
LANE Real polynomial(Real x, Real c0, Rest... rest) {
  return fma(polynomial(x, static_cast<Real>(rest)...), x, c0);
}

LANE uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }
LANE uint32_t larger(uint32_t a, uint32_t b) { return a < b ? b : a; }

// Rounded once, ties away from zero; beyond the range infinity by sign, a NaN loses its sign (N1, N2). Below the range
// the clamp gives code 0, above it 0x7FFE, which is NaN's: infinity is one more.
LANE uint32_t lane_to_sen169(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const uint32_t clamped = smaller(larger(magnitude + 0x2000u, 96u << 23), (159u << 23) | (510u << 14));
  const uint32_t code = (clamped >> 14) - (96u << 9);
  const uint32_t number = (code + (code > 0x7FFDu ? 1u : 0u)) | ((bits >> 16) & 0x8000u);
  return magnitude > 0x7F800000u ? kSen169Nan : number;
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
