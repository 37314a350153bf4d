// Small squares of elements turned in vector registers: rows become columns. For code that is compiled once per
// instruction set, hence the unnamed namespace and no library templates.
#pragma once

#include <cstdint>

namespace openspyre {
namespace {

// 16 bytes of a row; a square has as many rows.
template <int itemsize>
struct Square;

template <>
struct Square<1> {
  using Lanes [[gnu::vector_size(16)]] = uint8_t;
  static constexpr int kSide = 16;
  static constexpr Lanes kLower = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}, kUpper = kLower + 8;
};

template <>
struct Square<2> {
  using Lanes [[gnu::vector_size(16)]] = uint16_t;
  static constexpr int kSide = 8;
  static constexpr Lanes kLower = {0, 8, 1, 9, 2, 10, 3, 11}, kUpper = {4, 12, 5, 13, 6, 14, 7, 15};
};

template <>
struct Square<4> {
  using Lanes [[gnu::vector_size(16)]] = uint32_t;
  static constexpr int kSide = 4;
  static constexpr Lanes kLower = {0, 4, 1, 5}, kUpper = {2, 6, 3, 7};
};

template <>
struct Square<8> {
  using Lanes [[gnu::vector_size(16)]] = uint64_t;
  static constexpr int kSide = 2;
  static constexpr Lanes kLower = {0, 2}, kUpper = {1, 3};
};

// Each round interleaves the first half of the rows with the second; after log2(side) of them rows are columns.
template <typename Element>
[[gnu::always_inline]] inline void turn_square(const Element* from, int64_t stride, Element* to, int64_t to_stride) {
  using S = Square<sizeof(Element)>;
  typename S::Lanes rows[S::kSide], mixed[S::kSide];
#pragma GCC unroll 16
  for (int i = 0; i < S::kSide; ++i) __builtin_memcpy(&rows[i], from + i * stride, sizeof rows[i]);
#pragma GCC unroll 4
  for (int round = 1; round < S::kSide; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < S::kSide / 2; ++i) {
      mixed[2 * i] = __builtin_shuffle(rows[i], rows[i + S::kSide / 2], S::kLower);
      mixed[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + S::kSide / 2], S::kUpper);
    }
#pragma GCC unroll 16
    for (int i = 0; i < S::kSide; ++i) rows[i] = mixed[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < S::kSide; ++i) __builtin_memcpy(to + i * to_stride, &rows[i], sizeof rows[i]);
}

}  // namespace
}  // namespace openspyre
