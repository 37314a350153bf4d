// Bit patterns of the floating formats to double and back, one correctly rounded step each (contract N1).
// Integer arithmetic only, so that neither the host's rounding mode nor its flush-to-zero switch matters.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "formats/formats.h"

namespace openspyre::convert {

inline constexpr uint64_t kDoubleSign = 1ull << 63;
inline constexpr int kDoubleFraction = 52;

// Every bit pattern of an IEEE-like format with the given field widths. Bias is the IEEE one unless said.
template <int kExponent, int kFraction, int kBias = (1 << (kExponent - 1)) - 1>
inline double decode_ieee_finite(uint64_t magnitude) {
  const auto exponent = static_cast<int64_t>(magnitude >> kFraction);
  const uint64_t fraction = magnitude & ((1ull << kFraction) - 1);
  const uint64_t significand = exponent == 0 ? fraction : fraction | (1ull << kFraction);
  if (significand == 0) return 0.0;
  const int shift = std::countl_zero(significand) - (63 - kDoubleFraction);
  const int64_t unit = (exponent == 0 ? 1 : exponent) - kBias - kFraction;  // value = significand * 2^unit
  const uint64_t biased = static_cast<uint64_t>(unit + kDoubleFraction - shift + 1023);
  return std::bit_cast<double>((biased << kDoubleFraction) +
                               ((significand << shift) & ((1ull << kDoubleFraction) - 1)));
}

// Magnitude bits of |value| (finite) rounded to nearest even, with subnormals; may run past the largest finite pattern.
template <int kExponent, int kFraction, int kBias = (1 << (kExponent - 1)) - 1>
inline uint64_t encode_ieee_finite(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value) & ~kDoubleSign;
  const auto biased = static_cast<int64_t>(bits >> kDoubleFraction);
  if (biased == 0) return 0;  // subnormal doubles are far below half of every format's smallest value
  const uint64_t significand = (bits & ((1ull << kDoubleFraction) - 1)) | (1ull << kDoubleFraction);
  const int64_t exponent = biased - 1023 + kBias;
  const int64_t drop = kDoubleFraction - kFraction + (exponent < 1 ? 1 - exponent : 0);
  if (drop > kDoubleFraction + 2) return 0;
  const uint64_t kept = significand >> drop;
  const uint64_t rest = significand & ((1ull << drop) - 1);
  const uint64_t half = 1ull << (drop - 1);
  const uint64_t rounded = kept + ((rest > half || (rest == half && (kept & 1))) ? 1 : 0);
  return exponent < 1 ? rounded : rounded + (static_cast<uint64_t>(exponent - 1) << kFraction);
}

inline uint64_t sign_of(double value) { return std::bit_cast<uint64_t>(value) >> 63; }
inline double with_sign(double magnitude, bool negative) { return negative ? -magnitude : magnitude; }
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <int kExponent, int kFraction, typename Bits>
struct Ieee {
  using Storage = Bits;
  static constexpr Bits kSign = static_cast<Bits>(1ull << (kExponent + kFraction));
  static constexpr uint64_t kInfinityBits = ((1ull << kExponent) - 1) << kFraction;
  static constexpr bool zero(Bits code) { return static_cast<Bits>(code & ~kSign) == 0; }
  static double decode(Bits code) {
    const uint64_t magnitude = code & ~kSign & (2ull * kSign - 1);
    const bool negative = (code & kSign) != 0;
    if (magnitude > kInfinityBits) return with_sign(kNaN, negative);
    return with_sign(magnitude == kInfinityBits ? kInfinity : decode_ieee_finite<kExponent, kFraction>(magnitude),
                     negative);
  }
  static Bits encode(double value) {
    const Bits sign = sign_of(value) ? kSign : Bits{0};
    if (std::isnan(value)) return static_cast<Bits>(sign | kInfinityBits | (1ull << (kFraction - 1)));
    if (std::isinf(value)) return static_cast<Bits>(sign | kInfinityBits);
    const uint64_t magnitude = encode_ieee_finite<kExponent, kFraction>(value);
    return static_cast<Bits>(sign | (magnitude > kInfinityBits ? kInfinityBits : magnitude));
  }
};
using Fp32 = Ieee<8, 23, uint32_t>;
using Fp16 = Ieee<5, 10, uint16_t>;
using Bf16 = Ieee<8, 7, uint16_t>;

// e4m3fn as torch casts it: no infinity, too large values (infinities too) become the largest finite one.
struct Fp8E4M3 {
  using Storage = uint8_t;
  static constexpr bool zero(uint8_t code) { return (code & 0x7F) == 0; }
  static double decode(uint8_t code) {
    const uint64_t magnitude = code & 0x7Fu;
    return with_sign(magnitude == 0x7F ? kNaN : decode_ieee_finite<4, 3>(magnitude), code & 0x80);
  }
  static uint8_t encode(double value) {
    const uint64_t sign = sign_of(value) << 7;
    if (std::isnan(value)) return static_cast<uint8_t>(sign | 0x7F);
    const uint64_t magnitude = std::isinf(value) ? 0x7E : encode_ieee_finite<4, 3>(value);
    return static_cast<uint8_t>(sign | (magnitude > 0x7E ? 0x7E : magnitude));
  }
};

// e5m2fnuz as torch casts it: bias 16, one zero, one NaN (0x80), which is also what overflow gives.
struct Fp8E5M2 {
  using Storage = uint8_t;
  static constexpr bool zero(uint8_t code) { return code == 0; }
  static double decode(uint8_t code) {
    return code == 0x80 ? kNaN : with_sign(decode_ieee_finite<5, 2, 16>(code & 0x7Fu), code & 0x80);
  }
  static uint8_t encode(double value) {
    if (std::isnan(value) || std::isinf(value)) return 0x80;
    const uint64_t magnitude = encode_ieee_finite<5, 2, 16>(value);
    if (magnitude > 0x7F) return 0x80;
    return static_cast<uint8_t>(magnitude == 0 ? 0 : magnitude | sign_of(value) << 7);
  }
};

struct Sen169 {
  using Storage = uint16_t;
  static constexpr bool zero(uint16_t code) { return (code & 0x7FFF) == 0; }
  static double decode(uint16_t code) { return static_cast<double>(sen169_to_float(code)); }
  static uint16_t encode(double value) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    const uint64_t magnitude = bits & ~kDoubleSign;
    const uint64_t sign = (bits >> 48) & 0x8000u;
    constexpr int kDropped = kDoubleFraction - 9;
    constexpr uint64_t kLargest = (1055ull << kDoubleFraction) | (509ull << kDropped) | ((1ull << (kDropped - 1)) - 1);
    if (std::isnan(value)) return static_cast<uint16_t>(sign | kSen169NaN);
    if (magnitude > kLargest) return static_cast<uint16_t>(sign | kSen169Infinity);
    const uint64_t rounded = (magnitude + (1ull << (kDropped - 1))) >> kDropped;  // ties away from zero
    constexpr uint64_t kBias = static_cast<uint64_t>(1023 - 31) << 9;
    return static_cast<uint16_t>(rounded < kBias ? sign : sign | (rounded - kBias));
  }
};

// A double that rounds to any format of at most 40 significant bits as the integer itself does: bits that
// do not fit are kept as one sticky bit (round to odd).
inline double roundable(int64_t value) {
  const bool negative = value < 0;
  uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  if (magnitude >> 53) magnitude = (magnitude & ~0x7FFull) | ((magnitude & 0x7FF) ? 0x800 : 0);
  return with_sign(static_cast<double>(magnitude), negative);
}

// Truncates and saturates; NaN becomes 0 (N8).
inline int64_t truncate(double value, int64_t lowest, int64_t highest) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(lowest)) return lowest;
  if (value >= static_cast<double>(highest)) return highest;
  return static_cast<int64_t>(value);
}

}  // namespace openspyre::convert
