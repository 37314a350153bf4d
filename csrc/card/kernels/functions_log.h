// log and log1p on one lane (N7).
#pragma once

#include "kernels/functions_exp.h"
#include "kernels/lane_math.h"

namespace openspyre {
namespace {

constexpr uint32_t kSqrtHalf = 0x3F3504F3u;

struct LogParts {
  float mantissa;    // sqrt(1/2) <= mantissa < sqrt(2)
  int32_t exponent;  // x = mantissa * 2^exponent
};

LANE LogParts log_parts(float x) {
  const bool subnormal = x < 0x1p-126f;
  const uint32_t bits = as_bits(subnormal ? x * 0x1p23f : x) - kSqrtHalf;
  return {as_float((bits & 0x7FFFFFu) + kSqrtHalf), (as_int(bits) >> 23) - (subnormal ? 23 : 0)};
}

// log(1 + f) + n ln 2 for 1 + f between sqrt(1/2) and sqrt(2).
LANE float log_from_parts(float f, float n) {
  const float p = polynomial(f, 0x1.555548p-2f, -0x1.00007p-2f, 0x1.99a54p-3f, -0x1.552f18p-3f, 0x1.23036ep-3f,
                             -0x1.010168p-3f, 0x1.f00b1cp-4f, -0x1.bf3cp-4f, 0x1.b4273ap-5f);
  const float z = f * f;
  const float low = fma(-0.5f, z, fma(f * z, p, n * kLn2Low));
  return fma(n, kLn2High, f + low);
}

// What logarithms have in common outside the positive numbers; `pole` is where they are -infinity.
LANE float log_specials(float x, float pole, float result) {
  const float outside = x == pole ? -kInfinity : kNan;
  return x > pole ? (x == kInfinity ? x : result) : outside;
}

LANE float log_lane(float x) {
  const LogParts parts = log_parts(x);
  return log_specials(x, 0.0f, log_from_parts(parts.mantissa - 1.0f, static_cast<float>(parts.exponent)));
}

// (1 + x) 2^-n - 1 = x 2^-n + (2^-n - 1) costs one rounding only; a large x is its own 1 + x.
LANE float log1p_lane(float x) {
  const LogParts parts = log_parts(1.0f + x);
  const float shrink = power_of_two(parts.exponent > 100 ? 0 : -parts.exponent);
  const float f = x > 0x1p30f ? parts.mantissa - 1.0f : fma(x, shrink, shrink - 1.0f);
  const float result = log_specials(x, -1.0f, log_from_parts(f, static_cast<float>(parts.exponent)));
  return magnitude(x) < 0x1p-25f ? x : result;
}

}  // namespace
}  // namespace openspyre
