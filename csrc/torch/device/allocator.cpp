// The card's memory as torch's DeviceAllocator: what makes torch.accelerator.memory_* work.
#include <c10/core/CachingDeviceAllocator.h>

#include "device/record.h"
#include "operators/eager.h"
#include "sanitizer/sanitize_copy.h"

namespace torch_spyre {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

void set(StatArray& stat, const openspyre::MemoryStatistics::Counter& counter) {
  Stat& total = stat[static_cast<size_t>(StatType::AGGREGATE)];
  total.current = counter.current;
  total.peak = counter.peak;
  total.allocated = counter.allocated;
  total.freed = counter.freed;
}

struct SpyreAllocator final : c10::DeviceAllocator {
  // Untyped memory: the caller (torch.load, UntypedStorage) has only bytes. Tensors come through new_tensor.
  c10::DataPtr allocate(size_t bytes) override {
    return translated([&] { return new_raw(bytes, resolve(std::nullopt)); });
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }  // a handle is not a pointer to be freed by value

  void copy_data(void* target, const void* source, std::size_t count) const override {
    translated([&] {
      auto& card = card_of(current_device());
      card.synchronize();
      std::byte* to = card.translate(reinterpret_cast<openspyre::Address>(target));
      const std::byte* from = card.translate(reinterpret_cast<openspyre::Address>(source));
      std::memcpy(to, from, count);
      openspyre::sanitize::copied_bytes(from, to, count);
    });
  }

  bool initialized() override { return openspyre::cards_started(); }
  void emptyCache(c10::MempoolId_t) override {
    translated([] {
      if (!openspyre::cards_started()) return;
      forget_eager_constants();
      for (int index = 0; index < device_count(); ++index) card_of(index).empty_cache();
    });
  }
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    translated([&] { use_on_stream(pointer, stream); });
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return translated([&] {
      const openspyre::MemoryStatistics statistics = card_of(resolve_index(device)).memory_statistics();
      c10::CachingDeviceAllocator::DeviceStats stats;
      set(stats.allocation, statistics.allocations);
      set(stats.allocated_bytes, statistics.allocated_bytes);
      set(stats.requested_bytes, statistics.requested_bytes);
      set(stats.reserved_bytes, statistics.reserved_bytes);
      set(stats.active_bytes, statistics.active_bytes);
      stats.num_ooms = statistics.out_of_memory;
      stats.num_alloc_retries = statistics.cache_flushes;
      return stats;
    });
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    translated([&] { card_of(resolve_index(device)).reset_accumulated_memory(); });
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    translated([&] { card_of(resolve_index(device)).reset_peak_memory(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return translated([&] {
      openspyre::Card& card = card_of(resolve_index(device));
      return std::pair<size_t, size_t>(card.memory_statistics().free_bytes, card.total_memory());
    });
  }

 private:
  static c10::DeviceIndex resolve_index(c10::DeviceIndex index) { return resolve(c10::Device(kSpyre, index)); }
};

SpyreAllocator allocator;
REGISTER_ALLOCATOR(kSpyre, &allocator)

}  // namespace
}  // namespace torch_spyre
