// Random words over the lanes of a chunk; part of vector_kernels.inl. A block of Philox is four numbers in a row, so
// lanes that count upwards share blocks: computing each lane's own would cost four times as much.

constexpr int64_t kPhiloxLanes = 16;                   // blocks at a time
constexpr uint64_t kPhiloxBlocks = uint64_t{1} << 62;  // then a seed's numbers begin again
constexpr int64_t kPhiloxRun = 1024;                   // words

// Words in the lower halves of 64-bit lanes; the upper halves hold anything, products do not read them.
using Longs [[gnu::vector_size(kVectorBytes)]] = uint64_t;
constexpr int64_t kLongs = kVectorBytes / 8;
constexpr int64_t kPhiloxVectors = kPhiloxLanes / kLongs;

LANE Longs product(Longs words, uint64_t factor) {
#if defined(__AVX512F__)
  return (Longs)_mm512_mul_epu32((__m512i)words, (__m512i)(factor - Longs{}));
#elif defined(__AVX2__)
  return (Longs)_mm256_mul_epu32((__m256i)words, (__m256i)(factor - Longs{}));
#elif defined(__SSE2__)
  return (Longs)_mm_mul_epu32((__m128i)words, (__m128i)(factor - Longs{}));
#else
  return (words & 0xFFFFFFFFu) * factor;
#endif
}

struct PhiloxVectors {
  Longs word[4][kPhiloxVectors];
};

LANE void philox_round(PhiloxVectors& x, uint32_t key0, uint32_t key1) {
  for (int64_t v = 0; v < kPhiloxVectors; ++v) {
    const Longs first = product(x.word[0][v], 0xD2511F53u), second = product(x.word[2][v], 0xCD9E8D57u);
    x.word[0][v] = (second >> 32) ^ x.word[1][v] ^ key0;
    x.word[2][v] = (first >> 32) ^ x.word[3][v] ^ key1;
    x.word[1][v] = second;
    x.word[3][v] = first;
  }
}

// Two words of a block become one long, the two longs of a block neighbours.
LANE void store_blocks(Longs first, Longs second, Lane* target) {
  Longs low{}, high{};
  for (int64_t i = 0; i < kLongs; ++i) {
    low[i] = static_cast<uint64_t>(i / 2 + i % 2 * kLongs);
    high[i] = low[i] + kLongs / 2;
  }
  store_vector(target, __builtin_shuffle(first, second, low));
  store_vector(target + 2 * kLongs, __builtin_shuffle(first, second, high));
}

// 4 * kPhiloxLanes words from a block on.
LANE void philox_run(uint64_t block, uint32_t key0, uint32_t key1, Lane* target) {
  PhiloxVectors x;
  Longs blocks{};
  for (int64_t i = 0; i < kLongs; ++i) blocks[i] = static_cast<uint64_t>(i);
  blocks += block;
  for (int64_t v = 0; v < kPhiloxVectors; ++v, blocks += kLongs) {
    x.word[0][v] = blocks & (kPhiloxBlocks - 1);
    x.word[1][v] = x.word[0][v] >> 32;
    x.word[2][v] = x.word[3][v] = Longs{};
  }
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) philox_round(x, key0, key1);
  for (int64_t v = 0; v < kPhiloxVectors; ++v)
    store_blocks((x.word[0][v] & 0xFFFFFFFFu) | x.word[1][v] << 32, (x.word[2][v] & 0xFFFFFFFFu) | x.word[3][v] << 32,
                 target + 4 * kLongs * v);
}

// How many lanes, in whole units, count upwards from the first.
LANE int64_t counting_lanes(const Lane* place, int64_t n) {
  int64_t lanes = 0;
  for (; lanes < n; lanes += kLaneUnit) {
    uint32_t differs = 0;
    for (int64_t i = 0; i < kLaneUnit; ++i)
      differs |= place[lanes + i] ^ (place[0] + static_cast<uint32_t>(lanes) + static_cast<uint32_t>(i));
    if (differs != 0) break;
  }
  return place[0] + static_cast<uint64_t>(lanes) > (uint64_t{1} << 32) ? 0 : lanes;
}

LANE bool is_alike(const Lane* const* words, int64_t n) {
  uint32_t differs = 0;
  for (int word = 0; word < 4; ++word)
    for (int64_t i = 0; i < n; ++i) differs |= words[word][i] ^ words[word][0];
  return differs == 0;
}

LANE PhiloxPlace philox_place(const Lane* place, const Lane* const* words, int64_t i) {
  const uint64_t offset = words[2][i] | uint64_t{words[3][i]} << 32;
  return {words[0][i], words[1][i], offset + place[i]};
}

void philox_kernel(Lane* target, const Lane* place, const Lane* const* words, int64_t n) {
  const bool alike = is_alike(words, n);
  alignas(64) Lane made[kPhiloxRun + 4 * kPhiloxLanes];
  for (int64_t first = 0; first < n;) {
    const int64_t run = alike ? counting_lanes(place + first, std::min(n - first, kPhiloxRun)) : 0;
    if (run == 0) {
      for (int64_t i = first; i < first + kLaneUnit; ++i) target[i] = philox_word(philox_place(place, words, i));
      first += kLaneUnit;
      continue;
    }
    const PhiloxPlace begin = philox_place(place, words, first);
    const int64_t skipped = static_cast<int64_t>(begin.number & 3);
    const bool fits = skipped == 0 && run % (4 * kPhiloxLanes) == 0;
    Lane* to = fits ? target + first : made;
    for (int64_t i = 0; i < skipped + run; i += 4 * kPhiloxLanes)
      philox_run((begin.number >> 2) + static_cast<uint64_t>(i / 4), begin.seed0, begin.seed1, to + i);
    if (!fits) std::copy_n(made + skipped, run, target + first);
    first += run;
  }
}
