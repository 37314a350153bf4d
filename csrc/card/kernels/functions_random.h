// Random words on one lane, and the normal numbers they stand for.
#pragma once

#include "kernels/functions_log.h"
#include "kernels/lane_math.h"

namespace openspyre {
namespace {

struct PhiloxWords {
  uint32_t word[4];
};

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
LANE PhiloxWords philox_block(PhiloxWords counter, uint32_t key0, uint32_t key1) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53u} * counter.word[0], second = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(second >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(second),
                static_cast<uint32_t>(first >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(first)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// A seed's numbers are the words of the blocks 0, 1, 2, ...; this is where one stands.
struct PhiloxPlace {
  uint32_t seed0, seed1;
  uint64_t number;
};

LANE PhiloxWords philox_block(uint64_t block, uint32_t seed0, uint32_t seed1) {
  return philox_block(PhiloxWords{{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}}, seed0,
                      seed1);
}

LANE uint32_t philox_word(const PhiloxPlace& place) {
  return philox_block(place.number >> 2, place.seed0, place.seed1).word[place.number & 3];
}

// The normal distribution's quantile: the sign from the first bit, P(|z| > |result|) from the others. Within 4 ulps.
LANE float normal_lane(uint32_t word) {
  const float tail = (static_cast<float>(as_int(word & 0x7FFFFFFFu)) + 0.5f) * 0x1p-31f;
  const float x = (static_cast<float>(as_int(~word & 0x7FFFFFFFu)) + 0.5f) * 0x1p-31f;  // 1 - tail, near 0 too
  const float w = -log_lane(tail * (2.0f - tail));
  const float middle =
      x * polynomial(w - 2.5f, 0x1.0fc8bcp+1f, 0x1.652c5cp-2f, -0x1.832b1cp-8f, -0x1.d06d62p-10f, 0x1.43ca1p-12f,
                     -0x1.d6d1ep-18f, -0x1.48b5cp-18f, 0x1.61789cp-21f, 0x1.1b22a6p-25f, -0x1.a8b886p-27f);
  const float outside =
      polynomial(__builtin_sqrtf(w) - 3.4375f, 0x1.2831fep+2f, 0x1.6c93dcp+0f, 0x1.3f2ebp-8f, -0x1.5b595p-9f,
                 0x1.ea3144p-11f, -0x1.24f38p-12f, 0x1.d0dbecp-15f, 0x1.2e8cc6p-16f, -0x1.ad1c42p-17f);
  return as_float(as_bits(w < 5.0f ? middle : outside) | (word & 0x80000000u));
}

}  // namespace
}  // namespace openspyre
