#include "device/host_memory_pinned.h"

#include <ATen/core/CachingHostAllocator.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <shared_mutex>

#include "device/runtime.h"

namespace torch_spyre {
namespace {

constexpr size_t kPageBytes = 4096;

// Ranges handed out by us, so that an interior pointer is recognised.
struct PinnedRanges {
  std::shared_mutex mutex;
  std::map<uintptr_t, size_t> ranges;
};
PinnedRanges& pinned() {
  static auto* instance = new PinnedRanges;  // outlives every tensor
  return *instance;
}

using Event = std::shared_ptr<openspyre::Event>;
using Block = at::HostBlock<c10::Stream>;

struct SpyreHostAllocatorImpl final : at::CachingHostAllocatorImpl<c10::Stream, Event> {
  void allocate_host_memory(size_t bytes, void** pointer) override {
    *pointer = std::aligned_alloc(kPageBytes, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
    TORCH_CHECK_WITH(OutOfMemoryError, *pointer, "the host has no memory left for a pinned buffer of ", bytes,
                     " bytes");
    std::unique_lock lock(pinned().mutex);
    pinned().ranges[reinterpret_cast<uintptr_t>(*pointer)] = bytes;
  }
  void free_block(Block* block) override {
    {
      std::unique_lock lock(pinned().mutex);
      pinned().ranges.erase(reinterpret_cast<uintptr_t>(block->ptr_));
    }
    std::free(block->ptr_);
  }
  void record_stream(std::optional<std::vector<Event>>& events, c10::Stream stream) override {
    translated([&] {
      auto event = std::make_shared<openspyre::Event>();
      event->record(stream_of(stream));
      events->push_back(std::move(event));
    });
  }
  bool query_event(Event& event) override { return event->query(); }
  c10::Stream get_current_stream() const override { return as_torch(current_stream(current_device())); }
  bool stream_is_capturing(c10::Stream) const override { return false; }
};

void free_pinned(void* context);
struct SpyreHostAllocator final : at::CachingHostAllocatorInterface<SpyreHostAllocatorImpl, free_pinned> {};
SpyreHostAllocator& host_allocator() {
  static auto* instance = new SpyreHostAllocator;  // outlives every tensor
  return *instance;
}
void free_pinned(void* context) { host_allocator().free(context); }

REGISTER_HOST_ALLOCATOR(kSpyre, &host_allocator())

}  // namespace

bool is_pinned(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::shared_lock lock(pinned().mutex);
  auto after = pinned().ranges.upper_bound(address);
  return after != pinned().ranges.begin() && address - std::prev(after)->first < std::prev(after)->second;
}

}  // namespace torch_spyre
