// The card's allocator: caching, merging, aligned to sticks, thread-safe and stream-ordered.
// Small freed chunks wait in lists of their own stream and size; everything else is kept merged and taken best fit
// first.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "memory/chunk.h"
#include "memory/history.h"
#include "memory/memory.h"
#include "streams/progress.h"

namespace openspyre {

class Allocator {
 public:
  // The streams of a card as the allocator needs them.
  struct Streams {
    std::array<const Progress*, kStreamCount> progress;
    // Before giving up, without the lock: waits for work submitted so far (unless inside a task), and if it is the host
    // that is short, has other cards return their cached pages.
    std::function<void(bool host_is_short)> relieve;
  };

  Allocator(Card* card, int card_index, DeviceMemory& memory, Streams streams, const Configuration& configuration);

  Block* allocate(size_t requested, int64_t stream, const char* purpose = nullptr);
  void free(Block* block) noexcept;
  void record_stream(Block* block, int64_t stream);
  void empty_cache();
  MemoryStatistics statistics();
  MemoryStatistics counters();  // as they stand: nothing is settled for it, and what is free is not counted
  void settle_frees();          // the shadow learns of frees that their streams have passed
  void reset_peak();
  void reset_accumulated();
  void record(const HistoryOptions& options, bool clear);
  MemorySnapshot snapshot();

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Fence {
    int64_t stream;
    Ticket ticket;
  };
  struct Awaiting {  // a Shared chunk and what it waits for
    Chunk* chunk;
    Ticket own_ticket;
    std::vector<Fence> fences;
  };
  struct Shortage {
    bool host = false;
    HostShortage details{};
  };

  const Progress& progress(int64_t stream) const { return *streams_.progress[static_cast<size_t>(stream)]; }
  bool passed(const Fence& fence) const;
  bool unused(const Chunk& chunk) const;

  // Handing out.
  Chunk* take_quick(size_t bytes, int64_t stream);
  Chunk* find_room(size_t bytes, size_t requested, int64_t stream, const OriginPtr& origin, Lock& lock);
  Chunk* carve(size_t bytes, int64_t stream, Shortage& shortage);
  Chunk* best_fit(size_t bytes, int64_t stream) const;
  void make_way_for(uint64_t missing_bytes, size_t bytes);
  void split(Chunk& chunk, size_t bytes);
  void hand_out(Chunk& chunk, size_t requested, int64_t stream, OriginPtr origin);
  [[noreturn]] void throw_out_of_memory(size_t requested, const Shortage& shortage, int64_t stream,
                                        const OriginPtr& origin);

  // Taking back.
  void release(Chunk& chunk, Ticket own_ticket, OriginPtr origin = nullptr);
  void release_shared(Chunk& chunk, OriginPtr origin);
  void insert_free(Chunk& chunk);
  void absorb(Chunk& chunk, Chunk& neighbour);
  void lift_fence(Chunk& chunk);
  void settle();  // what streams have completed by now becomes free for all
  void flush_quick();
  void return_pages(uint64_t keep_bytes);
  void trim_above_watermark();
  uint64_t cached_bytes() const;

  FreeTree& tree(int64_t stream) { return trees_[static_cast<size_t>(stream + 1)]; }
  const FreeTree& tree(int64_t stream) const { return trees_[static_cast<size_t>(stream + 1)]; }
  Chunk* new_chunk();
  void forget(Chunk& chunk) { spare_.push_back(&chunk); }
  void poison(const Chunk& chunk) const;
  void note_unused(const Chunk& chunk) const;
  void note_reserved();
  void note_allocated();  // for readers of the counters
  MemoryStatistics count_free();
  template <typename Visit>
  void for_each_counter(Visit&& visit);

  Card* const card_;
  const int card_index_;
  DeviceMemory& memory_;
  const Streams streams_;
  const bool sanitize_;
  std::atomic<bool> wants_origins_{false}, wants_free_stacks_{false};  // read without the lock
  std::atomic<bool> wants_stacks_{false}, foreign_frames_{false};
  const uint64_t watermark_bytes_;

  std::mutex mutex_;
  std::array<FreeTree, 1 + kStreamCount> trees_;  // [0] is kAnyStream's
  std::array<std::unique_ptr<QuickLists>, kStreamCount> quick_;
  std::array<FenceQueue, kStreamCount> fences_;
  std::vector<Awaiting> awaiting_;
  Chunk* first_;                            // in address order
  std::unique_ptr<MemoryHistory> history_;  // from the first recording on
  uint64_t quick_bytes_ = 0;
  uint64_t fenced_chunks_ = 0;
  uint64_t next_trim_bytes_;
  uint64_t high_water_bytes_ = 0;  // most handed out since the cache was emptied
  MemoryStatistics statistics_;
  std::deque<Chunk> chunks_;  // where chunks live; they never move
  std::vector<Chunk*> spare_;
};

}  // namespace openspyre
