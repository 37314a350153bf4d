#include "sanitizer/shadow.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "error.h"
#include "formats/byte_text.h"

namespace openspyre {
namespace {

// Readers take no lock: shadows come and go with their cards, before and after anybody uses their memory.
constexpr size_t kMaxShadows = 64;
std::array<std::atomic<Shadow*>, kMaxShadows> shadows{};
std::atomic<size_t> used_places{0};

void enter(Shadow* shadow) {
  for (size_t place = 0; place < kMaxShadows; ++place) {
    Shadow* empty = nullptr;
    if (!shadows[place].compare_exchange_strong(empty, shadow)) continue;
    size_t used = used_places.load();
    while (used < place + 1 && !used_places.compare_exchange_weak(used, place + 1)) continue;
    return;
  }
  fail(Fault::Internal, "there are more sanitized memories than cards");
}

void leave(const Shadow* shadow) {
  for (auto& place : shadows)
    if (place.load() == shadow) place.store(nullptr);
}

}  // namespace

Shadow::Shadow(const std::byte* memory, uint64_t bytes, uint64_t handles)
    : memory_(memory), bytes_(bytes), handles_(handles) {
  void* states = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (states == MAP_FAILED)
    fail(Fault::OutOfMemory, "cannot reserve " + byte_text(bytes) +
                                 " of address space for the sanitizer's shadow: " + std::strerror(errno) +
                                 ". Configure a card with less memory (OPENSPYRE_CARD_MEMORY_GIB) or turn the "
                                 "sanitizer off (OPENSPYRE_SANITIZE=0).");
  madvise(states, bytes, MADV_DONTFORK);
  madvise(states, bytes, MADV_DONTDUMP);
  states_ = static_cast<ByteState*>(states);
  enter(this);
}

Shadow::~Shadow() {
  leave(this);
  munmap(states_, bytes_);
}

Shadow* Shadow::of(const std::byte* memory) {
  for (size_t place = 0, used = used_places.load(std::memory_order_acquire); place < used; ++place) {
    Shadow* shadow = shadows[place].load(std::memory_order_acquire);
    if (shadow && memory >= shadow->memory_ && memory < shadow->memory_ + shadow->bytes_) return shadow;
  }
  return nullptr;
}

void Shadow::set(const std::byte* memory, uint64_t bytes, ByteState state) {
  std::memset(at(memory), static_cast<int>(state), bytes);
}

void Shadow::hand_out(const std::byte* memory, uint64_t bytes) {
  set(memory, bytes, ByteState::Uninitialised);
  std::lock_guard lock(mutex_);
  blocks_[memory] = bytes;
}

void Shadow::take_back(const std::byte* memory, uint64_t bytes) {
  set(memory, bytes, ByteState::Freed);
  std::lock_guard lock(mutex_);
  blocks_.erase(blocks_.lower_bound(memory), blocks_.lower_bound(memory + bytes));
}

void Shadow::drop_pages(const std::byte* memory, uint64_t bytes) { madvise(at(memory), bytes, MADV_DONTNEED); }

std::optional<Shadow::Extent> Shadow::block_at(const std::byte* memory) const {
  std::lock_guard lock(mutex_);
  auto block = blocks_.upper_bound(memory);
  if (block == blocks_.begin()) return std::nullopt;
  --block;
  if (memory >= block->first + block->second) return std::nullopt;
  return Extent{block->first, block->first + block->second};
}

}  // namespace openspyre
