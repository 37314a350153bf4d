// The innermost moves. Vector code is guarded; the plain version moves the same bytes.
#include "dma_sticks.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace openspyre::dma {
namespace {

// A constant size turns into a few vector moves instead of a call.
void copy_stick(const std::byte* source, std::byte* target, int64_t bytes) {
  if (bytes == 128) {
    std::memcpy(target, source, 128);
  } else {
    std::memcpy(target, source, static_cast<size_t>(bytes));
  }
}

using Lanes [[gnu::vector_size(16)]] = uint16_t;

// Three rounds of interleaving the first half of the rows with the second.
void transpose_8x8(const uint16_t* from, uint16_t* to, int64_t pitch) {
  Lanes rows[8], mixed[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&rows[i], from + i * pitch, sizeof(Lanes));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      mixed[2 * i] = __builtin_shuffle(rows[i], rows[i + 4], Lanes{0, 8, 1, 9, 2, 10, 3, 11});
      mixed[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + 4], Lanes{4, 12, 5, 13, 6, 14, 7, 15});
    }
    for (int i = 0; i < 8; ++i) rows[i] = mixed[i];
  }
  for (int i = 0; i < 8; ++i) std::memcpy(to + i * pitch, &rows[i], sizeof(Lanes));
}

// Calls body(itemsize as a type of that size).
template <typename Body>
void with_item(int itemsize, Body&& body) {
  switch (itemsize) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    default:
      return body(uint64_t{});
  }
}

}  // namespace

// Only whole cache lines: a line written in two parts costs more than it saves.
void stream_bytes(const std::byte* source, std::byte* target, int64_t bytes) {
#if defined(__SSE2__)
  const auto head = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(target) % 64);
  if (bytes >= head + 64) {
    std::memcpy(target, source, static_cast<size_t>(head));
    int64_t i = head;
    for (; i + 64 <= bytes; i += 64) {
      for (int64_t j = i; j < i + 64; j += 16) {
        const __m128i lanes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + j));
        _mm_stream_si128(reinterpret_cast<__m128i*>(target + j), lanes);
      }
    }
    source += i;
    target += i;
    bytes -= i;
  }
#endif
  std::memcpy(target, source, static_cast<size_t>(bytes));
}

void store_sticks(const StickGrid& grid, int64_t tiles, int64_t rows, int64_t bytes, bool streaming) {
  for (int64_t i = 0; i < tiles; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      const std::byte* source = grid.scratch + i * grid.scratch_tile + r * grid.scratch_row;
      std::byte* target = grid.device + i * grid.device_tile + r * grid.device_row;
      if (streaming && bytes >= 64) {
        stream_bytes(source, target, bytes);
      } else {
        copy_stick(source, target, bytes);
      }
    }
  }
}

void load_sticks(const StickGrid& grid, int64_t tiles, int64_t rows, int64_t bytes) {
  for (int64_t i = 0; i < tiles; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      const std::byte* source = grid.device + i * grid.device_tile + r * grid.device_row;
      __builtin_prefetch(source + rows * grid.device_row);  // the next block of rows
      __builtin_prefetch(source + rows * grid.device_row + 64);
      copy_stick(source, grid.scratch + i * grid.scratch_tile + r * grid.scratch_row, bytes);
    }
  }
}

void transpose_square(const std::byte* source, std::byte* target, int64_t rows, int64_t columns, int64_t pitch,
                      int itemsize) {
  with_item(itemsize, [&](auto item) {
    using Item = decltype(item);
    const auto* from = reinterpret_cast<const Item*>(source);
    auto* to = reinterpret_cast<Item*>(target);
    const int64_t whole_rows = sizeof(Item) == 2 ? rows / 8 * 8 : 0, whole_columns = columns / 8 * 8;
    if constexpr (sizeof(Item) == 2) {
      for (int64_t r = 0; r < whole_rows; r += 8) {
        for (int64_t c = 0; c < whole_columns; c += 8) transpose_8x8(from + r * pitch + c, to + c * pitch + r, pitch);
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r) to[c * pitch + r] = from[r * pitch + c];
    }
  });
}

void gather(const std::byte* base, std::span<const int64_t> offsets, std::byte* target, int itemsize) {
  with_item(itemsize, [&](auto item) {
    constexpr size_t kSize = sizeof(item);
    for (size_t i = 0; i < offsets.size(); ++i)
      std::memcpy(target + i * kSize, base + offsets[i] * int64_t{kSize}, kSize);
  });
}

void scatter(const std::byte* source, std::byte* base, std::span<const int64_t> offsets, int itemsize) {
  with_item(itemsize, [&](auto item) {
    constexpr size_t kSize = sizeof(item);
    for (size_t i = 0; i < offsets.size(); ++i)
      std::memcpy(base + offsets[i] * int64_t{kSize}, source + i * kSize, kSize);
  });
}

void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace openspyre::dma
