// Generated from openspyre/spec/counters.py by csrc/generate.py (`make generate`): do not edit.
// clang-format off
#pragma once

#include <cstddef>
#include <cstdint>

#include <atomic>

namespace openspyre {

constexpr uint64_t kCountsMagic = 8319395785178379119u;
constexpr uint64_t kCountsLayout = 1803254661u;
constexpr size_t kCountsBytes = 133760;
constexpr int kCountedStreams = 65;

constexpr const char* kCountsName = "openspyre-counters";

using Count = std::atomic<uint64_t>;

struct alignas(64) HeadCounts {
  Count magic{0};  // says that these are counters
  Count layout{0};  // which layout follows
  Count bytes{0};  // all of it
  Count pid{0};  // of the process, as it sees itself
  Count began_ns{0};  // when it took its first card into use, in CLOCK_REALTIME
  Count cards{0};  // cards that it sees
  Count started{0};  // a bit for each that it has used
};

struct alignas(64) ProcessCounts {
  Count eager_compiles{0};  // calls that were compiled
  Count graph_plans{0};  // launches of graphs that had to be specialised: compiled, or found on disk
  Count graph_compiles{0};  // of these, compiled
  Count text_cache_hits{0};  // of these, found on disk
  Count retiled_weights{0};  // parameters that were moved to the layout that graphs prefer
};

struct alignas(64) MemoryCounts {
  Count total_bytes{0};  // memory of the card
  Count allocated_bytes{0};  // of it, what tensors hold
  Count reserved_bytes{0};  // memory of the host behind it, in use or cached
};

struct alignas(64) QueueCounts {
  Count submitted{0};  // tasks that the host has submitted: launches, copies, events
  Count completed{0};  // tasks that have ended
  Count launches{0};  // programs that the host has launched
};

struct alignas(64) WorkCounts {
  Count steps{0};  // executions of ops, with the passes of loops
  Count macs{0};  // products that were added up
  Count memory_read_bytes{0};  // read from the card's memory
  Count memory_written_bytes{0};  // written to the card's memory
  Count scratchpad_read_bytes{0};  // read from scratchpads
  Count scratchpad_written_bytes{0};  // written to scratchpads
  Count ring_bytes{0};  // moved from core to core over the rings
  Count relayouts{0};  // steps that move elements to other sticks
  Count extension_ops{0};  // steps that a real card leaves to the host
  Count predicted_ns{0};  // what a real card would be busy, by the clock
  Count array_ns{0};  // what the PT arrays would need for the products at their best
};

struct alignas(64) TrafficCounts {
  Count copies_to_card{0};  // copies from the host to the card
  Count to_card_bytes{0};  // their bytes
  Count copies_from_card{0};  // copies from the card to the host
  Count from_card_bytes{0};  // their bytes
  Count copies_within{0};  // copies within a card or to another one
  Count within_bytes{0};  // their bytes
  Count relayout_copies{0};  // copies within the card that move elements to other sticks
  Count fallbacks{0};  // operators that ran on the CPU
};

struct LaunchWork {
  uint64_t steps = 0;
  uint64_t macs = 0;
  uint64_t memory_read_bytes = 0;
  uint64_t memory_written_bytes = 0;
  uint64_t scratchpad_read_bytes = 0;
  uint64_t scratchpad_written_bytes = 0;
  uint64_t ring_bytes = 0;
  uint64_t relayouts = 0;
  uint64_t extension_ops = 0;
  uint64_t predicted_ns = 0;
  uint64_t array_ns = 0;
};
constexpr size_t kLaunchWorkWords = 11;

// Where a lock keeps other writers away.
inline void add_alone(Count& count, uint64_t amount) {
  count.store(count.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}
inline void add_alone(WorkCounts& counts, const LaunchWork& work) {
  add_alone(counts.steps, work.steps);
  add_alone(counts.macs, work.macs);
  add_alone(counts.memory_read_bytes, work.memory_read_bytes);
  add_alone(counts.memory_written_bytes, work.memory_written_bytes);
  add_alone(counts.scratchpad_read_bytes, work.scratchpad_read_bytes);
  add_alone(counts.scratchpad_written_bytes, work.scratchpad_written_bytes);
  add_alone(counts.ring_bytes, work.ring_bytes);
  add_alone(counts.relayouts, work.relayouts);
  add_alone(counts.extension_ops, work.extension_ops);
  add_alone(counts.predicted_ns, work.predicted_ns);
  add_alone(counts.array_ns, work.array_ns);
}

}  // namespace openspyre
