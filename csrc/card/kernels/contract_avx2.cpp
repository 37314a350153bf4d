// The contraction's inner loops for AVX2 with FMA.
#if defined(__x86_64__)
#include "kernels/contract_kernels.h"

#pragma GCC target("avx2,fma")
#include <immintrin.h>

#include "kernels/contract_block.h"

namespace openspyre::contract {
namespace {

struct Avx2 {
  using F = __m256;
  using Watch = __m256i;  // the largest magnitude seen, per lane
  static constexpr bool kWatches = true, kTurnsInRegisters = true;
  static constexpr int kLanes = 8, kPanel = 16, kRows = 6, kStreamRows = 5, kWidenRows = 4, kRun = 16;

  CONTRACT_INLINE static F zero() { return _mm256_setzero_ps(); }
  CONTRACT_INLINE static F load(const float* from) { return _mm256_loadu_ps(from); }
  CONTRACT_INLINE static void store(float* to, F lanes) { _mm256_storeu_ps(to, lanes); }
  CONTRACT_INLINE static F broadcast(const float* from) { return _mm256_broadcast_ss(from); }
  CONTRACT_INLINE static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }

  CONTRACT_INLINE static Watch watch() { return _mm256_setzero_si256(); }
  CONTRACT_INLINE static bool clean(Watch watch) {
    return _mm256_testz_si256(_mm256_cmpgt_epi16(watch, _mm256_set1_epi16(0x7FFD)), _mm256_set1_epi8(-1));
  }

  // 16 codes as the upper and lower halves of 16 fp32 patterns. Infinities and NaN come out as finite numbers.
  // The exponent's offset is added to nonzero magnitudes only: vpsignw gives 0 where its second operand is 0.
  struct Halves {
    __m256i upper, lower, magnitude;
  };
  CONTRACT_INLINE static Halves split(__m256i codes) {
    const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7FFF));
    const __m256i bias = _mm256_sign_epi16(_mm256_set1_epi16(0x3000), magnitude);
    const __m256i shifted = _mm256_and_si256(_mm256_srai_epi16(codes, 2), _mm256_set1_epi16(int16_t(0x9FFF)));
    return {_mm256_add_epi16(shifted, bias), _mm256_slli_epi16(codes, 14), magnitude};
  }
  CONTRACT_INLINE static F first_lanes(const Halves& halves) {
    return _mm256_castsi256_ps(_mm256_unpacklo_epi16(halves.lower, halves.upper));
  }
  CONTRACT_INLINE static F second_lanes(const Halves& halves) {
    return _mm256_castsi256_ps(_mm256_unpackhi_epi16(halves.lower, halves.upper));
  }
  // Unpacking works within 128-bit lanes: with the middle quarters exchanged the order comes out right.
  CONTRACT_INLINE static __m256i load_for_unpacking(const uint16_t* from) {
    return _mm256_permute4x64_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), 0xD8);
  }

  CONTRACT_INLINE static void widen_watching(const uint16_t* from, float* to, Watch& watch) {
    const Halves halves = split(load_for_unpacking(from));
    watch = _mm256_max_epi16(watch, halves.magnitude);
    store(to, first_lanes(halves));
    store(to + 8, second_lanes(halves));
  }
  CONTRACT_INLINE static Halves split_exactly(__m256i codes) {
    Halves halves = split(codes);  // infinities and NaN: see load_sen169
    const __m256i special = _mm256_cmpgt_epi16(halves.magnitude, _mm256_set1_epi16(0x7FFD));
    const __m256i raised = _mm256_and_si256(special, _mm256_set1_epi16(0x7F80 - 0x1FFF - 0x3000));
    halves.upper = _mm256_add_epi16(halves.upper, raised);
    halves.lower = _mm256_slli_epi16(_mm256_sub_epi16(codes, special), 14);
    return halves;
  }
  CONTRACT_INLINE static void widen_exactly(const uint16_t* from, float* to) {
    const Halves halves = split_exactly(load_for_unpacking(from));
    store(to, first_lanes(halves));
    store(to + 8, second_lanes(halves));
  }
  CONTRACT_INLINE static void widen_watching(const float* from, float* to, Watch&) { widen_exactly(from, to); }
  CONTRACT_INLINE static void widen_exactly(const float* from, float* to) {
    store(to, load(from));
    store(to + 8, load(from + 8));
  }

  // Panels save the exchange of quarters: their lanes stay in the order unpacking gives.
  template <bool exact>
  CONTRACT_INLINE static void widen_in_registers(const uint16_t* from, F* to, Watch& watch) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const Halves halves = exact ? split_exactly(codes) : split(codes);
    if (!exact) watch = _mm256_max_epi16(watch, halves.magnitude);
    to[0] = first_lanes(halves);
    to[1] = second_lanes(halves);
  }
  template <bool exact>
  CONTRACT_INLINE static void widen_in_registers(const float* from, F* to, Watch&) {
    to[0] = load(from);
    to[1] = load(from + 8);
  }

  // A pair of neighbouring lanes of eight columns per 32 bits: in the order of unpacked lanes, a panel's.
  using Codes = __m256i;
  CONTRACT_INLINE static void load_pairs(const uint16_t* from, int64_t stride, int v, Codes* pairs) {
    const auto load_half = [&](int64_t row) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + row * stride));
    };
    const auto load_rows = [&](int row) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(load_half(4 * v + row)), load_half(4 * v + 8 + row), 1);
    };
    const __m256i a = load_rows(0), b = load_rows(1), c = load_rows(2), d = load_rows(3);
    const __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    pairs[0] = _mm256_unpacklo_epi64(ab, cd), pairs[1] = _mm256_unpackhi_epi64(ab, cd);
    const __m256i upper_ab = _mm256_unpackhi_epi32(a, b), upper_cd = _mm256_unpackhi_epi32(c, d);
    pairs[2] = _mm256_unpacklo_epi64(upper_ab, upper_cd), pairs[3] = _mm256_unpackhi_epi64(upper_ab, upper_cd);
  }
  template <bool exact>
  CONTRACT_INLINE static void widen_pairs(Codes pairs, F* to, Watch& watch) {
    const Halves halves = exact ? split_exactly(pairs) : split(pairs);
    if (!exact) watch = _mm256_max_epi16(watch, halves.magnitude);
    to[0] = _mm256_castsi256_ps(_mm256_blend_epi16(_mm256_slli_epi32(halves.upper, 16), halves.lower, 0x55));
    to[1] = _mm256_castsi256_ps(_mm256_blend_epi16(_mm256_srli_epi32(halves.lower, 16), halves.upper, 0xAA));
  }

  // As sen169_from_float, but a NaN loses its sign. Out of range the clamps give zero and NaN's code; infinity is one
  // more.
  CONTRACT_INLINE static __m256i round(F value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
    __m256i code = _mm256_srli_epi32(_mm256_add_epi32(magnitude, _mm256_set1_epi32(0x2000)), 14);
    code = _mm256_sub_epi32(code, _mm256_set1_epi32(96 << 9));
    code = _mm256_max_epi32(code, _mm256_setzero_si256());
    code = _mm256_min_epi32(code, _mm256_set1_epi32(0x7FFE));
    code = _mm256_sub_epi32(code, _mm256_cmpgt_epi32(code, _mm256_set1_epi32(0x7FFD)));
    const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7F800000));
    code = _mm256_add_epi32(code, nan);
    const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x8000));
    return _mm256_or_si256(code, _mm256_andnot_si256(nan, sign));
  }
  // Packing undoes what unpacking did to the order of lanes.
  template <typename From>
  CONTRACT_INLINE static void round_panel(const float* sums, uint16_t* to) {
    const __m256i packed = _mm256_packus_epi32(round(load(sums)), round(load(sums + 8)));
    const bool ordered = sizeof(From) == sizeof(uint16_t);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), ordered ? packed : _mm256_permute4x64_epi64(packed, 0xD8));
  }
  // Which NaN an operation gives differs between processors: the stored one is always the same.
  template <typename From>
  CONTRACT_INLINE static void round_panel(const float* sums, float* to) {
    const F first = load(sums), second = load(sums + 8);
    const bool ordered = sizeof(From) == sizeof(float);
    store(to, with_one_nan(ordered ? first : _mm256_permute2f128_ps(first, second, 0x20)));
    store(to + 8, with_one_nan(ordered ? second : _mm256_permute2f128_ps(first, second, 0x31)));
  }
  CONTRACT_INLINE static F with_one_nan(F value) {
    return _mm256_blendv_ps(value, _mm256_set1_ps(__builtin_nanf("")), _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  }
};

constexpr Kernels kTable = kernels_of<Avx2>();

}  // namespace

const Kernels& avx2_kernels() { return kTable; }

}  // namespace openspyre::contract
#endif
