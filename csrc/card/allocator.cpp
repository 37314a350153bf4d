#include "allocator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "byte_text.h"

namespace openspyre {
namespace {

constexpr uint64_t kQuickBytes = 1 << 20;

void increase(MemoryStatistics::Counter& counter, size_t amount) {
  counter.current += static_cast<int64_t>(amount);
  counter.allocated += static_cast<int64_t>(amount);
  counter.peak = std::max(counter.peak, counter.current);
}

void decrease(MemoryStatistics::Counter& counter, size_t amount) {
  counter.current -= static_cast<int64_t>(amount);
  counter.freed += static_cast<int64_t>(amount);
}

uint64_t watermark_of(const Configuration& configuration) {
  const double share = configuration.cache_watermark / std::max(1, configuration.cards);
  return static_cast<uint64_t>(share * static_cast<double>(host_memory().total_bytes));
}

}  // namespace

Allocator::Allocator(Card* card, int card_index, DeviceMemory& memory, Streams streams,
                     const Configuration& configuration)
    : card_(card),
      card_index_(card_index),
      memory_(memory),
      streams_(std::move(streams)),
      sanitize_(configuration.sanitize),
      watermark_bytes_(watermark_of(configuration)),
      next_trim_bytes_(watermark_bytes_) {
  Chunk& whole = *new_chunk();
  whole.address = memory.base();
  whole.bytes = memory.bytes() / kStickBytes * kStickBytes;
  whole.state = Chunk::State::Free;
  whole.stream = kAnyStream;
  whole.card = card;
  tree(kAnyStream).insert(&whole);
}

bool Allocator::passed(const Fence& fence) const {
  return progress(fence.stream).completed.load(std::memory_order_acquire) >= fence.ticket;
}

bool Allocator::unused(const Chunk& chunk) const {
  if (!progress(chunk.stream).idle()) return false;
  for (size_t stream = 0; stream < kStreamCount; ++stream)
    if (chunk.users[stream] && !progress(static_cast<int64_t>(stream)).idle()) return false;
  return true;
}

Chunk* Allocator::new_chunk() {
  if (spare_.empty()) return &chunks_.emplace_back();
  Chunk* chunk = spare_.back();
  spare_.pop_back();
  return chunk;
}

void Allocator::poison(const Chunk& chunk) const {
  std::memset(memory_.translate(chunk.address), kPoison, chunk.bytes);
}

// --- handing out -----------------------------------------------------------------------------------------------------

Block* Allocator::allocate(size_t requested, int64_t stream) {
  Chunk* chunk = nullptr;
  {
    Lock lock(mutex_);
    const size_t most = memory_.bytes();
    if (requested > most) throw_out_of_memory(requested, {});
    const size_t sticks = std::max<size_t>(1, (requested + kStickBytes - 1) / kStickBytes);
    const size_t bytes = sticks * kStickBytes;
    chunk = take_quick(bytes, stream);
    if (!chunk) chunk = find_room(bytes, requested, stream, lock);
    hand_out(*chunk, requested, stream);
  }
  if (sanitize_) poison(*chunk);
  return chunk;
}

Chunk* Allocator::take_quick(size_t bytes, int64_t stream) {
  QuickLists* lists = quick_[static_cast<size_t>(stream)].get();
  if (bytes > QuickLists::kLargestBytes || !lists) return nullptr;
  Chunk* chunk = lists->top(bytes);
  // The unkind card poisons what it hands out, so it may not hand out what queued work still reads.
  if (!chunk || (sanitize_ && chunk->fenced)) return nullptr;
  lists->pop(bytes);
  quick_bytes_ -= bytes;
  if (chunk->fenced) lift_fence(*chunk);
  return chunk;
}

void Allocator::hand_out(Chunk& chunk, size_t requested, int64_t stream) {
  chunk.state = Chunk::State::Used;
  chunk.stream = stream;
  chunk.requested = requested;
  chunk.users.reset();
  if (fenced_chunks_ &&
      statistics_.active_bytes.current + static_cast<int64_t>(chunk.bytes) > statistics_.active_bytes.peak)
    settle();  // the peak counts only what is really in use
  increase(statistics_.allocated_bytes, chunk.bytes);
  increase(statistics_.requested_bytes, requested);
  increase(statistics_.active_bytes, chunk.bytes);
  increase(statistics_.allocations, 1);
}

// In order of cost: what is free now; small chunks merged and cached pages returned; everything queued waited for.
Chunk* Allocator::find_room(size_t bytes, size_t requested, int64_t stream, Lock& lock) {
  Shortage shortage;
  if (Chunk* chunk = carve(bytes, stream, shortage)) return chunk;
  for (const bool drain : {false, true}) {
    if (drain) {
      lock.unlock();
      streams_.drain();
      lock.lock();
    }
    flush_quick();
    settle();
    if (shortage.host) {
      ++statistics_.cache_flushes;
      return_pages(0);
    }
    if (Chunk* chunk = carve(bytes, stream, shortage)) return chunk;
  }
  throw_out_of_memory(requested, shortage);
}

Chunk* Allocator::best_fit(size_t bytes, int64_t stream) const {
  const FreeTree& all = tree(kAnyStream);
  const auto of_all = all.lower_bound(bytes);
  Chunk* best = of_all == all.end() ? nullptr : *of_all;
  if (sanitize_) return best;
  const FreeTree& own = tree(stream);
  const auto of_own = own.lower_bound(bytes);
  return of_own == own.end() || (best && best->bytes < (*of_own)->bytes) ? best : *of_own;
}

Chunk* Allocator::carve(size_t bytes, int64_t stream, Shortage& shortage) {
  settle();
  Chunk* chunk = best_fit(bytes, stream);
  shortage.host = false;
  if (!chunk) return nullptr;
  if (!memory_.commit(chunk->address, bytes, shortage.details)) {
    shortage.host = true;
    return nullptr;
  }
  note_reserved();
  tree(chunk->stream).erase(chunk);
  if (chunk->bytes > bytes) split(*chunk, bytes);
  if (chunk->fenced) lift_fence(*chunk);
  return chunk;
}

// The rest behind the first `bytes` becomes a free chunk of the same stream, behind the same fence.
void Allocator::split(Chunk& chunk, size_t bytes) {
  Chunk& rest = *new_chunk();
  rest.address = chunk.address + bytes;
  rest.bytes = chunk.bytes - bytes;
  rest.card = card_;
  rest.stream = chunk.stream;
  rest.state = Chunk::State::Free;
  rest.before = &chunk;
  rest.after = chunk.after;
  if (rest.after) rest.after->before = &rest;
  chunk.after = &rest;
  chunk.bytes = bytes;
  rest.fenced = chunk.fenced;
  if (rest.fenced) {
    rest.fence = chunk.fence;
    fences_[static_cast<size_t>(rest.stream)].append(rest);
    ++fenced_chunks_;
  }
  tree(rest.stream).insert(&rest);
}

void Allocator::throw_out_of_memory(size_t requested, const Shortage& shortage) {
  ++statistics_.out_of_memory;
  const std::string card = "spyre:" + std::to_string(card_index_);
  const std::string what = "out of memory: cannot allocate " + byte_text(requested) + " on " + card + ": ";
  if (shortage.host) {
    const char* limit = shortage.details.cgroup ? "the cgroup limit of this process" : "the host's memory";
    fail(Fault::OutOfMemory,
         what + limit + " is exhausted, not the card's. The host can still back " +
             byte_text(shortage.details.available_bytes) + " beyond the reserve; " + card + " holds " +
             byte_text(memory_.committed_bytes()) + " of it. Free tensors, use a smaller batch, " +
             (shortage.details.cgroup ? "raise the cgroup's memory limit" : "close other programs") +
             " or lower the reserve (host_reserve_bytes).");
  }
  const MemoryStatistics now = count_free();
  fail(Fault::OutOfMemory, what + "the card has " + byte_text(now.free_bytes) + " free of " +
                               byte_text(memory_.bytes()) + ", the largest free block is " +
                               byte_text(now.largest_free_block) +
                               ". Free tensors (and call empty_cache()), use a smaller batch, or split the work "
                               "over several cards.");
}

// --- taking back -----------------------------------------------------------------------------------------------------

void Allocator::free(Block* block) noexcept {
  Chunk& chunk = static_cast<Chunk&>(*block);
  // What a stream may still read is not touched here; it is poisoned when it is handed out again.
  if (sanitize_ && unused(chunk)) poison(chunk);
  Lock lock(mutex_);
  if (chunk.state != Chunk::State::Used) {
    std::fprintf(stderr, "openspyre: a block of spyre:%d was freed twice (%zu bytes at 0x%llx)\n", card_index_,
                 chunk.bytes, static_cast<unsigned long long>(chunk.address));
    std::abort();
  }
  decrease(statistics_.allocated_bytes, chunk.bytes);
  decrease(statistics_.requested_bytes, chunk.requested);
  decrease(statistics_.allocations, 1);
  if (chunk.users.none())
    release(chunk, progress(chunk.stream).submitted.load(std::memory_order_acquire));
  else
    release_shared(chunk);
  if (cached_bytes() > next_trim_bytes_) trim_above_watermark();
}

void Allocator::release_shared(Chunk& chunk) {
  Awaiting waiting{&chunk, progress(chunk.stream).submitted.load(std::memory_order_acquire), {}};
  for (size_t stream = 0; stream < kStreamCount; ++stream) {
    if (!chunk.users[stream]) continue;
    const int64_t id = static_cast<int64_t>(stream);
    const Fence fence{id, progress(id).submitted.load(std::memory_order_acquire)};
    if (!passed(fence)) waiting.fences.push_back(fence);
  }
  if (waiting.fences.empty()) return release(chunk, waiting.own_ticket);
  chunk.state = Chunk::State::Shared;
  awaiting_.push_back(std::move(waiting));
}

void Allocator::release(Chunk& chunk, Ticket own_ticket) {
  if (passed({chunk.stream, own_ticket})) {
    decrease(statistics_.active_bytes, chunk.bytes);
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
    if (chunk.before) chunk.before->after = &chunk;
  }
  forget(neighbour);
}

void Allocator::lift_fence(Chunk& chunk) {
  fences_[static_cast<size_t>(chunk.stream)].remove(chunk);
  --fenced_chunks_;
  decrease(statistics_.active_bytes, chunk.bytes);
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
}

void Allocator::return_pages(uint64_t keep_bytes) {
  const FreeTree& free_chunks = tree(kAnyStream);
  for (auto chunk = free_chunks.rbegin(); chunk != free_chunks.rend(); ++chunk) {
    if ((*chunk)->bytes < kGranuleBytes && (*chunk)->after) break;
    if (cached_bytes() <= keep_bytes) break;
    memory_.release_inside((*chunk)->address, (*chunk)->bytes);
  }
  note_reserved();
}

void Allocator::trim_above_watermark() {
  flush_quick();
  settle();
  return_pages(watermark_bytes_ / 2);
  // What streams still use could not go: do not try again at every free.
  next_trim_bytes_ = std::max(watermark_bytes_, cached_bytes() + watermark_bytes_ / 8 + kGranuleBytes);
}

void Allocator::empty_cache() {
  Lock lock(mutex_);
  flush_quick();
  settle();
  return_pages(0);
  ++statistics_.cache_flushes;
}

// --- statistics ------------------------------------------------------------------------------------------------------

void Allocator::record_stream(Block* block, int64_t stream) {
  Chunk& chunk = static_cast<Chunk&>(*block);
  Lock lock(mutex_);
  if (stream != chunk.stream) chunk.users.set(static_cast<size_t>(stream));
}

MemoryStatistics Allocator::count_free() {
  flush_quick();
  settle();
  MemoryStatistics now = statistics_;
  now.free_bytes = memory_.bytes() - static_cast<uint64_t>(now.active_bytes.current);
  const FreeTree& free_chunks = tree(kAnyStream);
  now.largest_free_block = free_chunks.empty() ? 0 : (*free_chunks.rbegin())->bytes;
  return now;
}

MemoryStatistics Allocator::statistics() {
  Lock lock(mutex_);
  return count_free();
}

void Allocator::reset_peak() {
  Lock lock(mutex_);
  settle();
  for_each_counter([](MemoryStatistics::Counter& counter) { counter.peak = counter.current; });
}

void Allocator::reset_accumulated() {
  Lock lock(mutex_);
  for_each_counter([](MemoryStatistics::Counter& counter) { counter.allocated = counter.freed = 0; });
  statistics_.out_of_memory = statistics_.cache_flushes = 0;
}

template <typename Visit>
void Allocator::for_each_counter(Visit&& visit) {
  for (auto* counter : {&statistics_.allocated_bytes, &statistics_.requested_bytes, &statistics_.reserved_bytes,
                        &statistics_.active_bytes, &statistics_.allocations})
    visit(*counter);
}

}  // namespace openspyre
