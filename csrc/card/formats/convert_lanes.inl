// The hot conversions, a line of the target at a time, as arithmetic on integer lanes. Compiled once per instruction
// set; no names of the standard library, whose inline functions the linker would share between the sets.
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define INLINE [[gnu::always_inline]] inline

namespace openspyre::convert {
namespace {

#if defined(__AVX512BW__)
constexpr size_t kWidth = 64;  // of a register, in bytes
#elif defined(__AVX2__)
constexpr size_t kWidth = 32;
#else
constexpr size_t kWidth = 16;
#endif
constexpr size_t kLine = 64;  // of the cache

template <typename Element, size_t lanes>
using Vector [[gnu::vector_size(lanes * sizeof(Element))]] = Element;

template <typename V, typename Element>
INLINE V load(const Element* from) {
  V lanes;
  __builtin_memcpy(&lanes, from, sizeof(V));
  return lanes;
}

template <typename V, typename Element>
INLINE void store(Element* to, V lanes) {
  __builtin_memcpy(to, &lanes, sizeof(V));
}

// Magnitudes have no sign bit, so that signed comparisons (the only ones every instruction set has) order them; a true
// comparison is a lane of ones. GCC 12 takes == and != of the widest vectors apart.
using U16 = Vector<uint16_t, kWidth / 2>;
using S16 = Vector<int16_t, kWidth / 2>;
using U32 = Vector<uint32_t, kWidth / 4>;
using S32 = Vector<int32_t, kWidth / 4>;
using HalfU16 = Vector<uint16_t, kWidth / 4>;  // as many lanes as U32

INLINE bool some(S16 lanes) {
#if defined(__AVX512BW__)
  return _mm512_test_epi64_mask((__m512i)lanes, (__m512i)lanes) != 0;
#elif defined(__AVX2__)
  return _mm256_testz_si256((__m256i)lanes, (__m256i)lanes) == 0;
#else
  const auto words = (Vector<uint64_t, 2>)lanes;
  return (words[0] | words[1]) != 0;
#endif
}

// `bits` where `inside`, infinity's magnitude where `beyond`, one less where `nan`, and the sign on top.
INLINE U16 finish_sen169(U16 code, S16 bits, S16 beyond, S16 inside, S16 nan) {
  return ((U16)(((bits | beyond) & inside) + nan) & 0x7FFF) | (code & 0x8000);
}

template <typename Element>
struct Same {
  using Source = Element;
  using Target = Element;
  INLINE static void line(const Element* from, Element* to) { __builtin_memcpy(to, from, kLine); }
};

struct Bf16ToSen169 {
  INLINE static U16 lanes(U16 code) {
    const S16 magnitude = (S16)(code & 0x7FFF), scaled = (magnitude - (96 << 7)) << 2;
    return finish_sen169(code, scaled, magnitude >= (160 << 7), magnitude >= (96 << 7), magnitude > (255 << 7));
  }
};

struct Sen169ToBf16 {
  INLINE static U16 lanes(U16 code) {
    const U16 magnitude = code & 0x7FFF, to_even = (magnitude >> 2) & 1;
    const auto rounded = (S16)(((magnitude + 1 + to_even) >> 2) + (96 << 7));
    const S16 special = (S16)magnitude > 0x7FFD, finite = rounded & ((S16)magnitude > 0) & ~special;
    const U16 infinite_or_nan = 0x7F40 - (magnitude << 6);  // 0x7F80 for the code of infinity, 0x7FC0 for NaN's
    return (U16)finite | ((U16)special & infinite_or_nan) | (code & 0x8000);
  }
};

template <typename Kernel>
struct Lanes16 {
  using Source = uint16_t;
  using Target = uint16_t;
  INLINE static void line(const uint16_t* from, uint16_t* to) {
    for (size_t i = 0; i < kLine / 2; i += kWidth / 2) store(to + i, Kernel::lanes(load<U16>(from + i)));
  }
};

struct Fp32ToSen169 {
  using Source = uint32_t;
  using Target = uint16_t;
  INLINE static void line(const uint32_t* from, uint16_t* to) {
    for (size_t i = 0; i < kLine / 2; i += kWidth / 4) {
      const auto bits = load<U32>(from + i);
      const U32 magnitude = bits & 0x7FFFFFFF;
      const auto scaled = (S32)((magnitude + 0x2000) >> 14) - (96 << 9);  // ties away from zero
      const S32 beyond = (S32)magnitude > static_cast<int32_t>((159u << 23) | (509u << 14) | 0x1FFFu);
      const S32 nan = (S32)magnitude > 0x7F800000;
      const auto code = (U32)(((scaled | beyond) & (scaled >= 0)) + nan) & 0x7FFF;
      store(to + i, __builtin_convertvector(code | ((bits >> 16) & 0x8000), HalfU16));
    }
  }
};

struct Sen169ToFp32 {
  using Source = uint16_t;
  using Target = uint32_t;
  INLINE static void line(const uint16_t* from, uint32_t* to) {
    for (size_t i = 0; i < kLine / 4; i += kWidth / 4) {
      const auto code = __builtin_convertvector(load<HalfU16>(from + i), U32);
      const U32 magnitude = code & 0x7FFF;
      const U32 nonzero = ((magnitude << 14) + (96u << 23)) & (U32)((S32)magnitude > 0);
      const auto special = (U32)((S32)magnitude > 0x7FFD);
      const U32 infinite_or_nan =
          0x7F400000 - (magnitude << 22);  // 0x7F800000 for the code of infinity, else 0x7FC00000
      store(to + i, ((code & 0x8000) << 16) | (nonzero & ~special) | (special & infinite_or_nan));
    }
  }
};

// Normal numbers and zeros, as most are, take the short way.
struct Fp16ToSen169 {
  INLINE static U16 usual(U16 code) {
    const U16 magnitude = code & 0x7FFF, scaled = (magnitude + (1 + (32 << 9))) >> 1;  // ties away from zero
    return (scaled & (U16)((S16)magnitude > 0)) | (magnitude ^ code);
  }
  INLINE static S16 rare(U16 code) {
    const U16 magnitude = code & 0x7FFF;
    const auto above = (S16)(magnitude + (0x8000 - 0x400));  // wraps: subnormals come out on top
    return (above >= 0x7800 - 0x8000) & ((S16)magnitude > 0);
  }
  // Lanes whose leading one is below bit 10 - steps move up by `steps`.
  template <int16_t steps>
  INLINE static void normalise(S16& shifted, S16& exponent) {
    constexpr int16_t kBound = 1 << (10 - steps);
    const S16 small = shifted < kBound;
    shifted = (small & (shifted << steps)) | (~small & shifted);
    exponent -= small & steps;
  }
  // A subnormal has at most ten significant bits: the leading one moves to bit 9, and nothing is left to round.
  INLINE static U16 special(U16 code) {
    auto shifted = (S16)(code & 0x7FFF);
    const S16 infinite = shifted >= 0x7C00, nan = shifted > 0x7C00;
    S16 exponent = shifted & 0;
    normalise<8>(shifted, exponent);
    normalise<4>(shifted, exponent);
    normalise<2>(shifted, exponent);
    normalise<1>(shifted, exponent);
    const auto bits = (S16)(((U16)(exponent + 15) << 9) + (U16)shifted);  // the leading one makes it 16
    return finish_sen169(code, bits, infinite, ~(infinite & 0), nan);
  }
};

// Below 2^-14 the fp16 result is subnormal and must be rounded; from 2^16 on it is infinite.
struct Sen169ToFp16 {
  INLINE static U16 usual(U16 code) {
    const U16 magnitude = code & 0x7FFF, scaled = (magnitude << 1) - (32 << 9);
    return (scaled & (U16)((S16)magnitude > 0)) | (magnitude ^ code);
  }
  INLINE static S16 rare(U16 code) {
    const U16 magnitude = code & 0x7FFF;
    const auto above = (S16)(magnitude + (0x8000 - 0x2200));
    return (above >= 0x3C00 - 0x8000) & ((S16)magnitude > 0);
  }
  // Where `steps` has this bit; the last bit remembers what is lost.
  template <int16_t bit>
  INLINE static void shift_right(U16& rest, S16 steps) {
    constexpr uint16_t kLost = (1 << bit) - 1;
    const auto taken = (U16)((steps & bit) > 0);
    const U16 shifted = (rest >> bit) | ((U16)((S16)(rest & kLost) > 0) & 1);
    rest = (taken & shifted) | (~taken & rest);
  }
  // The significand, with its leading one, shifted to fp16's subnormal step of 2^-24 and rounded to nearest even.
  INLINE static U16 special(U16 code) {
    const auto magnitude = (S16)(code & 0x7FFF);
    const auto infinite = (U16)(magnitude >= 0x5E00), nan = (U16)((magnitude > 0x7FFD) & (magnitude < 0x7FFF));
    auto rest = (U16)((magnitude & 0x1FF) | 0x200) << 2;  // two bits below, the last of them sticky
    S16 steps = 16 - (magnitude >> 9);                    // to the right
    steps = (steps & (steps < 15)) | (15 & (steps >= 15));
    shift_right<8>(rest, steps);
    shift_right<4>(rest, steps);
    shift_right<2>(rest, steps);
    shift_right<1>(rest, steps);
    const U16 rounded = (rest + 1 + ((rest >> 2) & 1)) >> 2;
    return (rounded & ~infinite) | (infinite & 0x7C00) | (nan & 0x0200) | (code & 0x8000);
  }
};

template <typename Kernel>
struct WithRareCase {
  using Source = uint16_t;
  using Target = uint16_t;
  INLINE static void line(const uint16_t* from, uint16_t* to) {
    S16 any{};
    for (size_t i = 0; i < kLine / 2; i += kWidth / 2) {
      const auto code = load<U16>(from + i);
      any |= Kernel::rare(code);
      store(to + i, Kernel::usual(code));
    }
    if (!some(any)) [[likely]]
      return;
    for (size_t i = 0; i < kLine / 2; i += kWidth / 2) {
      const auto code = load<U16>(from + i);
      const auto rare = (U16)Kernel::rare(code);
      store(to + i, (rare & Kernel::special(code)) | (~rare & Kernel::usual(code)));
    }
  }
};

}  // namespace
}  // namespace openspyre::convert
