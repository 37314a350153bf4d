// The contraction's inner loops for AVX-512 (F, BW, DQ, VL).
#if defined(__x86_64__)
#include "kernels/contract_kernels.h"

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
// GCC 12 warns about its own header: the "undefined" operand of unmasked intrinsics.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include "kernels/contract_block.h"

namespace openspyre::contract {
namespace {

struct Avx512 {
  using F = __m512;
  struct Watch {};  // masks make the exact conversion cheap enough to be the only one
  static constexpr bool kWatches = false, kTurnsInRegisters = true;
  static constexpr int kLanes = 16, kPanel = 32, kRows = 12, kStreamRows = 8, kWidenRows = 8, kRun = 16;

  CONTRACT_INLINE static F zero() { return _mm512_setzero_ps(); }
  CONTRACT_INLINE static F load(const float* from) { return _mm512_loadu_ps(from); }
  CONTRACT_INLINE static void store(float* to, F lanes) { _mm512_storeu_ps(to, lanes); }
  CONTRACT_INLINE static F broadcast(const float* from) { return _mm512_set1_ps(*from); }
  CONTRACT_INLINE static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }

  CONTRACT_INLINE static Watch watch() { return {}; }
  CONTRACT_INLINE static bool clean(Watch) { return true; }

  CONTRACT_INLINE static F widened(const uint16_t* from) {
    return widened(_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  }
  // Sign extension leaves copies of the sign above the magnitude; all but the topmost are cleared.
  CONTRACT_INLINE static F widened(__m512i codes) {
    const __m512i shifted = _mm512_slli_epi32(codes, 14);
    const __m512i magnitude = _mm512_and_si512(shifted, _mm512_set1_epi32(0x1FFFC000));
    const __m512i sign = _mm512_and_si512(shifted, _mm512_set1_epi32(int(0x80000000)));
    const __mmask16 nonzero = _mm512_test_epi32_mask(magnitude, magnitude);
    const __mmask16 special = _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32(0x1FFF8000));
    __m512i bits = _mm512_mask_add_epi32(magnitude, nonzero, magnitude, _mm512_set1_epi32(96 << 23));
    // Infinity's code gives 0x7F800000, NaN's, which is one less, a NaN.
    bits = _mm512_mask_sub_epi32(bits, special, _mm512_set1_epi32(int(0x7F800000u + 0x1FFFC000u)), magnitude);
    return _mm512_castsi512_ps(_mm512_or_si512(bits, sign));
  }
  CONTRACT_INLINE static F widened(const float* from) { return load(from); }

  template <typename Element>
  CONTRACT_INLINE static void widen_exactly(const Element* from, float* to) {
    store(to, widened(from));
  }
  template <typename Element>
  CONTRACT_INLINE static void widen_watching(const Element* from, float* to, Watch&) {
    store(to, widened(from));
  }

  template <bool exact, typename Element>
  CONTRACT_INLINE static void widen_in_registers(const Element* from, F* to, Watch&) {
    *to = widened(from);
  }

  // A pair of neighbouring lanes of sixteen columns per 32 bits.
  using Codes = __m512i;
  CONTRACT_INLINE static void load_pairs(const uint16_t* from, int64_t stride, int v, Codes* pairs) {
    const auto load_quarter = [&](int64_t row) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + row * stride));
    };
    const auto load_rows = [&](int row) {
      const int first = 16 * v + row;
      const __m256i lower =
          _mm256_inserti128_si256(_mm256_castsi128_si256(load_quarter(first)), load_quarter(first + 4), 1);
      const __m256i upper =
          _mm256_inserti128_si256(_mm256_castsi128_si256(load_quarter(first + 8)), load_quarter(first + 12), 1);
      return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
    };
    const __m512i a = load_rows(0), b = load_rows(1), c = load_rows(2), d = load_rows(3);
    const __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    pairs[0] = _mm512_unpacklo_epi64(ab, cd), pairs[1] = _mm512_unpackhi_epi64(ab, cd);
    const __m512i upper_ab = _mm512_unpackhi_epi32(a, b), upper_cd = _mm512_unpackhi_epi32(c, d);
    pairs[2] = _mm512_unpacklo_epi64(upper_ab, upper_cd), pairs[3] = _mm512_unpackhi_epi64(upper_ab, upper_cd);
  }
  template <bool exact>
  CONTRACT_INLINE static void widen_pairs(Codes pairs, F* to, Watch&) {
    to[0] = widened(_mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16));
    to[1] = widened(_mm512_srai_epi32(pairs, 16));
  }

  // As sen169_from_float, but a NaN loses its sign.
  template <typename From>
  CONTRACT_INLINE static void round_panel(const float* sums, uint16_t* to) {
    for (int i = 0; i < kPanel; i += kLanes) {
      const __m512i bits = _mm512_castps_si512(load(sums + i));
      const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF));
      __m512i code = _mm512_srli_epi32(_mm512_add_epi32(magnitude, _mm512_set1_epi32(0x2000)), 14);
      code = _mm512_sub_epi32(code, _mm512_set1_epi32(96 << 9));
      code = _mm512_max_epi32(code, _mm512_setzero_si512());
      const __mmask16 beyond = _mm512_cmpgt_epi32_mask(code, _mm512_set1_epi32(0x7FFD));
      code = _mm512_mask_mov_epi32(code, beyond, _mm512_set1_epi32(0x7FFF));
      const __mmask16 number = _mm512_cmple_epi32_mask(magnitude, _mm512_set1_epi32(0x7F800000));
      const __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x8000));
      code = _mm512_mask_or_epi32(_mm512_set1_epi32(0x7FFE), number, code, sign);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm512_cvtepi32_epi16(code));
    }
  }
  // Which NaN an operation gives differs between processors: the stored one is always the same.
  template <typename From>
  CONTRACT_INLINE static void round_panel(const float* sums, float* to) {
    for (int i = 0; i < kPanel; i += kLanes) {
      const F value = load(sums + i);
      const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
      store(to + i, _mm512_mask_mov_ps(value, nan, _mm512_set1_ps(__builtin_nanf(""))));
    }
  }
};

constexpr Kernels kTable = kernels_of<Avx512>();

}  // namespace

const Kernels& avx512_kernels() { return kTable; }

}  // namespace openspyre::contract
#endif
