// Random words: the published answers of Philox4x32-10, and the kernels against a definition written down here again.
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/functions_random.h"
#include "kernels/vector_kernels.h"
#include "naive_steps.h"

using namespace openspyre;

namespace {

using Words = std::array<uint32_t, 4>;

// From the paper's own words: a multiplication in 64 bits, halves swapped and mixed with the key, ten times.
Words reference(Words c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p = 0xD2511F53ull * c[0], q = 0xCD9E8D57ull * c[2];
    c = {uint32_t(q >> 32) ^ c[1] ^ k[0], uint32_t(q), uint32_t(p >> 32) ^ c[3] ^ k[1], uint32_t(p)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

uint32_t reference_number(uint64_t seed, uint64_t number) {
  const uint64_t block = number / 4;
  return reference({uint32_t(block), uint32_t(block >> 32), 0, 0}, {uint32_t(seed), uint32_t(seed >> 32)})[number % 4];
}

TEST(philox_gives_the_published_answers) {  // kat_vectors of Random123
  struct Known {
    Words counter;
    std::array<uint32_t, 2> key;
    Words answer;
  };
  const Known known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Known& each : known) {
    CHECK(reference(each.counter, each.key) == each.answer);
    const auto& c = each.counter;
    const PhiloxWords made = philox_block(PhiloxWords{{c[0], c[1], c[2], c[3]}}, each.key[0], each.key[1]);
    CHECK((Words{made.word[0], made.word[1], made.word[2], made.word[3]}) == each.answer);
  }
}

// Places that count up, from anywhere and over the end of 32 bits; places apart; places of rows; one place.
std::vector<std::vector<uint32_t>> patterns_of_places(size_t lanes) {
  std::vector<std::vector<uint32_t>> patterns;
  for (const uint32_t first : {0u, 1u, 2u, 3u, 64u, 1000003u, 0xFFFFFF00u, 0xFFFFFFE1u})
    for (const uint32_t step : {1u, 3u, 64u, 0u}) {
      std::vector<uint32_t> places(lanes);
      for (size_t i = 0; i < lanes; ++i) places[i] = first + static_cast<uint32_t>(i) * step;
      patterns.push_back(places);
    }
  std::vector<uint32_t> rows(lanes);
  for (size_t i = 0; i < lanes; ++i) rows[i] = static_cast<uint32_t>(i / 64 * 99 + i % 64);
  patterns.push_back(rows);
  return patterns;
}

TEST(a_number_depends_on_seed_offset_and_place_alone) {
  for (const size_t lanes : {32u, 96u, 1024u})
    for (const uint64_t seed : {0ull, 42ull, 0x123456789abcdef0ull})
      for (const uint64_t offset : {0ull, 4ull, 0xFFFFFFFCull, 0x3FFFFFFFCull, 0xFFFFFFFFFFFFFFFCull})
        for (const std::vector<uint32_t>& places : patterns_of_places(lanes)) {
          std::vector<uint32_t> expected(lanes), constant[4];
          const uint64_t uniform[] = {seed & ~0u, seed >> 32, offset & ~0u, offset >> 32};
          for (size_t w = 0; w < 4; ++w) constant[w].assign(lanes, static_cast<uint32_t>(uniform[w]));
          for (size_t i = 0; i < lanes; ++i) expected[i] = reference_number(seed, offset + places[i]);
          const Lane* words[] = {constant[0].data(), constant[1].data(), constant[2].data(), constant[3].data()};
          for (const Isa isa : naive::isas()) {
            std::vector<uint32_t> made(places);  // in place, as a register may be
            vector_kernels(isa).draw(made.data(), made.data(), words, static_cast<int64_t>(lanes));
            CHECK(made == expected);
          }
        }
}

TEST(lanes_may_have_seeds_and_offsets_of_their_own) {
  std::mt19937 random(7);
  std::vector<uint32_t> lanes[5], expected(256);
  for (auto& lane : lanes)
    for (int i = 0; i < 256; ++i) lane.push_back(static_cast<uint32_t>(random()));
  for (size_t i = 0; i < 256; ++i)
    expected[i] = reference_number(lanes[1][i] | uint64_t{lanes[2][i]} << 32,
                                   (lanes[3][i] | uint64_t{lanes[4][i]} << 32) + lanes[0][i]);
  const Lane* words[] = {lanes[1].data(), lanes[2].data(), lanes[3].data(), lanes[4].data()};
  for (const Isa isa : naive::isas()) {
    std::vector<uint32_t> made(256);
    vector_kernels(isa).draw(made.data(), lanes[0].data(), words, 256);
    CHECK(made == expected);
  }
}

TEST(a_word_is_the_normal_quantile_of_its_probability) {
  std::mt19937 random(3);
  std::vector<uint32_t> words;
  for (uint32_t i = 0; i < 512; ++i)
    for (const uint32_t word : {i, 0x7FFFFFFFu - i, 0x80000000u + i, 0xFFFFFFFFu - i}) words.push_back(word);
  for (uint32_t i = 0; i < 32; ++i) words.push_back(1u << i);
  while (words.size() % 1024 != 0 || words.size() < 65536) words.push_back(static_cast<uint32_t>(random()));
  double worst = 0;
  std::vector<uint32_t> first;
  for (const Isa isa : naive::isas()) {
    std::vector<uint32_t> made(words.size());
    vector_kernels(isa).map[static_cast<size_t>(Op::Normal)](made.data(), words.data(), words.data(), words.data(),
                                                             static_cast<int64_t>(words.size()));
    if (first.empty()) first = made;
    CHECK(made == first);
    for (size_t i = 0; i < words.size(); ++i) {
      const float z = naive::real(made[i]);
      CHECK_EQ(std::signbit(z), words[i] >> 31 != 0);
      const double tail = ((words[i] & 0x7FFFFFFF) + 0.5) * 0x1p-31;
      // P(|Z| > |z|) by the C library; its slope tells how far the quantile is off. 1 - tail near 0, where tail is 1.
      const double x = std::fabs(static_cast<double>(z));
      const double off = tail > 0.5 ? std::erf(x * M_SQRT1_2) - ((~words[i] & 0x7FFFFFFF) + 0.5) * 0x1p-31
                                    : tail - std::erfc(x * M_SQRT1_2);
      const double density = std::exp(-x * x / 2) * std::sqrt(2 / M_PI);
      worst = std::max(worst, std::fabs(off / density) / (std::nextafter(std::fabs(z), 9.0f) - std::fabs(z)));
    }
  }
  CHECK(worst < 4);
}

TEST(the_upper_half_of_a_product) {
  std::vector<uint32_t> a(1024), b(1024), made(1024);
  std::mt19937 random(5);
  for (size_t i = 0; i < 1024; ++i) a[i] = static_cast<uint32_t>(random()), b[i] = static_cast<uint32_t>(random());
  for (const Isa isa : naive::isas()) {
    vector_kernels(isa).map[static_cast<size_t>(Op::MulHigh)](made.data(), a.data(), b.data(), b.data(), 1024);
    for (size_t i = 0; i < 1024; ++i) CHECK_EQ(made[i], static_cast<uint32_t>(uint64_t{a[i]} * b[i] >> 32));
  }
}

}  // namespace
