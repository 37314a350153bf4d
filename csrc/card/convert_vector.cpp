// The hot conversions as loops over integers that the compiler vectorises, once for the baseline and once for
// x86-64-v3. Each gives the bits of exact_conversion; a test compares the two over every pattern.
#include <bit>
#include <cstddef>
#include <cstdint>

#include "convert.h"

namespace openspyre::convert {
namespace {

#define INLINE [[gnu::always_inline]] inline

constexpr size_t kBlock = 64;

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

// --- kernels on vectors ---
// `W` is the vector's width in bytes. Magnitudes have no sign bit, so that signed comparisons (the only ones every
// instruction set has) order them; a true comparison is a lane of ones. GCC 12 takes == and != of the widest vectors
// apart.
template <size_t W>
struct Of16 {
  using U = Vector<uint16_t, W / 2>;
  using S = Vector<int16_t, W / 2>;
  INLINE static S magnitude(U code) { return (S)(code & 0x7FFF); }
  // `bits` where `inside`, NINF's magnitude where `beyond`, and the sign on top.
  INLINE static U finish(U code, S bits, S beyond, S inside) {
    return ((U)((bits | beyond) & inside) & 0x7FFF) | (code & 0x8000);
  }
};

template <size_t W>
struct Of32 {
  using U = Vector<uint32_t, W / 4>;
  using S = Vector<int32_t, W / 4>;
  using F = Vector<float, W / 4>;
  using Half = Vector<uint16_t, W / 4>;  // as many lanes of 16 bits
};

struct Bf16ToSen169 {
  using Source = uint16_t;
  using Target = uint16_t;
  template <size_t W>
  INLINE static void block(const uint16_t* from, uint16_t* to) {
    using V = Of16<W>;
    for (size_t i = 0; i < kBlock; i += W / 2) {
      const auto code = load<typename V::U>(from + i);
      const typename V::S magnitude = V::magnitude(code), scaled = (magnitude - (96 << 7)) << 2;
      store(to + i, V::finish(code, scaled, magnitude >= (160 << 7), magnitude >= (96 << 7)));
    }
  }
};

struct Sen169ToBf16 {
  using Source = uint16_t;
  using Target = uint16_t;
  template <size_t W>
  INLINE static void block(const uint16_t* from, uint16_t* to) {
    using V = Of16<W>;
    for (size_t i = 0; i < kBlock; i += W / 2) {
      const auto code = load<typename V::U>(from + i);
      const typename V::S magnitude = V::magnitude(code);
      const typename V::U to_even = ((typename V::U)magnitude >> 2) & 1;
      const auto rounded = (typename V::S)((((typename V::U)magnitude + 1 + to_even) >> 2) + (96 << 7));
      const typename V::S nan = (magnitude > 0x7FFE) & 0x7FC0;
      const typename V::S finite = rounded & (magnitude > 0) & (magnitude < 0x7FFF);
      store(to + i, (typename V::U)(finite | nan) | (code & 0x8000));
    }
  }
};

struct Fp32ToSen169 {
  using Source = uint32_t;
  using Target = uint16_t;
  template <size_t W>
  INLINE static void block(const uint32_t* from, uint16_t* to) {
    using V = Of32<W>;
    for (size_t i = 0; i < kBlock; i += W / 4) {
      const auto bits = load<typename V::U>(from + i);
      const typename V::U magnitude = bits & 0x7FFFFFFF;
      const auto scaled = (typename V::S)((magnitude + 0x2000) >> 14) - (96 << 9);  // ties away from zero
      const typename V::S beyond =
          (typename V::S)magnitude > static_cast<int32_t>((159u << 23) | (510u << 14) | 0x1FFFu);
      const auto code = (typename V::U)((scaled | beyond) & (scaled >= 0)) & 0x7FFF;
      store(to + i, __builtin_convertvector(code | ((bits >> 16) & 0x8000), typename V::Half));
    }
  }
};

struct Sen169ToFp32 {  // as the host sees it
  using Source = uint16_t;
  using Target = uint32_t;
  template <size_t W>
  INLINE static void block(const uint16_t* from, uint32_t* to) {
    using V = Of32<W>;
    for (size_t i = 0; i < kBlock; i += W / 4) {
      const auto code = __builtin_convertvector(load<typename V::Half>(from + i), typename V::U);
      const typename V::U magnitude = code & 0x7FFF;
      const auto finite = (magnitude << 14) + (96u << 23);
      const auto nonzero = finite & (typename V::U)((typename V::S)magnitude > 0);
      const auto nan = (typename V::U)((typename V::S)magnitude > 0x7FFE);
      store(to + i, ((code & 0x8000) << 16) | (nonzero & ~nan) | (nan & 0x7FC00000));
    }
  }
};

// A block of normal numbers and zeros, as most are, takes the short way.
struct Fp16ToSen169 {
  template <size_t W>
  INLINE static typename Of16<W>::U usual(typename Of16<W>::U code) {
    using V = Of16<W>;
    const typename V::U magnitude = code & 0x7FFF;
    const typename V::U scaled = (magnitude + (1 + (32 << 9))) >> 1;  // ties away from zero
    return (scaled & (typename V::U)((typename V::S)magnitude > 0)) | (magnitude ^ code);
  }
  template <size_t W>
  INLINE static typename Of16<W>::S rare(typename Of16<W>::U code) {
    using V = Of16<W>;
    const typename V::U magnitude = code & 0x7FFF;
    const auto above = (typename V::S)(magnitude + (0x8000 - 0x400));  // wraps: subnormals come out on top
    return (above >= 0x7800 - 0x8000) & ((typename V::S)magnitude > 0);
  }
  // A subnormal has at most ten significant bits: the leading one moves to bit 9, and nothing is left to round.
  template <size_t W>
  INLINE static typename Of16<W>::U special(typename Of16<W>::U code) {
    using V = Of16<W>;
    typename V::S shifted = V::magnitude(code);
    const typename V::S infinite = shifted >= 0x7C00;
    typename V::S exponent = shifted & 0;
    const auto normalise = [&](int16_t bound, int16_t steps) __attribute__((always_inline)) {
      const typename V::S small = shifted < bound;
      shifted = (small & (shifted << steps)) | (~small & shifted);
      exponent -= small & steps;
    };
    normalise(1 << 2, 8);
    normalise(1 << 6, 4);
    normalise(1 << 8, 2);
    normalise(1 << 9, 1);
    return V::finish(code, (typename V::S)(((typename V::U)(exponent + 15) << 9) + (typename V::U)shifted), infinite,
                     ~(infinite & 0));  // the leading one makes it 16
  }
};

// Below 2^-14 the fp16 result is subnormal and must be rounded; from 2^16 on it is infinite.
struct Sen169ToFp16 {
  template <size_t W>
  INLINE static typename Of16<W>::U usual(typename Of16<W>::U code) {
    using V = Of16<W>;
    const typename V::U magnitude = code & 0x7FFF;
    const typename V::U scaled = (magnitude << 1) - (32 << 9);
    return (scaled & (typename V::U)((typename V::S)magnitude > 0)) | (magnitude ^ code);
  }
  template <size_t W>
  INLINE static typename Of16<W>::S rare(typename Of16<W>::U code) {
    using V = Of16<W>;
    const typename V::U magnitude = code & 0x7FFF;
    const auto above = (typename V::S)(magnitude + (0x8000 - 0x2200));
    return (above >= 0x3C00 - 0x8000) & ((typename V::S)magnitude > 0);
  }
  // One half has an ulp of 2^-24, fp16's subnormal step: the addition rounds to nearest even.
  template <size_t W>
  INLINE static typename Of16<W>::U special(typename Of16<W>::U code) {
    using V = Of32<2 * W>;
    const typename Of16<W>::S small_magnitude = Of16<W>::magnitude(code);
    const auto infinite = (typename Of16<W>::U)(small_magnitude >= 0x5E00),
               nan = (typename Of16<W>::U)(small_magnitude > 0x7FFE);
    const auto magnitude = __builtin_convertvector(code & 0x7FFF, typename V::U);
    const auto value = (typename V::F)((magnitude << 14) + (96u << 23));
    const auto rounded = (typename V::U)(value + 0.5f) - std::bit_cast<uint32_t>(0.5f);
    const auto finite = __builtin_convertvector(rounded, typename Of16<W>::U) & ~infinite;
    return finite | (infinite & 0x7C00) | (nan & 0x0200) | (code & 0x8000);
  }
};

template <typename Kernel>
struct WithRareCase {
  using Source = uint16_t;
  using Target = uint16_t;
  template <size_t W>
  INLINE static void block(const uint16_t* from, uint16_t* to) {
    using V = Of16<W>;
    typename V::S any{};
    for (size_t i = 0; i < kBlock; i += W / 2) {
      const auto code = load<typename V::U>(from + i);
      any |= Kernel::template rare<W>(code);
      store(to + i, Kernel::template usual<W>(code));
    }
    uint64_t words[W / 8];
    store(words, any);
    uint64_t found = 0;
    for (uint64_t word : words) found |= word;
    if (found == 0) [[likely]]
      return;
    for (size_t i = 0; i < kBlock; i += W / 2) {
      const auto code = load<typename V::U>(from + i);
      const auto rare = (typename V::U)Kernel::template rare<W>(code);
      store(to + i, (rare & Kernel::template special<W>(code)) | (~rare & Kernel::template usual<W>(code)));
    }
  }
};

template <typename Kernel, size_t W>
INLINE size_t blocks(const void* source, void* target, size_t n) {
  const auto* from = static_cast<const typename Kernel::Source*>(source);
  auto* to = static_cast<typename Kernel::Target*>(target);
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) Kernel::template block<W>(from + i, to + i);
  if (i == n) return n;
  typename Kernel::Source last[kBlock] = {};
  typename Kernel::Target converted[kBlock];
  __builtin_memcpy(last, from + i, (n - i) * sizeof(*from));
  Kernel::template block<W>(last, converted);
  __builtin_memcpy(to + i, converted, (n - i) * sizeof(*to));
  return n;
}

// --- kernels the compiler vectorises by itself ---
struct Bool8ToSen169 {
  using Source = uint8_t;
  using Target = uint16_t;
  INLINE static uint16_t apply(uint8_t value) { return value != 0 ? 0x3E00 : 0; }
};

struct BoolSen169To8 {
  using Source = uint16_t;
  using Target = uint8_t;
  INLINE static uint8_t apply(uint16_t code) { return (code & 0x7FFF) != 0; }
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

template <typename Kernel, size_t>
INLINE size_t each(const void* source, void* target, size_t n) {
  const auto* from = static_cast<const typename Kernel::Source*>(source);
  auto* to = static_cast<typename Kernel::Target*>(target);
  for (size_t i = 0; i < n; ++i) to[i] = Kernel::apply(from[i]);
  return n;
}

// An int64 lives as int32: whole blocks are checked before they are written.
template <typename, size_t>
INLINE size_t narrow(const void* source, void* target, size_t n) {
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

#define CONVERSION(name, body, kernel)                                                                               \
  size_t name##_baseline(const void* source, void* target, size_t n) { return body<kernel, 16>(source, target, n); } \
  WIDE size_t name##_wide(const void* source, void* target, size_t n) { return body<kernel, 32>(source, target, n); }

CONVERSION(bf16_to_sen169, blocks, Bf16ToSen169)
CONVERSION(sen169_to_bf16, blocks, Sen169ToBf16)
CONVERSION(fp32_to_sen169, blocks, Fp32ToSen169)
CONVERSION(sen169_to_fp32, blocks, Sen169ToFp32)
CONVERSION(fp16_to_sen169, blocks, WithRareCase<Fp16ToSen169>)
CONVERSION(sen169_to_fp16, blocks, WithRareCase<Sen169ToFp16>)
CONVERSION(bool8_to_sen169, each, Bool8ToSen169)
CONVERSION(bool_sen169_to_8, each, BoolSen169To8)
CONVERSION(int32_to_64, each, Int32To64)
CONVERSION(uint8_to_32, each, UInt8To32)
CONVERSION(uint8_from_32, each, UInt8From32)
CONVERSION(int64_to_32, narrow, int64_t)

struct HotPair {
  Codec source, target;
  Convert loops[2];
};

#define HOT_PAIR(source, target, name)                             \
  {                                                                \
    Codec::source, Codec::target, { name##_baseline, name##_wide } \
  }
constexpr HotPair kHotPairs[] = {
    HOT_PAIR(Fp16, Sen169, fp16_to_sen169),       HOT_PAIR(Sen169Seen, Fp16, sen169_to_fp16),
    HOT_PAIR(Bf16, Sen169, bf16_to_sen169),       HOT_PAIR(Sen169Seen, Bf16, sen169_to_bf16),
    HOT_PAIR(Fp32, Sen169, fp32_to_sen169),       HOT_PAIR(Sen169Seen, Fp32, sen169_to_fp32),
    HOT_PAIR(Bool8, BoolSen169, bool8_to_sen169), HOT_PAIR(BoolSen169, Bool8, bool_sen169_to_8),
    HOT_PAIR(Int64As64, Int64As32, int64_to_32),  HOT_PAIR(Int64As32, Int64As64, int32_to_64),
    HOT_PAIR(UInt8As8, UInt8As32, uint8_to_32),   HOT_PAIR(UInt8As32, UInt8As8, uint8_from_32),
};

}  // namespace

Vectors best_vectors() {
#if defined(__x86_64__)
  static const Vectors best = __builtin_cpu_supports("x86-64-v3") ? Vectors::Wide : Vectors::Baseline;
  return best;
#else
  return Vectors::Baseline;
#endif
}

Convert vector_conversion(Codec source, Codec target, Vectors vectors) {
  for (const HotPair& pair : kHotPairs) {
    if (pair.source == source && pair.target == target) return pair.loops[static_cast<int>(vectors)];
  }
  return nullptr;
}

}  // namespace openspyre::convert
