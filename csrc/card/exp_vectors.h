// exp and sigmoid on vectors of lanes (N7): the functions that fused rows spend their time in.
#pragma once

#include "functions_exp.h"
#include "lane_vectors.h"

namespace openspyre {
namespace {

// x = exponent * ln 2 + rest, with |rest| <= ln 2 / 2. `shifted` has the exponent, plus the bias asked for, in its low
// nine bits; what is above them falls out when they are shifted into an fp32's exponent.
struct ExpVectors {
  Floats rest;
  Words shifted;
};

LANE ExpVectors exp_parts(Floats x, float bias) {
  const float rounder = kRounder + bias;
  const Floats shifted = fma(x, kLog2E, rounder), n = shifted - rounder;
  return {fma(n, -kLn2Low, fma(n, -kLn2High, x)), (Words)shifted};
}

// The polynomial in two halves: a chain half as long keeps the processor busier than one multiplication less.
LANE Floats exp_of_rest(Floats r) {
  const Floats square = r * r;
  const Floats low = polynomial(r, 0x1.fffffcp-2f, 0x1.555488p-3f),
               high = polynomial(r, 0x1.555842p-5f, 0x1.1240dep-7f);
  const Floats q = fma(fma(square, 0x1.6ae888p-10f, high), square, low);
  return 1.0f + fma(square, q, r);
}

// Two factors reach subnormals and infinity. At the lower limit both are zero, so that what underflows altogether, a
// mask's -inf, is spared the processor's slow way there. A NaN passes both limits.
LANE Floats exp_of(Floats x) {
  const Floats inside = greater_or_second(all_lanes(-176.0f), lesser_or_second(all_lanes(176.0f), x));
  const ExpVectors parts = exp_parts(inside, 254.0f);
  const Words half = parts.shifted >> 1;
  return exp_of_rest(parts.rest) * (Floats)(half << 23) * (Floats)((parts.shifted - half) << 23);
}

// With e = exp(-|x|): e / (1 + e), from which the sum's and the quotient's roundings are taken back, or its complement.
// e and the quotient are 2^64 times as large until the end, so that they are normal numbers.
LANE Floats sigmoid_of(Floats x) {
  const Floats inside = greater_or_second(all_lanes(-132.391f), (Floats)((Ints)x | INT32_MIN));
  const ExpVectors parts = exp_parts(inside, 127.0f + 64.0f);
  const Floats e = exp_of_rest(parts.rest) * (Floats)(parts.shifted << 23);
  const Floats under = fma(e, 0x1p-64f, 1.0f), lost = fma(e, 0x1p-64f, 1.0f - under), quotient = e / under;
  const Floats excess = fma(quotient, lost, fma(quotient, under, -e));
  const Floats below = fma(excess, fma(quotient, 0x1p-64f, -1.0f), quotient);
  const Ints sign = (Ints)x & INT32_MIN, one = ~((Ints)x >> 31) & static_cast<int32_t>(as_bits(1.0f));
  return fma(below, (Floats)(sign ^ static_cast<int32_t>(as_bits(-0x1p-64f))), (Floats)one);
}

}  // namespace
}  // namespace openspyre
