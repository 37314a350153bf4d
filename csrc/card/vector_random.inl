// Random words over the lanes of a chunk; part of vector_kernels.inl. A block of Philox is four numbers in a row, so
// lanes that count upwards share blocks: computing each lane's own would cost four times as much.

constexpr int64_t kPhiloxLanes = 16;                   // blocks at a time
constexpr uint64_t kPhiloxBlocks = uint64_t{1} << 62;  // then a seed's numbers begin again
constexpr int64_t kPhiloxRun = 1024;                   // words

// 4 * kPhiloxLanes words from a block on.
LANE void philox_run(uint64_t block, uint32_t seed0, uint32_t seed1, Lane* target) {
  uint32_t words[4][kPhiloxLanes];
#pragma GCC ivdep
  for (int64_t i = 0; i < kPhiloxLanes; ++i) {
    const PhiloxWords made = philox_block((block + static_cast<uint64_t>(i)) % kPhiloxBlocks, seed0, seed1);
    for (int word = 0; word < 4; ++word) words[word][i] = made.word[word];
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < kPhiloxLanes; ++i)
    for (int word = 0; word < 4; ++word) target[4 * i + word] = words[word][i];
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
