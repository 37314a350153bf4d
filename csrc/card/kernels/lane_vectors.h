// Vectors of lanes, as wide as the instruction set has them, for the kernels where instructions are counted. Like
// lane_math.h only for sources that are compiled once per instruction set.
#pragma once

#include "kernels/lane_math.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace openspyre {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr int kVectorLanes = kVectorBytes / 4;

using Floats [[gnu::vector_size(kVectorBytes)]] = float;
using Ints [[gnu::vector_size(kVectorBytes)]] = int32_t;
using Words [[gnu::vector_size(kVectorBytes)]] = uint32_t;
using Codes [[gnu::vector_size(kVectorBytes)]] = uint16_t;
using SignedCodes [[gnu::vector_size(kVectorBytes)]] = int16_t;

template <typename Vector>
LANE Vector load_vector(const void* source) {
  Vector vector;
  __builtin_memcpy(&vector, source, sizeof vector);
  return vector;
}
template <typename Vector>
LANE void store_vector(void* target, Vector vector) {
  __builtin_memcpy(target, &vector, sizeof vector);
}

LANE Floats all_lanes(float value) { return value - Floats{}; }

LANE Floats fma(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  Floats result;
  for (int i = 0; i < kVectorLanes; ++i) result[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return result;
#endif
}
LANE Floats fma(Floats a, float b, Floats c) { return fma(a, all_lanes(b), c); }
LANE Floats fma(Floats a, Floats b, float c) { return fma(a, b, all_lanes(c)); }
LANE Floats fma(Floats a, float b, float c) { return fma(a, all_lanes(b), all_lanes(c)); }

// a < b ? a : b and a > b ? a : b; with a NaN, b. One instruction, which the compiler does not find.
LANE Floats lesser_or_second(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_min_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}
LANE Floats greater_or_second(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

// Polynomials by Horner's rule, lowest coefficient first.
LANE Floats polynomial(Floats, float c0) { return all_lanes(c0); }
template <typename... Rest>
LANE Floats polynomial(Floats x, float c0, Rest... rest) {
  return fma(polynomial(x, rest...), x, c0);
}

// --- SEN169 (N1, N2) ---

// NaN if either is NaN; which NaN is no property of the program.
LANE Floats or_nan_of(Floats result, Floats x) { return (Floats)((Ints)result | (Ints)(x != x)); }

// This factor takes the first float32 that rounds to infinity over the top of fp32, and not the one before it.
constexpr float kOverTheTop = 0x1.00a064p+95f;

// What a store to SEN169 and a load give: ties away from zero, flushed to zero, infinity beyond; a NaN stays one.
LANE Floats rounded_to_sen169(Floats x) {
  const Floats rounded = (Floats)(((Words)x + 0x2000u) & ~0x3FFFu);  // a NaN may wrap: it is one by what is added below
  const Ints kept = ((Ints)x & INT32_MAX) > (96 << 23 | 0x1FFF);
  const Floats raised = x * kOverTheTop;
#if defined(__AVX2__)
  const Floats value = fma(raised, 0x1p-125f, rounded);  // rounded again, or infinity, or NaN
#else
  const Floats value = raised * 0x1p-125f + rounded;
#endif
  return (Floats)((Ints)value & (kept | INT32_MIN));
}

// The same for what only an exponential reads: 1 and 0 or infinity are what it gives of all that is flushed or beyond.
// Half a step is added as a number, so that a NaN stays one.
LANE Floats rounded_for_exp(Floats x) {
  const auto power = (Floats)((Ints)x & static_cast<int32_t>(0xFF800000));
#if defined(__AVX2__)
  const Floats raised = fma(power, 0x1p-10f, x);
#else
  const Floats raised = power * 0x1p-10f + x;
#endif
  return (Floats)((Words)raised & ~0x3FFFu);
}

// The same for 0 <= x <= 1, and for NaN.
LANE Floats fraction_to_sen169(Floats x) {
  const Ints rounded = (Ints)(((Words)x + 0x2000u) & ~0x3FFFu);
  return or_nan_of((Floats)(rounded & (rounded > (96 << 23))), x);
}

// Codes widen in pairs of vectors: all of it is 16-bit arithmetic on twice as many lanes, then halves are interleaved.
struct FloatsPair {
  Floats first, second;
};
constexpr int kPairLanes = 2 * kVectorLanes;

#if defined(__AVX512F__)
LANE Codes spread(Codes codes) {  // so that interleaving within parts of 128 bits keeps the order
  return (Codes)_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), (__m512i)codes);
}
LANE FloatsPair interleaved(Codes low, Codes high) {
  return {(Floats)_mm512_unpacklo_epi16((__m512i)low, (__m512i)high),
          (Floats)_mm512_unpackhi_epi16((__m512i)low, (__m512i)high)};
}
#elif defined(__AVX2__)
LANE Codes spread(Codes codes) { return (Codes)_mm256_permute4x64_epi64((__m256i)codes, 0xD8); }
LANE FloatsPair interleaved(Codes low, Codes high) {
  return {(Floats)_mm256_unpacklo_epi16((__m256i)low, (__m256i)high),
          (Floats)_mm256_unpackhi_epi16((__m256i)low, (__m256i)high)};
}
#else
LANE Codes spread(Codes codes) { return codes; }
LANE FloatsPair interleaved(Codes low, Codes high) {
  constexpr Codes kFirst = {0, 8, 1, 9, 2, 10, 3, 11};
  return {(Floats)__builtin_shuffle(low, high, kFirst), (Floats)__builtin_shuffle(low, high, kFirst + 4)};
}
#endif

// Infinities and NaN move up to fp32's highest exponent; one more makes the low bits of infinity zero, not those of
// NaN.
LANE FloatsPair load_sen169(const uint16_t* source) {
  const Codes codes = spread(load_vector<Codes>(source));
  const auto magnitude = (SignedCodes)(codes & 0x7FFF);
  const auto special = (Codes)(magnitude > 0x7FFD);
  const auto shifted = (Codes)((SignedCodes)codes >> 2) & 0x9FFF;
  const Codes raised = ((Codes)(magnitude > 0) & (96 << 7)) + (special & (0x7F80 - 0x1FFF - (96 << 7)));
  return interleaved((codes - special) << 14, shifted + raised);
}

#if defined(__AVX512F__)
LANE Codes saturated(Ints first, Ints second) {  // to 0 .. 0x7FFE, parts of 128 bits side by side
  const __m512i codes = _mm512_packus_epi32((__m512i)first, (__m512i)second);
  return (Codes)_mm512_min_epu16(codes, _mm512_set1_epi16(0x7FFE));
}
LANE Codes narrowed(Ints first, Ints second) { return (Codes)_mm512_packs_epi32((__m512i)first, (__m512i)second); }
LANE Codes gathered(Codes codes) {
  return (Codes)_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), (__m512i)codes);
}
#elif defined(__AVX2__)
LANE Codes saturated(Ints first, Ints second) {
  const __m256i codes = _mm256_packus_epi32((__m256i)first, (__m256i)second);
  return (Codes)_mm256_min_epu16(codes, _mm256_set1_epi16(0x7FFE));
}
LANE Codes narrowed(Ints first, Ints second) { return (Codes)_mm256_packs_epi32((__m256i)first, (__m256i)second); }
LANE Codes gathered(Codes codes) { return spread(codes); }
#endif

// Rounded once as above. Below the range the code saturates at 0, above it at 0x7FFE; infinity is one more, a NaN is
// not and has no sign.
LANE void store_sen169(FloatsPair values, uint16_t* target) {
#if defined(__AVX2__)
  constexpr int32_t kShift = 0x2000 - (96 << 23), kInfinite = 0x7F800000;
  const auto first = (Ints)values.first, second = (Ints)values.second;
  const Ints first_size = first & INT32_MAX, second_size = second & INT32_MAX;
  const Codes codes = saturated((first_size + kShift) >> 14, (second_size + kShift) >> 14);
  const auto beyond = (Codes)((SignedCodes)codes > 0x7FFD);
  const Codes nan = narrowed((Ints)(first_size > kInfinite), (Ints)(second_size > kInfinite));
  const Codes signs = narrowed(first, second) & ~nan & 0x8000;  // what saturates keeps its sign
  store_vector(target, gathered((codes - beyond + nan) | signs));
#else
  for (int i = 0; i < kVectorLanes; ++i) target[i] = static_cast<uint16_t>(lane_to_sen169(as_bits(values.first[i])));
  for (int i = 0; i < kVectorLanes; ++i)
    target[kVectorLanes + i] = static_cast<uint16_t>(lane_to_sen169(as_bits(values.second[i])));
#endif
}

// The same for 0 <= x <= 1, and for NaN.
LANE void store_fraction(FloatsPair values, uint16_t* target) {
#if defined(__AVX2__)
  constexpr int32_t kShift = 0x2000 - (96 << 23);
  const Ints first = ((Ints)values.first & INT32_MAX) + kShift, second = ((Ints)values.second & INT32_MAX) + kShift;
  store_vector(target, gathered(saturated(first >> 14, second >> 14)));
#else
  store_sen169(values, target);
#endif
}

}  // namespace
}  // namespace openspyre
