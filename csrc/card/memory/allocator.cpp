#include "memory/allocator.h"

#include <algorithm>
#include <cstring>

#include "formats/byte_text.h"
#include "memory/memory_counter.h"

namespace openspyre {
namespace {

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
      sanitize_(configuration.sanitize && !configuration.null),
      watermark_bytes_(watermark_of(configuration)),
      next_trim_bytes_(watermark_bytes_) {
  Chunk& whole = *new_chunk();
  whole.address = memory.base();
  whole.bytes = memory.bytes() / kStickBytes * kStickBytes;
  whole.state = Chunk::State::Free;
  whole.stream = kAnyStream;
  whole.card = card;
  first_ = &whole;
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

// From here on whoever uses it uses freed memory.
void Allocator::note_unused(const Chunk& chunk) const {
  if (Shadow* shadow = memory_.shadow()) shadow->take_back(memory_.translate(chunk.address), chunk.bytes);
}

void Allocator::settle_frees() {
  Lock lock(mutex_);
  settle();
}

// --- handing out -----------------------------------------------------------------------------------------------------

Block* Allocator::allocate(size_t requested, int64_t stream, const char* purpose) {
  Chunk* chunk = nullptr;
  OriginPtr origin;  // asked for before the lock: the stack's source may have to wait
  if (wants_origins_.load(std::memory_order_relaxed)) [[unlikely]]
    origin = gather_origin(wants_stacks_, foreign_frames_, purpose);
  {
    Lock lock(mutex_);
    const size_t most = memory_.bytes();
    if (requested > most) throw_out_of_memory(requested, {}, stream, origin);
    const size_t sticks = std::max<size_t>(1, (requested + kStickBytes - 1) / kStickBytes);
    const size_t bytes = sticks * kStickBytes;
    chunk = take_quick(bytes, stream);
    if (!chunk) chunk = find_room(bytes, requested, stream, origin, lock);
    hand_out(*chunk, requested, stream, std::move(origin));
  }
  if (sanitize_) {
    poison(*chunk);
    if (Shadow* shadow = memory_.shadow()) shadow->hand_out(memory_.translate(chunk->address), chunk->bytes);
  }
  return chunk;
}

Chunk* Allocator::take_quick(size_t bytes, int64_t stream) {
  QuickLists* lists = quick_[static_cast<size_t>(stream)].get();
  if (bytes > QuickLists::kLargestBytes || !lists) return nullptr;
  Chunk* chunk = lists->top(bytes);
  // The sanitizer poisons what is handed out, so it may not hand out what queued work still reads.
  if (!chunk || (sanitize_ && chunk->fenced)) return nullptr;
  lists->pop(bytes);
  quick_bytes_ -= bytes;
  if (chunk->fenced) lift_fence(*chunk);
  return chunk;
}

void Allocator::hand_out(Chunk& chunk, size_t requested, int64_t stream, OriginPtr origin) {
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
  note_allocated();
  if (history_) [[unlikely]]
    history_->allocated(chunk, std::move(origin), statistics_.allocated_bytes.current);
}

// In order of cost: what is free now; small chunks merged and cached pages returned; everything queued waited for.
Chunk* Allocator::find_room(size_t bytes, size_t requested, int64_t stream, const OriginPtr& origin, Lock& lock) {
  Shortage shortage;
  if (Chunk* chunk = carve(bytes, stream, shortage)) return chunk;
  for (const bool last : {false, true}) {
    if (last) {
      lock.unlock();
      streams_.relieve(shortage.host);
      lock.lock();
    }
    settle();
    flush_quick();
    if (shortage.host) {
      ++statistics_.cache_flushes;
      return_pages(0);
    }
    if (Chunk* chunk = carve(bytes, stream, shortage)) return chunk;
  }
  throw_out_of_memory(requested, shortage, stream, origin);
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
  tree(chunk->stream).erase(chunk);
  if (chunk->bytes > bytes) split(*chunk, bytes);
  make_way_for(memory_.missing_bytes(chunk->address, bytes), bytes);
  if (!memory_.commit(chunk->address, bytes, shortage.details)) {
    shortage.host = true;
    insert_free(*chunk);
    return nullptr;
  }
  note_reserved();
  if (chunk->fenced) lift_fence(*chunk);
  return chunk;
}

// Where nothing cached fits, cached pages elsewhere go back instead of the card taking ever more from the host:
// fragmentation costs addresses, of which there are plenty, and no memory.
void Allocator::make_way_for(uint64_t missing_bytes, size_t bytes) {
  if (missing_bytes == 0) return;
  const uint64_t allocated = static_cast<uint64_t>(statistics_.allocated_bytes.current) + bytes;
  high_water_bytes_ = std::max(high_water_bytes_, allocated);
  const uint64_t bound = high_water_bytes_ + high_water_bytes_ / 16 + kRegionBytes;
  const uint64_t wanted = memory_.committed_bytes() + missing_bytes;
  if (wanted > bound) return_pages(cached_bytes() - std::min(cached_bytes(), wanted - bound));
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

void Allocator::throw_out_of_memory(size_t requested, const Shortage& shortage, int64_t stream,
                                    const OriginPtr& origin) {
  ++statistics_.out_of_memory;
  if (history_) {
    const uint64_t free =
        shortage.host ? shortage.details.available_bytes : static_cast<uint64_t>(count_free().free_bytes);
    history_->note(MemoryAction::OutOfMemory, free, requested, stream, origin);
  }
  const std::string card = "spyre:" + std::to_string(card_index_);
  const std::string what = "out of memory: cannot allocate " + byte_text(requested) + " on " + card + ": ";
  if (shortage.host) {
    const char* limit = shortage.details.cgroup ? "the cgroup limit of this process" : "the host's memory";
    fail(Fault::OutOfMemory,
         what + limit + " is exhausted, not the card's. The host can still back " +
             byte_text(shortage.details.available_bytes) + " beyond the reserve; " + card + " holds " +
             byte_text(memory_.committed_bytes()) + " of it. Free tensors, use a smaller batch, " +
             (shortage.details.cgroup ? "raise the cgroup's memory limit" : "close other programs") +
             " or lower the reserve (OPENSPYRE_HOST_RESERVE_MIB).");
  }
  const MemoryStatistics now = count_free();
  fail(Fault::OutOfMemory, what + "the card has " + byte_text(now.free_bytes) + " free of " +
                               byte_text(memory_.bytes()) + ", the largest free block is " +
                               byte_text(now.largest_free_block) +
                               ". Free tensors (and call empty_cache()), use a smaller batch, or split the work "
                               "over several cards.");
}

// --- statistics ------------------------------------------------------------------------------------------------------

void Allocator::record_stream(Block* block, int64_t stream) {
  Chunk& chunk = static_cast<Chunk&>(*block);
  Lock lock(mutex_);
  if (stream != chunk.stream) chunk.users.set(static_cast<size_t>(stream));
}

MemoryStatistics Allocator::count_free() {
  settle();
  flush_quick();
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

MemoryStatistics Allocator::counters() {
  Lock lock(mutex_);
  return statistics_;
}

void Allocator::reset_peak() {
  Lock lock(mutex_);
  settle();
  for_each_counter([](MemoryStatistics::Counter& counter) { counter.peak = counter.current; });
  if (history_) history_->restart_peak(statistics_.allocated_bytes.current);
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
