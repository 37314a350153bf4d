// The hot conversions as loops over integers that the compiler vectorises, once for the baseline and once for
// x86-64-v3. Each gives the bits of exact_conversion; a test compares the two over every pattern.
#include <bit>
#include <cstddef>
#include <cstdint>

#include "convert.h"

namespace openspyre::convert {
namespace {

#define INLINE [[gnu::always_inline]] inline

INLINE uint16_t sign16(uint16_t code) { return code & 0x8000; }
INLINE uint16_t magnitude16(uint16_t code) { return code & 0x7FFF; }

// --- kernels without special cases: one element at a time ---
struct Bf16ToSen169 {
  using Source = uint16_t;
  using Target = uint16_t;
  INLINE static uint16_t apply(uint16_t code) {
    const uint16_t magnitude = magnitude16(code);
    const uint16_t low = 96 << 7, high = 160 << 7;
    const uint16_t scaled = static_cast<uint16_t>((magnitude - low) << 2);
    const uint16_t bounded = magnitude >= high ? uint16_t{0x7FFF} : scaled;
    return sign16(code) | (magnitude < low ? uint16_t{0} : bounded);
  }
};

struct Sen169ToBf16 {
  using Source = uint16_t;
  using Target = uint16_t;
  INLINE static uint16_t apply(uint16_t code) {
    const uint16_t magnitude = magnitude16(code);
    const uint16_t to_even = (magnitude >> 2) & 1;
    const uint16_t rounded = static_cast<uint16_t>(((magnitude + 1 + to_even) >> 2) + (96 << 7));
    const uint16_t bounded = magnitude == 0x7FFF ? uint16_t{0x7FC0} : rounded;
    return sign16(code) | (magnitude == 0 ? uint16_t{0} : bounded);
  }
};

struct Fp32ToSen169 {
  using Source = uint32_t;
  using Target = uint16_t;
  INLINE static uint16_t apply(uint32_t bits) { return sen169_from_float(std::bit_cast<float>(bits)); }
};

struct Sen169ToFp32 {  // as the host sees it
  using Source = uint16_t;
  using Target = uint32_t;
  INLINE static uint32_t apply(uint16_t code) {
    const uint32_t magnitude = magnitude16(code);
    const uint32_t finite = (magnitude << 14) + (96u << 23);
    const uint32_t bounded = magnitude == 0x7FFF ? 0x7FC00000u : finite;
    return (static_cast<uint32_t>(code & 0x8000u) << 16) | (magnitude == 0 ? 0u : bounded);
  }
};

struct Bool8ToSen169 {
  using Source = uint8_t;
  using Target = uint16_t;
  INLINE static uint16_t apply(uint8_t value) { return value != 0 ? 0x3E00 : 0; }
};

struct BoolSen169To8 {
  using Source = uint16_t;
  using Target = uint8_t;
  INLINE static uint8_t apply(uint16_t code) { return magnitude16(code) != 0; }
};

struct Int32To64 {
  using Source = int32_t;
  using Target = int64_t;
  INLINE static int64_t apply(int32_t value) { return value; }
};

struct UInt8To32 {
  using Source = uint8_t;
  using Target = uint32_t;
  INLINE static uint32_t apply(uint8_t value) { return value; }
};

struct UInt8From32 {
  using Source = uint32_t;
  using Target = uint8_t;
  INLINE static uint8_t apply(uint32_t value) { return static_cast<uint8_t>(value); }
};

template <typename Kernel>
INLINE size_t each(const void* source, void* target, size_t n) {
  const auto* from = static_cast<const typename Kernel::Source*>(source);
  auto* to = static_cast<typename Kernel::Target*>(target);
  for (size_t i = 0; i < n; ++i) to[i] = Kernel::apply(from[i]);
  return n;
}

// --- kernels with a rare case: a block that contains one takes the slower, complete loop ---
struct Fp16ToSen169 {
  INLINE static bool rare(uint16_t code) { return static_cast<uint16_t>(magnitude16(code) - 1) < 0x3FF; }  // subnormal
  INLINE static uint16_t usual(uint16_t code) {
    const uint16_t magnitude = magnitude16(code);
    const uint16_t scaled = static_cast<uint16_t>(((magnitude + 1) >> 1) + (16 << 9));
    const uint16_t bounded = magnitude >= 0x7C00 ? uint16_t{0x7FFF} : scaled;
    return sign16(code) | (magnitude == 0 ? uint16_t{0} : bounded);
  }
  // A subnormal has at most ten significant bits: shift the leading one to bit 9, and nothing is left to round.
  INLINE static uint16_t complete(uint16_t code) {
    uint16_t shifted = magnitude16(code), exponent = 15;  // one less: the leading one adds itself
    const auto normalise = [&](uint16_t bound, int steps) __attribute__((always_inline)) {
      const bool small = shifted < bound;
      shifted = small ? static_cast<uint16_t>(shifted << steps) : shifted;
      exponent = small ? static_cast<uint16_t>(exponent - steps) : exponent;
    };
    normalise(1 << 2, 8);
    normalise(1 << 6, 4);
    normalise(1 << 8, 2);
    normalise(1 << 9, 1);
    const uint16_t subnormal = sign16(code) | static_cast<uint16_t>((exponent << 9) + shifted);
    return rare(code) ? subnormal : usual(code);
  }
};

struct Sen169ToFp16 {
  INLINE static bool rare(uint16_t code) {
    return static_cast<uint16_t>(magnitude16(code) - 1) < 0x21FF;
  }  // below 2^-14
  INLINE static uint16_t usual(uint16_t code) {
    const uint16_t magnitude = magnitude16(code);
    const uint16_t scaled = static_cast<uint16_t>((magnitude - (16 << 9)) << 1);
    const uint16_t bounded = magnitude >= 0x5E00 ? uint16_t{0x7C00} : scaled;
    const uint16_t nan_too = magnitude == 0x7FFF ? uint16_t{0x7E00} : bounded;
    return sign16(code) | (magnitude == 0 ? uint16_t{0} : nan_too);
  }
  // One half has an ulp of 2^-24, fp16's subnormal step: the addition rounds to nearest even.
  INLINE static uint16_t complete(uint16_t code) {
    const uint32_t magnitude = magnitude16(code);
    const float value = std::bit_cast<float>((magnitude << 14) + (96u << 23));
    const uint32_t sum = std::bit_cast<uint32_t>(value + 0.5f) - std::bit_cast<uint32_t>(0.5f);
    return rare(code) ? static_cast<uint16_t>(sign16(code) | sum) : usual(code);
  }
};

template <typename Kernel>
INLINE size_t blocks(const void* source, void* target, size_t n) {
  constexpr size_t kBlock = 64;
  const auto* from = static_cast<const uint16_t*>(source);
  auto* to = static_cast<uint16_t*>(target);
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    uint16_t any = 0;
    for (size_t j = 0; j < kBlock; ++j) any |= Kernel::rare(from[i + j]) ? 0xFFFF : 0;
    if (any == 0) {
      for (size_t j = 0; j < kBlock; ++j) to[i + j] = Kernel::usual(from[i + j]);
    } else {
      for (size_t j = 0; j < kBlock; ++j) to[i + j] = Kernel::complete(from[i + j]);
    }
  }
  for (; i < n; ++i) to[i] = Kernel::complete(from[i]);
  return n;
}

// An int64 lives as int32: whole blocks are checked before they are written.
INLINE size_t narrow(const void* source, void* target, size_t n) {
  constexpr size_t kBlock = 64;
  const auto* from = static_cast<const int64_t*>(source);
  auto* to = static_cast<int32_t*>(target);
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    uint64_t beyond = 0;
    for (size_t j = 0; j < kBlock; ++j) beyond |= (static_cast<uint64_t>(from[i + j]) + 0x80000000u) >> 32;
    if (beyond != 0) break;
    for (size_t j = 0; j < kBlock; ++j) to[i + j] = static_cast<int32_t>(from[i + j]);
  }
  for (; i < n; ++i) {
    if (from[i] != static_cast<int32_t>(from[i])) return i;
    to[i] = static_cast<int32_t>(from[i]);
  }
  return n;
}

// --- one copy per instruction set ---
#if defined(__x86_64__)
#define WIDE [[gnu::target("arch=x86-64-v3")]]
#else
#define WIDE
#endif

#define CONVERSION(name, body)                                                                           \
  size_t name##_baseline(const void* source, void* target, size_t n) { return body(source, target, n); } \
  WIDE size_t name##_wide(const void* source, void* target, size_t n) { return body(source, target, n); }

CONVERSION(bf16_to_sen169, each<Bf16ToSen169>)
CONVERSION(sen169_to_bf16, each<Sen169ToBf16>)
CONVERSION(fp32_to_sen169, each<Fp32ToSen169>)
CONVERSION(sen169_to_fp32, each<Sen169ToFp32>)
CONVERSION(bool8_to_sen169, each<Bool8ToSen169>)
CONVERSION(bool_sen169_to_8, each<BoolSen169To8>)
CONVERSION(int32_to_64, each<Int32To64>)
CONVERSION(uint8_to_32, each<UInt8To32>)
CONVERSION(uint8_from_32, each<UInt8From32>)
CONVERSION(fp16_to_sen169, blocks<Fp16ToSen169>)
CONVERSION(sen169_to_fp16, blocks<Sen169ToFp16>)
CONVERSION(int64_to_32, narrow)

struct HotPair {
  Codec source, target;
  Convert baseline, wide;
};

#define HOT_PAIR(source, target, name) {Codec::source, Codec::target, name##_baseline, name##_wide}
constexpr HotPair kHotPairs[] = {
    HOT_PAIR(Fp16, Sen169, fp16_to_sen169),       HOT_PAIR(Sen169Seen, Fp16, sen169_to_fp16),
    HOT_PAIR(Bf16, Sen169, bf16_to_sen169),       HOT_PAIR(Sen169Seen, Bf16, sen169_to_bf16),
    HOT_PAIR(Fp32, Sen169, fp32_to_sen169),       HOT_PAIR(Sen169Seen, Fp32, sen169_to_fp32),
    HOT_PAIR(Bool8, BoolSen169, bool8_to_sen169), HOT_PAIR(BoolSen169, Bool8, bool_sen169_to_8),
    HOT_PAIR(Int64As64, Int64As32, int64_to_32),  HOT_PAIR(Int64As32, Int64As64, int32_to_64),
    HOT_PAIR(UInt8As8, UInt8As32, uint8_to_32),   HOT_PAIR(UInt8As32, UInt8As8, uint8_from_32),
};

}  // namespace

bool wide_vectors() {
#if defined(__x86_64__)
  static const bool answer = __builtin_cpu_supports("x86-64-v3") != 0;
  return answer;
#else
  return false;
#endif
}

Convert vector_conversion(Codec source, Codec target, Vectors vectors) {
  for (const HotPair& pair : kHotPairs) {
    if (pair.source == source && pair.target == target) return vectors == Vectors::Wide ? pair.wide : pair.baseline;
  }
  return nullptr;
}

}  // namespace openspyre::convert
