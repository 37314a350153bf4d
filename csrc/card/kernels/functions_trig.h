// sin, cos and tan on one lane (N7), with the reduction of any fp32 argument to a quarter turn.
#pragma once

#include "kernels/functions_exp.h"
#include "kernels/lane_math.h"

namespace openspyre {
namespace {

constexpr float kTurnLimit = 0x1.8p16f;  // up to here three products with parts of pi / 2 are exact enough

struct Turn {
  float rest;        // |rest| <= pi / 4
  int32_t quadrant;  // x = quadrant * pi / 2 + rest, modulo 4
};

LANE Turn small_turn(float x) {
  const float shifted = fma(x, 0x1.45f306p-1f, kRounder), n = shifted - kRounder;
  const float rest = fma(n, -0x1.921fb6p+0f, x);
  return {fma(n, 0x1.ee59dap-50f, fma(n, 0x1.777a5cp-25f, rest)), rounded_integer(shifted)};
}

// 2 / pi = 0.b1 b2 ..., 32 bits a word.
constexpr uint32_t kTwoOverPi[] = {0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0,
                                   0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561};

struct LargeTurn {
  double rest;
  int32_t quadrant;
};

// Payne and Hanek's way: of x * 2/pi only the bits below 4 are computed, from the 96 bits of 2/pi that reach there.
inline LargeTurn large_turn(float x) {
  const uint32_t bits = as_bits(x) & 0x7FFFFFFFu;
  const int scale_bits = static_cast<int>(bits >> 23) - 150;  // |x| = mantissa * 2^scale_bits
  const uint64_t mantissa = (bits & 0x7FFFFFu) | 0x800000u;
  const int skipped = scale_bits > 2 ? scale_bits - 2 : 0;
  const auto word = [&](int i) -> uint64_t {
    const int at = skipped / 32 + i, shift = skipped % 32;
    const uint64_t pair = (uint64_t{kTwoOverPi[at]} << 32) | (at < 7 ? kTwoOverPi[at + 1] : 0u);
    return (pair << shift) >> 32;
  };
  using Wide = unsigned __int128;
  const Wide window = (static_cast<Wide>(word(0)) << 64) | (word(1) << 32) | word(2);
  Wide product = window * mantissa;
  if (scale_bits < 2) product >>= 2 - scale_bits;
  const Wide turns = product & ((static_cast<Wide>(1) << 96) - 1);  // in units of 2^-94
  const auto quadrant = static_cast<int32_t>((turns + (static_cast<Wide>(1) << 93)) >> 94);
  const auto rest = static_cast<int64_t>(static_cast<__int128>(turns - (static_cast<Wide>(quadrant) << 94)) >> 32);
  const double angle = static_cast<double>(rest) * 0x1p-62 * 0x1.921fb54442d18p+0;
  return (as_bits(x) >> 31) != 0 ? LargeTurn{-angle, -quadrant} : LargeTurn{angle, quadrant};
}

LANE float sine_of_rest(float r, float z) {
  return fma(r * z, polynomial(z, -0x1.555556p-3f, 0x1.111174p-7f, -0x1.a05946p-13f, 0x1.7c253cp-19f), r);
}
LANE float cosine_of_rest(float z) {
  const float p = polynomial(z, 0x1.555556p-5f, -0x1.6c175ep-10f, 0x1.a071b6p-16f, -0x1.36147ap-22f);
  return fma(z * z, p, fma(-0.5f, z, 1.0f));
}

LANE float sine_of_turn(float r, int32_t quadrant) {
  const float z = r * r;
  const float value = (quadrant & 1) != 0 ? cosine_of_rest(z) : sine_of_rest(r, z);
  return as_float(as_bits(value) ^ (static_cast<uint32_t>(quadrant & 2) << 30));
}

struct SinLane {
  LANE static bool is_slow(float x, float) { return !(magnitude(x) < kTurnLimit); }
  LANE static float fast(float x, float) {
    const Turn turn = small_turn(x);
    return magnitude(x) < 0x1p-13f ? x : sine_of_turn(turn.rest, turn.quadrant);
  }
  inline static float slow(float x, float) {
    if (!(magnitude(x) < kInfinity)) return kNan;
    const LargeTurn turn = large_turn(x);
    return sine_of_turn(static_cast<float>(turn.rest), turn.quadrant);
  }
};

struct CosLane {
  LANE static bool is_slow(float x, float) { return !(magnitude(x) < kTurnLimit); }
  LANE static float fast(float x, float) {
    const Turn turn = small_turn(x);
    return sine_of_turn(turn.rest, turn.quadrant + 1);
  }
  inline static float slow(float x, float) {
    if (!(magnitude(x) < kInfinity)) return kNan;
    const LargeTurn turn = large_turn(x);
    return sine_of_turn(static_cast<float>(turn.rest), turn.quadrant + 1);
  }
};

LANE float tangent_of_turn(double r, int32_t quadrant) {
  const double z = r * r;
  const double s = r * polynomial(z, 0.99999999999999567, -0.16666666666616686, 0.0083333333238772168,
                                  -0.00019841263297477329, 2.7555271633522951e-06, -2.4756536042356262e-08);
  const double c = polynomial(z, 0.99999999999994449, -0.4999999999935123, 0.041666666543912344, -0.0013888880393192987,
                              2.4798928529519961e-05, -2.7173407568281488e-07);
  const bool odd = (quadrant & 1) != 0;
  return static_cast<float>((odd ? -c : s) / (odd ? s : c));
}

struct TanLane {
  LANE static bool is_slow(float x, float) { return !(magnitude(x) < kTurnLimit); }
  LANE static float fast(float x, float) {
    const float shifted = fma(x, 0x1.45f306p-1f, kRounder);
    const double n = static_cast<double>(shifted - kRounder);
    const double r = fma(n, -0x1.1a62633145c07p-54, fma(n, -0x1.921fb54442d18p+0, static_cast<double>(x)));
    return magnitude(x) < 0x1p-13f ? x : tangent_of_turn(r, rounded_integer(shifted));
  }
  inline static float slow(float x, float) {
    if (!(magnitude(x) < kInfinity)) return kNan;
    const LargeTurn turn = large_turn(x);
    return tangent_of_turn(turn.rest, turn.quadrant);
  }
};

}  // namespace
}  // namespace openspyre
