#include "device/device_block.h"

#include <c10/core/Allocator.h>

namespace torch_spyre {
namespace {

c10::Device device_of(const openspyre::Card& card) { return {kSpyre, static_cast<c10::DeviceIndex>(card.index())}; }

// Apart: an allocation that nobody follows is as short as can be.
[[gnu::cold, gnu::noinline]] void report(openspyre::Card& card, openspyre::Address address, int64_t bytes) {
  const openspyre::MemoryStatistics now = card.memory_counters();
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(address), bytes,
                                   static_cast<size_t>(now.allocated_bytes.current),
                                   static_cast<size_t>(now.reserved_bytes.current), device_of(card));
}

[[gnu::cold, gnu::noinline]] void report_out_of_memory(openspyre::Card& card, size_t bytes) {
  const openspyre::MemoryStatistics now = card.memory_statistics();
  const auto allocated = static_cast<size_t>(now.allocated_bytes.current);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), allocated,
                                   static_cast<size_t>(now.reserved_bytes.current), device_of(card));
  tell_out_of_memory(card.index(), bytes, allocated, now.free_bytes);
}

}  // namespace

openspyre::Block* allocate_block(openspyre::Card& card, size_t bytes, int64_t stream, const char* purpose) try {
  openspyre::Block* block = card.allocate(bytes, stream, purpose);
  if (c10::memoryProfilingEnabled()) [[unlikely]]
    report(card, block->address, static_cast<int64_t>(block->bytes));
  return block;
} catch (const openspyre::Error& error) {
  if (error.kind == openspyre::Fault::OutOfMemory) report_out_of_memory(card, bytes);
  throw;
}

void free_block(openspyre::Block* block) noexcept {
  openspyre::Card& card = *block->card;
  const openspyre::Address address = block->address;
  const auto bytes = static_cast<int64_t>(block->bytes);
  card.free(block);
  if (c10::memoryProfilingEnabled() && !openspyre::in_bad_fork()) [[unlikely]]
    report(card, address, -bytes);
}

}  // namespace torch_spyre
