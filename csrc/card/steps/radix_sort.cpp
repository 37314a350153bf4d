#include "steps/radix_sort.h"

#include <array>
#include <cstddef>
#include <utility>

namespace openspyre {
namespace {

constexpr int kDigits = 4, kDigitBits = 8, kFirstBit = 32;
constexpr size_t kBuckets = 1 << kDigitBits;

size_t digit_of(uint64_t number, int digit) {
  return static_cast<size_t>(number >> (kFirstBit + digit * kDigitBits)) & (kBuckets - 1);
}

}  // namespace

uint64_t* radix_sort(uint64_t* numbers, uint64_t* spare, int64_t count) {
  std::array<std::array<int64_t, kBuckets>, kDigits> counts{};
  for (int64_t i = 0; i < count; ++i)
    for (int digit = 0; digit < kDigits; ++digit) ++counts[static_cast<size_t>(digit)][digit_of(numbers[i], digit)];
  for (int digit = 0; digit < kDigits && count > 0; ++digit) {
    std::array<int64_t, kBuckets>& places = counts[static_cast<size_t>(digit)];
    if (places[digit_of(numbers[0], digit)] == count) continue;  // all have the same
    int64_t place = 0;
    for (int64_t& bucket : places) place += std::exchange(bucket, place);
    for (int64_t i = 0; i < count; ++i) spare[places[digit_of(numbers[i], digit)]++] = numbers[i];
    std::swap(numbers, spare);
  }
  return numbers;
}

}  // namespace openspyre
