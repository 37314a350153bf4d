// Functions that work in double inside, because fp32 would cost them their second ulp: log2, log10, pow, the hyperbolic
// and the inverse ones.
#pragma once

#include "kernels/functions_log.h"
#include "kernels/lane_math.h"

namespace openspyre {
namespace {

// log2 of a positive number, to about 2^-50.
LANE double wide_log2(float x) {
  const LogParts parts = log_parts(x);
  const double m = static_cast<double>(parts.mantissa), s = (m - 1.0) / (m + 1.0);
  const double p = polynomial(s * s, 2.8853900817779272, 0.96179669392431655, 0.57707801725359975, 0.41219840097683536,
                              0.32061645945461043, 0.26144206211642773, 0.24294122943377011);
  return fma(s, p, static_cast<double>(parts.exponent));
}

// 2^y for |y| < 1000, to about 2^-40.
LANE double wide_exp2(double y) {
  constexpr double kWideRounder = 0x1.8p52;
  const double shifted = y + kWideRounder, r = y - (shifted - kWideRounder);
  const double p = polynomial(r, 0.99999999999976186, 0.69314718054649294, 0.24022650698884546, 0.055504109394285094,
                              0.0096181285422947665, 0.0013333451977726842, 0.00015403851934304823,
                              1.5309760182054246e-05, 1.3175856902264865e-06);
  return as_double(__builtin_bit_cast(uint64_t, p) + (__builtin_bit_cast(uint64_t, shifted) << 52));
}

constexpr double kWideLog2E = 0x1.71547652b82fep+0;

LANE float log2_lane(float x) { return log_specials(x, 0.0f, static_cast<float>(wide_log2(x))); }
LANE float log10_lane(float x) { return log_specials(x, 0.0f, static_cast<float>(wide_log2(x) * 0.30102999566398120)); }

LANE float sinh_lane(float x) {
  const double a = static_cast<double>(at_most(magnitude(x), 90.0f)), z = a * a;
  const double small = a * polynomial(z, 0.99999999999992029, 0.16666666667240274, 0.0083333332664701099,
                                      0.00019841298338364678, 2.7551832427468809e-06, 2.553830222630176e-08);
  const double e = wide_exp2(a * kWideLog2E);
  const double large = 0.5 * (e - 1.0 / e);
  return with_sign(static_cast<float>(a < 1.0 ? small : large), x);
}

LANE float cosh_lane(float x) {
  const double e = wide_exp2(static_cast<double>(at_most(magnitude(x), 90.0f)) * kWideLog2E);
  return static_cast<float>(0.5 * (e + 1.0 / e));
}

// The angle of (x, y) for x, y >= 0, by one division: the ratio is taken relative to 0 or to 1, whichever is nearer.
LANE double wide_angle(double y, double x) {
  const bool steep = y > x;
  const double short_side = steep ? x : y, long_side = steep ? y : x;
  const bool diagonal = short_side > long_side * 0.41421356237309503;
  const double over = diagonal ? short_side - long_side : short_side;
  const double under = diagonal ? short_side + long_side : (long_side == 0.0 ? 1.0 : long_side);
  const double t = over / under;
  const double p =
      t * polynomial(t * t, 0.99999999999929456, -0.33333333279742317, 0.1999999331463686, -0.14285395626530825,
                     0.11103607135274739, -0.089938303349000423, 0.069795857152501611, -0.037744408000549907);
  const double angle = diagonal ? p + 0x1.921fb54442d18p-1 : p;
  return steep ? 0x1.921fb54442d18p+0 - angle : angle;
}

LANE float atan_lane(float x) {
  const float a = magnitude(x);
  const float angle = static_cast<float>(wide_angle(static_cast<double>(a), 1.0));
  return is_nan(x) ? x : with_sign(a == kInfinity ? 0x1.921fb6p+0f : angle, x);
}

LANE float atan2_lane(float y, float x) {
  const bool far = magnitude(y) == kInfinity || magnitude(x) == kInfinity;  // only which sides are infinite matters
  const float up = far ? (magnitude(y) == kInfinity ? 1.0f : 0.0f) : magnitude(y);
  const float right = far ? (magnitude(x) == kInfinity ? 1.0f : 0.0f) : magnitude(x);
  const double angle = wide_angle(static_cast<double>(up), static_cast<double>(right));
  const bool left = (as_bits(x) >> 31) != 0;
  const float turned = static_cast<float>(left ? 0x1.921fb54442d18p+1 - angle : angle);
  return is_nan(x) || is_nan(y) ? kNan : with_sign(turned, y);
}

LANE float asin_lane(float x) {
  const double a = static_cast<double>(magnitude(x));
  const float angle = static_cast<float>(wide_angle(a, __builtin_sqrt(1.0 - a * a)));
  return magnitude(x) <= 1.0f ? with_sign(angle, x) : kNan;
}

LANE float acos_lane(float x) {
  const double a = static_cast<double>(magnitude(x));
  const double angle = wide_angle(__builtin_sqrt(1.0 - a * a), a);
  const float turned = static_cast<float>(x < 0.0f ? 0x1.921fb54442d18p+1 - angle : angle);
  return magnitude(x) <= 1.0f ? turned : kNan;
}

// Whether a number is an integer, and an odd one. Conditions are joined by & and |: branches would not vectorise.
LANE bool is_integer(float y) { return (magnitude(y) >= 0x1p23f) | (__builtin_truncf(y) == y); }
LANE bool is_odd(float y) {
  const float half = y * 0.5f;
  return (magnitude(y) < 0x1p24f) & is_integer(y) & (__builtin_truncf(half) != half);
}

LANE float pow_lane(float x, float y) {
  const float a = magnitude(x);
  const double exponent = static_cast<double>(y) * wide_log2(a);
  const double inside = exponent > 200.0 ? 200.0 : (exponent < -200.0 ? -200.0 : exponent);
  const float finite = static_cast<float>(wide_exp2(inside));
  const bool grows = (a > 1.0f) == (y > 0.0f);  // for the limits at a = 0, a = inf, y = inf
  const bool limit = (a == 0.0f) | (a == kInfinity) | (magnitude(y) == kInfinity);
  const float value = limit ? (grows ? kInfinity : 0.0f) : finite;
  const float result = (as_int(as_bits(x)) < 0) & is_odd(y) ? -value : value;
  const bool undefined = is_nan(x) | is_nan(y) | ((x < 0.0f) & (a != kInfinity) & !is_integer(y));
  const bool one = (y == 0.0f) | (x == 1.0f) | ((x == -1.0f) & (magnitude(y) == kInfinity));
  return one ? 1.0f : (undefined ? kNan : result);
}

// fmod, exact. The fast way holds while the quotient times the divisor fits a double.
struct FmodLane {
  LANE static bool is_slow(float x, float y) {
    return !(magnitude(x) < magnitude(y) * 0x1p28f) || magnitude(y) == kInfinity;
  }
  LANE static float fast(float x, float y) {
    const double a = static_cast<double>(magnitude(x)), b = static_cast<double>(magnitude(y));
    const double q = __builtin_trunc(a / b);
    const double rest = fma(-q, b, a);
    return with_sign(static_cast<float>(rest + (rest < 0.0 ? b : 0.0)), x);
  }
  inline static float slow(float x, float y) {
    const float a = magnitude(x), b = magnitude(y);
    if (is_nan(x) || is_nan(y) || a == kInfinity || b == 0.0f) return kNan;
    if (a < b) return x;
    const uint32_t a_bits = as_bits(a), b_bits = as_bits(b);
    const auto mantissa = [](uint32_t bits) { return bits < 0x800000u ? bits : (bits & 0x7FFFFFu) | 0x800000u; };
    const auto exponent = [](uint32_t bits) { return bits < 0x800000u ? 1 : static_cast<int>(bits >> 23); };
    const uint64_t divisor = mantissa(b_bits);
    uint64_t rest = mantissa(a_bits) % divisor;
    for (int left = exponent(a_bits) - exponent(b_bits); left > 0; left -= 32)
      rest = (rest << (left < 32 ? left : 32)) % divisor;
    const int places = exponent(b_bits) - 150;
    const double scaled = static_cast<double>(rest) * as_double(static_cast<uint64_t>(places + 1023) << 52);
    return with_sign(static_cast<float>(scaled), x);
  }
};

}  // namespace
}  // namespace openspyre
