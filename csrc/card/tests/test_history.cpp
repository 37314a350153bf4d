// The history of an allocator: what it keeps, what was held at the peak, and that nobody is asked for a stack under the
// allocator's lock.
#include <map>
#include <random>

#include "check.h"
#include "memory/allocator.h"

using namespace openspyre;

namespace {

struct Bench {
  Bench() : memory(7, 256 << 20, Configuration{}.host_reserve_bytes), allocator(nullptr, 0, memory, streams(), {}) {}

  Allocator::Streams streams() {
    Allocator::Streams result;
    for (size_t id = 0; id < kStreamCount; ++id) result.progress[id] = &progress[id];
    result.relieve = [](bool) {};
    return result;
  }

  std::array<Progress, kStreamCount> progress;
  DeviceMemory memory;
  Allocator allocator;
};

HistoryOptions everything() {
  HistoryOptions options;
  options.blocks = options.trace = true;
  options.stacks = HistoryOptions::Stacks::All;
  return options;
}

Bench* asked = nullptr;
int stacks_asked_for = 0;
std::shared_ptr<void> asking_source(bool) {
  ++stacks_asked_for;
  if (asked) asked->allocator.statistics();  // would wait for ever under the lock
  return std::make_shared<int>(stacks_asked_for);
}

}  // namespace

TEST(the_peak_is_what_the_trace_adds_up_to) {
  Bench bench;
  Block* early = bench.allocator.allocate(5000, 0);
  HistoryOptions options = everything();
  options.stacks = HistoryOptions::Stacks::None;
  bench.allocator.record(options, false);
  std::mt19937_64 random(2);
  std::vector<Block*> live{early};
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 || live.empty()) {
      live.push_back(bench.allocator.allocate(128 * (1 + random() % 64), static_cast<int64_t>(random() % 3)));
    } else {
      std::swap(live[random() % live.size()], live.back());
      bench.allocator.free(live.back());
      live.pop_back();
    }
  }
  const MemorySnapshot found = bench.allocator.snapshot();
  std::map<Address, size_t> held;
  uint64_t total = 5120, peak = total, of_peak = 0;
  for (const MemoryEntry& entry : found.trace) {
    if (entry.action == MemoryAction::Alloc) total += held[entry.address] = entry.bytes;
    if (entry.action == MemoryAction::FreeRequested) {
      total -= held.count(entry.address) ? held[entry.address] : 5120;
      held.erase(entry.address);
    }
    if (total <= peak) continue;
    peak = total, of_peak = 0;
    for (const auto& [address, bytes] : held) of_peak += bytes;
  }
  uint64_t shares = 0, now = 0;
  for (const auto& share : found.peak) shares += share.bytes;
  for (const auto& share : found.held) now += share.bytes;
  CHECK_EQ(found.peak_bytes, peak);
  CHECK_EQ(shares, of_peak);
  CHECK_EQ(found.held_bytes, total);
  CHECK(now == total || now + 5120 == total);
}

TEST(nobody_is_asked_for_a_stack_under_the_lock) {
  Bench bench;
  asked = &bench;
  set_stack_source(&asking_source);
  bench.allocator.record(everything(), false);
  Block* block = bench.allocator.allocate(1000, 0, "a purpose");
  bench.allocator.free(block);
  CHECK_THROWS(OutOfMemory, bench.allocator.allocate(1ull << 40, 0));
  CHECK_EQ(stacks_asked_for, 3);
  const MemorySnapshot found = bench.allocator.snapshot();
  CHECK_EQ(found.trace[1].origin->purpose, std::string("a purpose"));
  CHECK(found.trace[1].origin->stack && found.trace[2].origin->stack);
  {
    const WithoutStacks quiet;
    bench.allocator.free(bench.allocator.allocate(1000, 0, "a purpose"));
  }
  CHECK_EQ(stacks_asked_for, 3);
  bench.allocator.record({}, false);
  bench.allocator.free(bench.allocator.allocate(1000, 0));
  CHECK_EQ(stacks_asked_for, 3);
  CHECK(bench.allocator.snapshot().trace.empty());
  set_stack_source(nullptr);
  asked = nullptr;
}

TEST(a_source_that_fails_is_no_reason_to_fail) {
  Bench bench;
  set_stack_source([](bool) -> std::shared_ptr<void> { throw std::bad_alloc(); });
  bench.allocator.record(everything(), false);
  bench.allocator.free(bench.allocator.allocate(1000, 0));
  set_stack_source(nullptr);
  CHECK_EQ(bench.allocator.snapshot().trace.size(), size_t{5});  // pages, block, twice its free, the snapshot
}

TEST(a_trace_keeps_the_newest) {
  Bench bench;
  HistoryOptions options = everything();
  options.max_entries = 4;
  bench.allocator.record(options, false);
  for (int i = 1; i <= 9; ++i) bench.allocator.free(bench.allocator.allocate(static_cast<size_t>(i), 0));
  const MemorySnapshot found = bench.allocator.snapshot();
  CHECK_EQ(found.trace.size(), size_t{4});
  CHECK_EQ(found.trace[0].bytes, size_t{9});
  CHECK(found.trace[0].action == MemoryAction::Alloc && found.trace[3].action == MemoryAction::Snapshot);
}
