// The counts of this process, in memory that `openspyre smi` reads: openspyre/spec/counters.py says what each of them
// is. Always counted, by few adds to memory that one thread at a time writes.
#pragma once

#include <array>

#include "generated/counters.h"
#include "generated/machine.h"
#include "streams/progress.h"

namespace openspyre {

struct StreamCounters {
  Progress queue;         // these two under the executors' lock
  WorkCounts work;        //
  TrafficCounts traffic;  // by any thread
};
struct CardCounters {
  MemoryCounts memory;  // under the allocator's lock
  std::array<StreamCounters, kStreamCount> streams;
};
struct Counters {
  HeadCounts head;
  ProcessCounts process;
  std::array<CardCounters, kMaxCards> cards;
};
static_assert(sizeof(Counters) == kCountsBytes && kCountedStreams == kStreamCount);

// Whole pages of any host, so that they can be exchanged for shared ones.
constexpr size_t kLargestPageBytes = 1 << 16;
struct alignas(kLargestPageBytes) CountersMemory {
  Counters counters;
};
extern CountersMemory counters_memory;
inline Counters& counters() { return counters_memory.counters; }
inline StreamCounters& counters_of(int card, int64_t stream) {
  return counters().cards[static_cast<size_t>(card)].streams[static_cast<size_t>(stream)];
}

// From now on other processes of the user can read them. If that cannot be, they stay private, and a notice says why.
void publish_counters(int visible_cards);
void note_started(int card, uint64_t memory_bytes);

inline void add(Count& count, uint64_t amount) { count.fetch_add(amount, std::memory_order_relaxed); }

enum class CopyWay { ToCard, FromCard, Within };
void count_copy(const Stream& stream, CopyWay way, uint64_t bytes, bool relayout = false);

}  // namespace openspyre
