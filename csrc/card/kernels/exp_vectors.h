// exp, sigmoid, tanh, erf and erfc on vectors of lanes (N7): the functions that activations and softmax spend their
// time in.
#pragma once

#include "kernels/functions_exp.h"
#include "kernels/lane_vectors.h"

namespace openspyre {
namespace {

// x, or -x, = exponent * ln 2 + rest, with |rest| <= ln 2 / 2. `shifted` has the exponent, plus the bias asked for, in
// its low nine bits; what is above them falls out when they are shifted into an fp32's exponent.
struct ExpVectors {
  Floats rest;
  Words shifted;
};

template <int kSign = 1>
LANE ExpVectors exp_parts(Floats x, float bias) {
  const float rounder = kRounder + bias;
  const Floats shifted = fma(x, kSign * kLog2E, rounder), n = shifted - rounder;
  return {fma(n, -kLn2Low, fma(n, -kLn2High, kSign < 0 ? -x : x)), (Words)shifted};
}

// The polynomial in two halves: a chain half as long keeps the processor busier than one multiplication less.
LANE Floats expm1_of_rest(Floats r) {
  const Floats square = r * r;
  const Floats low = polynomial(r, 0x1.fffffcp-2f, 0x1.555488p-3f),
               high = polynomial(r, 0x1.555842p-5f, 0x1.1240dep-7f);
  const Floats q = fma(fma(square, 0x1.6ae888p-10f, high), square, low);
  return fma(square, q, r);
}
LANE Floats exp_of_rest(Floats r) { return 1.0f + expm1_of_rest(r); }

// value * 2^exponent with one rounding, for -254 <= exponent <= 254 and a bias of 254: two factors reach subnormals and
// infinity. At the lower limit both are zero, so that what underflows altogether, a mask's -inf, is spared the
// processor's slow way there.
constexpr float kScaleBias = 254.0f;
LANE Floats scaled(Floats value, Words shifted) {
  const Words half = shifted >> 1;
  return value * (Floats)(half << 23) * (Floats)((shifted - half) << 23);
}

// A NaN passes both limits.
LANE Floats exp_of(Floats x) {
  const Floats inside = greater_or_second(all_lanes(-176.0f), lesser_or_second(all_lanes(176.0f), x));
  const ExpVectors parts = exp_parts(inside, kScaleBias);
  return scaled(exp_of_rest(parts.rest), parts.shifted);
}

// Powers of two by eighths: 2^(k / 8), less k at the place where an fp32 has eighths of its exponent's unit.
struct EighthPowers {
  alignas(64) uint32_t words[16];
};
constexpr EighthPowers eighth_powers() {
  constexpr float kPowers[] = {0x1p+0f,        0x1.172b84p+0f, 0x1.306fep+0f,  0x1.4bfdaep+0f,
                               0x1.6a09e6p+0f, 0x1.8ace54p+0f, 0x1.ae89fap+0f, 0x1.d5818ep+0f};
  EighthPowers made{};
  for (uint32_t i = 0; i < 16; ++i) made.words[i] = __builtin_bit_cast(uint32_t, kPowers[i % 8]) - (i % 8 << 20);
  return made;
}
constexpr EighthPowers kEighthPowers = eighth_powers();

// words[low bits of each index]
LANE Words eighth_power(Words index) {
#if defined(__AVX512F__)
  return (Words)_mm512_permutexvar_epi32((__m512i)index, (__m512i)load_vector<Words>(kEighthPowers.words));
#elif defined(__AVX2__)
  return (Words)_mm256_permutevar8x32_epi32((__m256i)load_vector<Words>(kEighthPowers.words), (__m256i)index);
#else
  Words found;
  for (int i = 0; i < kVectorLanes; ++i) found[i] = kEighthPowers.words[index[i] % 8];
  return found;
#endif
}

// 2^(x * factor), good for numbers that are rounded to SEN169: eighths of a power leave so little that a cubic serves.
LANE Floats coarse_exp2(Floats x, float factor) {
  constexpr float kEighthRounder = kRounder / 8;
  const Floats shifted = fma(x, factor, kEighthRounder), rest = fma(x, all_lanes(factor), kEighthRounder - shifted);
  const auto power = (Floats)(eighth_power((Words)shifted) + ((Words)shifted << 20));
  return fma(power, polynomial(rest, 0x1.62e43p-1f, 0x1.ebfbep-3f, 0x1.c6b08ep-5f) * rest, power);
}

// For x <= 0 and NaN: exp of x in SEN169's steps, rounded to SEN169. The bits of exp_of with roundings around it, by
// trial of every x.
constexpr float kFlushedByExp = -0x1.57cp+4f;  // goes to -21.5, whose exponential is the first that goes to 0
LANE Floats exp_fraction(Floats x) {
  const Words rounded = ((Words)coarse_exp2(rounded_for_exp(x), kLog2E) + 0x2000u) & ~0x3FFFu;
  return (Floats)(rounded & ~(Words)(x <= kFlushedByExp));
}

// Whether all of it goes to 0, as where a mask has -inf: cheap to know, and much of what a causal mask leaves.
LANE bool is_flushed_by_exp([[maybe_unused]] Floats first, [[maybe_unused]] Floats second) {
#if defined(__AVX512F__)
  const __m512 limit = all_lanes(kFlushedByExp);
  return (_mm512_cmp_ps_mask(first, limit, _CMP_LE_OQ) & _mm512_cmp_ps_mask(second, limit, _CMP_LE_OQ)) == 0xFFFF;
#elif defined(__AVX2__)
  return _mm256_movemask_ps((Floats)((first <= kFlushedByExp) & (second <= kFlushedByExp))) == 0xFF;
#else
  return false;
#endif
}

// 1 / (1 + e) with e = exp(-x) = power * (1 + rest's part): the sum is rounded once, for what 1 + power loses is added
// to the part. All of it is 2^-64 of its value, so that e is finite wherever the result is not zero.
LANE Floats sigmoid_of(Floats x) {
  const Floats inside = greater_or_second(all_lanes(-126.0f), lesser_or_second(all_lanes(40.0f), x));
  const ExpVectors parts = exp_parts<-1>(inside, 127.0f - 64.0f);
  const Floats one = all_lanes(0x1p-64f), power = (Floats)(parts.shifted << 23);
  const Floats sum = one + power, lost = one - (sum - power);
  return one / (sum + fma(power, expm1_of_rest(parts.rest), lost));
}

// For SEN169's numbers: the bits of sigmoid_of, rounded to SEN169, by trial of every one. The factor is a hair larger
// than log2(e), for the sake of one number that is close to a tie.
LANE Floats sigmoid_fraction(Floats x) {
  const Floats inside = greater_or_second(all_lanes(-40.0f), lesser_or_second(all_lanes(40.0f), x));
  return fraction_to_sen169(1.0f / (1.0f + coarse_exp2(inside, -0x1.715478p+0f)));
}

LANE Floats magnitude(Floats x) { return (Floats)((Ints)x & INT32_MAX); }
LANE Floats with_sign(Floats value, Floats sign) {
  return (Floats)(((Ints)value & INT32_MAX) | ((Ints)sign & INT32_MIN));
}
// `small` where the magnitude is below the limit, or NaN.
LANE Floats choose(Floats a, float limit, Floats small, Floats large) {
  const Ints beyond = a > limit;
  return (Floats)(((Ints)small & ~beyond) | ((Ints)large & beyond));
}

LANE Floats tanh_of(Floats x) {
  const Floats a = magnitude(x), z = x * x;
  const Floats p = polynomial(z, -0x1.55553p-2f, 0x1.110684p-3f, -0x1.b82628p-5f, 0x1.51903ep-6f, -0x1.732bb2p-8f);
  const Floats small = fma(x * z, p, x);
  const ExpVectors parts = exp_parts(2.0f * lesser_or_second(a, all_lanes(10.0f)), 127.0f);
  const Floats e = exp_of_rest(parts.rest) * (Floats)(parts.shifted << 23);
  return with_sign(choose(a, 0.625f, small, 1.0f - 2.0f / (e + 1.0f)), x);  // of zero, too
}

// Up to 0.9 an odd polynomial; beyond, 1 - 2^-g with a polynomial g for the logarithm of erfc.
LANE Floats erf_of(Floats x) {
  const Floats a = magnitude(x), z = x * x;
  const Floats p =
      polynomial(z, 0x1.06eba6p-3f, -0x1.8126ecp-2f, 0x1.ce1b86p-4f, -0x1.b69b96p-6f, 0x1.479c9ep-8f, -0x1.3ba9cap-11f);
  const Floats g = polynomial(lesser_or_second(a, all_lanes(4.0f)), 0x1.f7a1f6p-13f, 0x1.a0877ep+0f, 0x1.d68238p-1f,
                              0x1.339e58p-3f, -0x1.07bbfap-5f, 0x1.21d6ecp-8f, -0x1.2bddecp-12f);
  const Floats shifted = (kRounder + 127.0f) - g, r = ((kRounder + 127.0f) - shifted) - g;
  const Floats q =
      polynomial(r, 0x1.62e43p-1f, 0x1.ebfb94p-3f, 0x1.c6af9ep-5f, 0x1.3b681ap-7f, 0x1.5efb18p-10f, 0x1.1722f6p-13f);
  const Floats large = fma(fma(r, q, 1.0f), -(Floats)((Words)shifted << 23), 1.0f);
  return choose(a, 0.9f, fma(x, p, x), with_sign(large, x));
}

// exp(-x^2) / (|x| + 1.5) times a polynomial in (|x| - 1.5) / (|x| + 1.5). What the square, the quotient and the
// products lose to rounding is added at the end; w + 1.08 is how a change of the quotient acts, within 0.15.
LANE Floats erfc_of(Floats x) {
  const Floats a = lesser_or_second(all_lanes(13.25f), magnitude(x)), under = a + 1.5f, w = 1.0f / under;
  const Floats w_lost = fma(-w, a - (under - 1.5f), fma(-w, under, 1.0f));
  const Floats q = polynomial(fma(w, -3.0f, 1.0f), 0x1.edf488p-1f, -0x1.0404eap-1f, 0x1.35bf26p-4f, 0x1.8750cap-5f,
                              -0x1.0a0fd4p-7f, -0x1.35fa24p-7f, -0x1.a763d2p-11f, 0x1.d0aee2p-10f, 0x1.c65e72p-11f,
                              -0x1.202406p-14f, -0x1.dde648p-13f, -0x1.30592ep-14f);
  const Floats square = a * a, square_lost = fma(a, a, -square);
  const ExpVectors parts = exp_parts(-square, kScaleBias);
  const Floats r = parts.rest, high = 1.0f + r;
  const Floats low =
      fma(r * r, polynomial(r, 0x1.fffffcp-2f, 0x1.555488p-3f, 0x1.555842p-5f, 0x1.1240dep-7f, 0x1.6ae888p-10f),
          r - (high - 1.0f));
  const Floats wq = w * q, wq_lost = fma(w, q, -wq), product = high * wq, product_lost = fma(high, wq, -product);
  const Floats change = fma(w + 1.08f, w_lost, -square_lost), whole = fma(low, wq, product);
  const Floats lost = fma(low, wq, fma(whole, change, fma(high, wq_lost, product_lost)));
  const Floats tail = scaled(product + lost, parts.shifted);
  const Ints two = ((Ints)x >> 31) & static_cast<int32_t>(as_bits(2.0f));
  return (Floats)two + (Floats)((Ints)tail ^ ((Ints)x & INT32_MIN));
}

}  // namespace
}  // namespace openspyre
