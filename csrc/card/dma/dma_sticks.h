// The innermost moves of the DMA: whole sticks to and from scratch memory, gather and scatter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace openspyre::dma {

// Sticks (or parts of them) at two device pitches, and where they stand in scratch memory; all in bytes.
struct StickGrid {
  std::byte* device;
  int64_t device_tile, device_row;
  std::byte* scratch;
  int64_t scratch_tile, scratch_row;
};

void store_sticks(const StickGrid& grid, int64_t tiles, int64_t rows, int64_t bytes, bool streaming);
void load_sticks(const StickGrid& grid, int64_t tiles, int64_t rows, int64_t bytes);

// Writes around the cache where the target's alignment allows it.
void stream_bytes(const std::byte* source, std::byte* target, int64_t bytes);

void gather(const std::byte* base, std::span<const int64_t> offsets, std::byte* target, int itemsize);
void scatter(const std::byte* source, std::byte* base, std::span<const int64_t> offsets, int itemsize);

void finish_streaming();  // makes streamed stores visible to other threads

}  // namespace openspyre::dma
