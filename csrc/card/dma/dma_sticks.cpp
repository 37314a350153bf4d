// The innermost moves. Vector code is guarded; the plain version moves the same bytes.
#include "dma/dma_sticks.h"

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
