// The allocator's way back: freed chunks, fences of streams, merging, and pages returned to the host.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "counters/counters.h"
#include "memory/allocator.h"
#include "memory/memory_counter.h"

namespace openspyre {
namespace {

constexpr uint64_t kQuickBytes = 1 << 20;

uint64_t round_up(uint64_t bytes) { return (bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes; }

}  // namespace

void Allocator::free(Block* block) noexcept {
  Chunk& chunk = static_cast<Chunk&>(*block);
  // What a stream may still read is not touched here; it is poisoned when it is handed out again.
  if (sanitize_ && unused(chunk)) poison(chunk);
  OriginPtr origin;
  if (wants_free_stacks_.load(std::memory_order_relaxed)) [[unlikely]]
    origin = gather_origin(true, foreign_frames_, nullptr);
  Lock lock(mutex_);
  if (chunk.state != Chunk::State::Used) {
    std::fprintf(stderr, "openspyre: a block of spyre:%d was freed twice (%zu bytes at 0x%llx)\n", card_index_,
                 chunk.bytes, static_cast<unsigned long long>(chunk.address));
    std::abort();
  }
  decrease(statistics_.allocated_bytes, chunk.bytes);
  decrease(statistics_.requested_bytes, chunk.requested);
  decrease(statistics_.allocations, 1);
  note_allocated();
  if (history_) [[unlikely]]
    history_->free_requested(chunk, origin);
  if (chunk.users.none())
    release(chunk, progress(chunk.stream).submitted.load(std::memory_order_acquire), std::move(origin));
  else
    release_shared(chunk, std::move(origin));
  if (cached_bytes() > next_trim_bytes_) trim_above_watermark();
}

void Allocator::release_shared(Chunk& chunk, OriginPtr origin) {
  Awaiting waiting{&chunk, progress(chunk.stream).submitted.load(std::memory_order_acquire), {}};
  for (size_t stream = 0; stream < kStreamCount; ++stream) {
    if (!chunk.users[stream]) continue;
    const int64_t id = static_cast<int64_t>(stream);
    const Fence fence{id, progress(id).submitted.load(std::memory_order_acquire)};
    if (!passed(fence)) waiting.fences.push_back(fence);
  }
  if (waiting.fences.empty()) return release(chunk, waiting.own_ticket, std::move(origin));
  chunk.state = Chunk::State::Shared;
  awaiting_.push_back(std::move(waiting));
}

void Allocator::release(Chunk& chunk, Ticket own_ticket, OriginPtr origin) {
  if (history_) [[unlikely]]
    history_->free_completed(chunk, std::move(origin));  // its own stream may have it at once
  if (passed({chunk.stream, own_ticket})) {
    decrease(statistics_.active_bytes, chunk.bytes);
    note_unused(chunk);
  } else {
    chunk.fence = own_ticket;
    fences_[static_cast<size_t>(chunk.stream)].append(chunk);
    ++fenced_chunks_;
  }
  if (chunk.bytes > QuickLists::kLargestBytes) return insert_free(chunk);
  auto& lists = quick_[static_cast<size_t>(chunk.stream)];
  if (!lists) lists = std::make_unique<QuickLists>();
  chunk.state = Chunk::State::Quick;
  lists->push(chunk);
  quick_bytes_ += chunk.bytes;
  // Unmerged chunks must not become a noticeable part of the memory.
  if (quick_bytes_ > std::max<uint64_t>(kQuickBytes, static_cast<uint64_t>(statistics_.allocated_bytes.current) / 64))
    flush_quick();
}

void Allocator::insert_free(Chunk& chunk) {
  chunk.state = Chunk::State::Free;
  if (!chunk.fenced) chunk.stream = kAnyStream;
  const auto mergeable = [&](const Chunk* neighbour) {
    return neighbour && neighbour->state == Chunk::State::Free && neighbour->stream == chunk.stream;
  };
  if (mergeable(chunk.after)) absorb(chunk, *chunk.after);
  if (mergeable(chunk.before)) {
    chunk.address = chunk.before->address;
    absorb(chunk, *chunk.before);
  }
  tree(chunk.stream).insert(&chunk);
}

void Allocator::absorb(Chunk& chunk, Chunk& neighbour) {
  tree(neighbour.stream).erase(&neighbour);
  chunk.bytes += neighbour.bytes;
  if (neighbour.fenced) {
    chunk.fence = std::max(chunk.fence, neighbour.fence);
    fences_[static_cast<size_t>(neighbour.stream)].remove(neighbour);
    --fenced_chunks_;
  }
  if (&neighbour == chunk.after) {
    chunk.after = neighbour.after;
    if (chunk.after) chunk.after->before = &chunk;
  } else {
    chunk.before = neighbour.before;
    (chunk.before ? chunk.before->after : first_) = &chunk;
  }
  forget(neighbour);
}

void Allocator::lift_fence(Chunk& chunk) {
  fences_[static_cast<size_t>(chunk.stream)].remove(chunk);
  --fenced_chunks_;
  decrease(statistics_.active_bytes, chunk.bytes);
  note_unused(chunk);
}

void Allocator::settle() {
  for (size_t i = 0; i < awaiting_.size();) {
    Awaiting& waiting = awaiting_[i];
    std::erase_if(waiting.fences, [this](const Fence& fence) { return passed(fence); });
    if (!waiting.fences.empty()) {
      ++i;
      continue;
    }
    const Awaiting done = std::move(waiting);
    awaiting_[i] = std::move(awaiting_.back());
    awaiting_.pop_back();
    release(*done.chunk, done.own_ticket);
  }
  for (size_t stream = 0; fenced_chunks_ && stream < kStreamCount; ++stream) {
    if (!fences_[stream].front()) continue;
    const Ticket completed = streams_.progress[stream]->completed.load(std::memory_order_acquire);
    while (Chunk* chunk = fences_[stream].front()) {
      if (chunk->fence > completed) break;
      lift_fence(*chunk);
      if (chunk->state != Chunk::State::Free) continue;
      tree(chunk->stream).erase(chunk);
      insert_free(*chunk);
    }
  }
}

void Allocator::flush_quick() {
  if (quick_bytes_ == 0) return;
  for (auto& lists : quick_) {
    if (!lists) continue;
    while (Chunk* chunk = lists->take_any()) insert_free(*chunk);
  }
  quick_bytes_ = 0;
}

// --- pages -----------------------------------------------------------------------------------------------------------

uint64_t Allocator::cached_bytes() const {
  return memory_.committed_bytes() - static_cast<uint64_t>(statistics_.allocated_bytes.current);
}

void Allocator::note_reserved() {
  const int64_t change = static_cast<int64_t>(memory_.committed_bytes()) - statistics_.reserved_bytes.current;
  if (change > 0) increase(statistics_.reserved_bytes, static_cast<size_t>(change));
  if (change < 0) decrease(statistics_.reserved_bytes, static_cast<size_t>(-change));
  openspyre::counters().cards[static_cast<size_t>(card_index_)].memory.reserved_bytes.store(memory_.committed_bytes(),
                                                                                            std::memory_order_relaxed);
}

void Allocator::note_allocated() {
  openspyre::counters().cards[static_cast<size_t>(card_index_)].memory.allocated_bytes.store(
      static_cast<uint64_t>(statistics_.allocated_bytes.current), std::memory_order_relaxed);
}

void Allocator::return_pages(uint64_t keep_bytes) {
  const FreeTree& free_chunks = tree(kAnyStream);
  for (auto chunk = free_chunks.rbegin(); chunk != free_chunks.rend(); ++chunk) {
    if ((*chunk)->bytes < kGranuleBytes && (*chunk)->after) break;
    const uint64_t cached = cached_bytes();
    if (cached <= keep_bytes) break;
    memory_.release_inside((*chunk)->address, (*chunk)->bytes, round_up(cached - keep_bytes));
  }
  note_reserved();
}

void Allocator::trim_above_watermark() {
  settle();
  flush_quick();
  return_pages(watermark_bytes_ / 2);
  // What streams still use could not go: do not try again at every free.
  next_trim_bytes_ = std::max(watermark_bytes_, cached_bytes() + watermark_bytes_ / 8 + kGranuleBytes);
}

void Allocator::empty_cache() {
  Lock lock(mutex_);
  settle();
  flush_quick();
  return_pages(0);
  high_water_bytes_ = static_cast<uint64_t>(statistics_.allocated_bytes.current);
  ++statistics_.cache_flushes;
}

}  // namespace openspyre
