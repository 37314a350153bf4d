// The allocator against a model of its own: who holds what, and which stream may still use what was freed.
#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "check.h"
#include "memory/allocator.h"

using namespace openspyre;

namespace {

// A memory and an allocator whose streams the test moves by hand.
struct Bench {
  explicit Bench(uint64_t bytes, Configuration configuration = {})
      : memory(7, bytes, configuration.host_reserve_bytes), allocator(nullptr, 0, memory, streams(), configuration) {}

  Allocator::Streams streams() {
    Allocator::Streams result;
    for (size_t id = 0; id < kStreamCount; ++id) result.progress[id] = &progress[id];
    result.relieve = [this](bool) {
      ++reliefs;
      if (complete_on_relief) complete_all();
    };
    return result;
  }
  void submit(int64_t stream) { ++progress[static_cast<size_t>(stream)].submitted; }
  void complete(int64_t stream) {
    Progress& p = progress[static_cast<size_t>(stream)];
    p.completed = p.submitted.load();
  }
  void complete_all() {
    for (int64_t id = 0; id < kStreamCount; ++id) complete(id);
  }

  std::array<Progress, kStreamCount> progress;
  int reliefs = 0;
  bool complete_on_relief = false;
  DeviceMemory memory;
  Allocator allocator;
};

struct Freed {
  Address begin, end;
  int64_t stream;
  Ticket ticket;
  std::vector<std::pair<int64_t, Ticket>> others;
};

// What must hold, kept without looking into the allocator.
class Model {
 public:
  explicit Model(Bench& bench) : bench_(bench) {}

  void allocated(const Block& block) {
    CHECK_EQ(block.address % kStickBytes, 0u);
    CHECK_EQ(block.bytes % kStickBytes, 0u);
    CHECK(block.bytes >= block.requested && block.bytes - block.requested <= kStickBytes);
    CHECK(block.address >= bench_.memory.base());
    CHECK(block.address + block.bytes <= bench_.memory.base() + bench_.memory.bytes());
    const auto next = live_.lower_bound(block.address);
    CHECK(next == live_.end() || block.address + block.bytes <= next->first);
    CHECK(next == live_.begin() || std::prev(next)->second <= block.address);
    for (const Freed& freed : freed_)
      if (freed.begin < block.address + block.bytes && block.address < freed.end) check_order(freed, block.stream);
    live_[block.address] = block.address + block.bytes;
  }

  void freed(const Block& block, const std::vector<int64_t>& others) {
    live_.erase(block.address);
    Freed freed{block.address, block.address + block.bytes, block.stream, submitted(block.stream), {}};
    for (const int64_t other : others) freed.others.emplace_back(other, submitted(other));
    freed_.push_back(freed);
  }

  void forget_completed() {
    std::erase_if(freed_, [this](const Freed& freed) {
      return done(freed.stream, freed.ticket) &&
             std::all_of(freed.others.begin(), freed.others.end(), [this](auto o) { return done(o.first, o.second); });
    });
  }

 private:
  Ticket submitted(int64_t stream) const { return bench_.progress[static_cast<size_t>(stream)].submitted; }
  bool done(int64_t stream, Ticket ticket) const {
    return bench_.progress[static_cast<size_t>(stream)].completed >= ticket;
  }
  void check_order(const Freed& freed, int64_t stream) const {
    CHECK(stream == freed.stream || done(freed.stream, freed.ticket));
    for (const auto& [other, ticket] : freed.others) CHECK(done(other, ticket));
  }

  Bench& bench_;
  std::map<Address, Address> live_;
  std::vector<Freed> freed_;
};

size_t random_size(std::mt19937_64& random, int smallest_log2, int largest_log2) {
  const double log2 = std::uniform_real_distribution<double>(smallest_log2, largest_log2)(random);
  return static_cast<size_t>(std::exp2(log2));
}

Configuration with_watermark(double bytes) {
  Configuration configuration;
  configuration.cache_watermark = bytes / static_cast<double>(host_memory().total_bytes);
  return configuration;
}

}  // namespace

TEST(random_traffic_on_several_streams_never_overlaps_and_keeps_stream_order) {
  Bench bench(256 << 20);
  Model model(bench);
  std::mt19937_64 random(1);
  struct Live {
    Block* block;
    std::vector<int64_t> others;
  };
  std::vector<Live> live;
  for (int step = 0; step < 60000 && check::failures == 0; ++step) {
    const int64_t stream = static_cast<int64_t>(random() % 5);
    const unsigned action = static_cast<unsigned>(random() % 16);
    if (action < 7 && live.size() < 400) {
      Block* block = bench.allocator.allocate(random_size(random, 0, 17), stream);
      model.allocated(*block);
      live.push_back({block, {}});
    } else if (action < 12 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      model.freed(*live.back().block, live.back().others);
      bench.allocator.free(live.back().block);
      live.pop_back();
    } else if (action == 12 && !live.empty()) {
      Live& shared = live[random() % live.size()];
      bench.allocator.record_stream(shared.block, stream);
      if (stream != shared.block->stream) shared.others.push_back(stream);
    } else if (action == 13) {
      bench.submit(stream);
    } else if (action == 14) {
      Progress& progress = bench.progress[static_cast<size_t>(stream)];
      if (progress.completed < progress.submitted) ++progress.completed;
      model.forget_completed();
    } else if (step % 512 == 0) {
      bench.allocator.empty_cache();
    }
  }
  for (const Live& rest : live) bench.allocator.free(rest.block);
  bench.complete_all();
  const MemoryStatistics end = bench.allocator.statistics();
  CHECK_EQ(end.allocated_bytes.current, 0);
  CHECK_EQ(end.active_bytes.current, 0);
  CHECK_EQ(end.largest_free_block, bench.memory.bytes());
}

TEST(a_hundred_thousand_random_allocations_leave_no_leak_and_little_fragmentation) {
  Bench bench(64ull << 30);
  std::mt19937_64 random(2);
  std::vector<Block*> live;
  int64_t bytes = 0;
  double worst = 0;
  for (int step = 0; step < 100000; ++step) {
    if (bytes < (256 << 20)) {
      live.push_back(bench.allocator.allocate(random_size(random, 5, 22), 0));
      bytes += static_cast<int64_t>(live.back()->bytes);
    } else {
      std::swap(live[random() % live.size()], live.back());
      bytes -= static_cast<int64_t>(live.back()->bytes);
      bench.allocator.free(live.back());
      live.pop_back();
    }
    if (step % 1000 == 999 && step > 10000) {
      const MemoryStatistics now = bench.allocator.statistics();
      CHECK_EQ(now.allocated_bytes.current, bytes);
      worst = std::max(worst, 1.0 - static_cast<double>(bytes) / static_cast<double>(now.reserved_bytes.current));
    }
  }
  std::printf("  worst fragmentation at steady load: %.1f %%\n", 100 * worst);
  CHECK(worst <= 0.10);
  for (Block* block : live) bench.allocator.free(block);
  const MemoryStatistics end = bench.allocator.statistics();
  CHECK_EQ(end.allocations.current, 0);
  CHECK_EQ(end.requested_bytes.current, 0);
  CHECK_EQ(end.largest_free_block, bench.memory.bytes());
  bench.allocator.empty_cache();
  CHECK_EQ(bench.memory.committed_bytes(), 0u);
}

TEST(a_freed_block_returns_to_its_own_stream_at_once_and_to_others_when_completed) {
  for (const size_t bytes : {size_t{512}, size_t{4 << 20}}) {
    Bench bench(64 << 20);
    Block* first = bench.allocator.allocate(bytes, 1);
    const Address address = first->address;
    bench.submit(1);
    bench.allocator.free(first);
    Block* foreign = bench.allocator.allocate(bytes, 2);
    CHECK(foreign->address != address);
    Block* own = bench.allocator.allocate(bytes, 1);
    CHECK_EQ(own->address, address);
    bench.allocator.free(own);
    bench.complete(1);
    bench.allocator.empty_cache();
    Block* later = bench.allocator.allocate(bytes, 2);
    CHECK_EQ(later->address, address);
    bench.allocator.free(later);
    bench.allocator.free(foreign);
  }
}

TEST(a_recorded_stream_keeps_a_freed_block_even_from_its_own_stream) {
  Bench bench(64 << 20);
  Block* block = bench.allocator.allocate(1024, 0);
  const Address address = block->address;
  bench.allocator.record_stream(block, 3);
  bench.submit(3);
  bench.allocator.free(block);
  CHECK_EQ(bench.allocator.statistics().active_bytes.current, 1024);
  CHECK_EQ(bench.allocator.statistics().allocated_bytes.current, 0);
  Block* other = bench.allocator.allocate(1024, 0);
  CHECK(other->address != address);
  bench.complete(3);
  CHECK_EQ(bench.allocator.statistics().active_bytes.current, 1024);  // `other` alone
  Block* again = bench.allocator.allocate(1024, 0);
  CHECK_EQ(again->address, address);
}

TEST(zero_bytes_take_one_stick) {
  Bench bench(4 << 20);
  Block* block = bench.allocator.allocate(0, 0);
  CHECK_EQ(block->bytes, size_t{kStickBytes});
  CHECK_EQ(block->requested, 0u);
}

TEST(statistics_count_current_peak_and_totals) {
  Bench bench(64 << 20);
  Block* a = bench.allocator.allocate(100, 0);
  Block* b = bench.allocator.allocate(1000, 0);
  bench.allocator.free(a);
  MemoryStatistics now = bench.allocator.statistics();
  CHECK_EQ(now.allocated_bytes.current, 1024);
  CHECK_EQ(now.allocated_bytes.peak, 1152);
  CHECK_EQ(now.allocated_bytes.allocated, 1152);
  CHECK_EQ(now.allocated_bytes.freed, 128);
  CHECK_EQ(now.requested_bytes.current, 1000);
  CHECK_EQ(now.requested_bytes.peak, 1100);
  CHECK_EQ(now.allocations.current, 1);
  CHECK_EQ(now.reserved_bytes.current, static_cast<int64_t>(kRegionBytes));
  CHECK_EQ(now.free_bytes, (64u << 20) - 1024);
  bench.allocator.reset_peak();
  bench.allocator.reset_accumulated();
  now = bench.allocator.statistics();
  CHECK_EQ(now.allocated_bytes.peak, 1024);
  CHECK_EQ(now.allocated_bytes.allocated, 0);
  bench.allocator.free(b);
}

TEST(the_peak_of_active_bytes_ignores_what_streams_have_completed) {
  Bench bench(64 << 20);
  for (int i = 0; i < 4; ++i) {
    Block* block = bench.allocator.allocate(1 << 20, i);
    bench.submit(i);
    bench.allocator.free(block);
    bench.complete(i);
  }
  CHECK_EQ(bench.allocator.statistics().active_bytes.peak, 1 << 20);
}

TEST(a_full_card_names_requested_free_and_largest_block) {
  Bench bench(8 << 20);
  Block* a = bench.allocator.allocate(2 << 20, 0);
  Block* b = bench.allocator.allocate(3 << 20, 0);
  Block* c = bench.allocator.allocate(3 << 20, 0);
  bench.allocator.free(b);
  CHECK_THROWS_SAYING(OutOfMemory, "cannot allocate 4.00 MiB on spyre:0", bench.allocator.allocate(4 << 20, 0));
  CHECK_THROWS_SAYING(OutOfMemory, "3.00 MiB free of 8.00 MiB, the largest free block is 3.00 MiB",
                      bench.allocator.allocate(4 << 20, 0));
  CHECK_THROWS_SAYING(OutOfMemory, "empty_cache", bench.allocator.allocate(SIZE_MAX, 0));
  CHECK_EQ(bench.allocator.statistics().out_of_memory, 3);
  bench.allocator.free(a);
  Block* fits = bench.allocator.allocate(5 << 20, 0);  // a and b are neighbours
  CHECK_EQ(fits->bytes, size_t{5 << 20});
  bench.allocator.free(c);
}

TEST(small_cached_blocks_are_merged_before_the_card_counts_as_full) {
  Bench bench(2 << 20);
  std::vector<Block*> blocks;
  for (int i = 0; i < 2048; ++i) blocks.push_back(bench.allocator.allocate(1024, i % 3));
  CHECK_THROWS(OutOfMemory, bench.allocator.allocate(1, 0));
  for (Block* block : blocks) bench.allocator.free(block);
  Block* whole = bench.allocator.allocate(2 << 20, 5);
  CHECK_EQ(whole->bytes, size_t{2 << 20});
}

TEST(running_work_is_waited_for_before_the_card_counts_as_full) {
  Bench bench(4 << 20);
  Block* block = bench.allocator.allocate(3 << 20, 1);
  bench.submit(1);
  bench.allocator.free(block);
  CHECK_THROWS(OutOfMemory, bench.allocator.allocate(3 << 20, 2));
  CHECK_EQ(bench.reliefs, 1);
  bench.complete_on_relief = true;
  CHECK_EQ(bench.allocator.allocate(3 << 20, 2)->bytes, size_t{3 << 20});
}

TEST(an_exhausted_host_is_named_and_cached_pages_are_returned_first) {
  Configuration configuration;
  const uint64_t room = host_memory().available_bytes / 3 / kGranuleBytes * kGranuleBytes;
  configuration.host_reserve_bytes = host_memory().available_bytes - room;
  Bench bench((host_memory().total_bytes / kRegionBytes + 1) * 4 * kRegionBytes, configuration);
  const auto share = [&](double fraction) { return static_cast<size_t>(fraction * static_cast<double>(room)); };
  CHECK_THROWS_SAYING(OutOfMemory, "is exhausted, not the card's", bench.allocator.allocate(2 * room, 0));
  Block* cached = bench.allocator.allocate(share(0.6), 0);
  Block* guard = bench.allocator.allocate(4 << 20, 0);
  CHECK_THROWS_SAYING(OutOfMemory, "OPENSPYRE_HOST_RESERVE_MIB", bench.allocator.allocate(share(0.7), 0));
  bench.allocator.free(cached);
  Block* next = bench.allocator.allocate(share(0.7), 0);  // needs what is cached in the other place
  CHECK_EQ(bench.allocator.statistics().cache_flushes, 5);
  bench.allocator.free(next);
  bench.allocator.free(guard);
}

TEST(cached_pages_go_back_above_the_watermark) {
  Bench bench(1 << 30, with_watermark(64 << 20));
  Block* small = bench.allocator.allocate(40 << 20, 0);
  bench.allocator.free(small);
  CHECK_EQ(bench.memory.committed_bytes(), 40ull << 20);
  Block* large = bench.allocator.allocate(100 << 20, 0);
  std::memset(bench.memory.translate(large->address), 1, large->bytes);
  CHECK(bench.memory.resident_bytes() >= 100u << 20);
  bench.allocator.free(large);
  CHECK(bench.memory.committed_bytes() <= 64ull << 20);
  CHECK(bench.memory.resident_bytes() <= 64ull << 20);
}

TEST(the_sanitizer_poisons_what_is_handed_out_and_spares_what_a_stream_may_read) {
  Configuration configuration;
  configuration.sanitize = true;
  Bench bench(64 << 20, configuration);
  const auto all = [&](Address address, uint8_t value) {
    const std::byte* memory = bench.memory.translate(address);
    return std::all_of(memory, memory + 4096, [&](std::byte b) { return b == std::byte{value}; });
  };
  Block* block = bench.allocator.allocate(4096, 0);
  const Address address = block->address;
  CHECK(all(address, kPoison));
  std::memset(bench.memory.translate(address), 1, 4096);
  bench.submit(0);
  bench.allocator.free(block);
  Block* other = bench.allocator.allocate(4096, 0);
  CHECK(other->address != address);
  CHECK(all(address, 1));
  bench.complete(0);
  bench.allocator.free(other);
  CHECK(all(other->address, kPoison));
  bench.allocator.statistics();
  Block* again = bench.allocator.allocate(4096, 0);
  CHECK(again->address == address || again->address == other->address);
  CHECK(all(again->address, kPoison));
}

TEST(several_threads_allocate_write_and_free_at_once) {
  Bench bench(256 << 20);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t id = 0; id < 4; ++id)
    threads.emplace_back([&, id] {
      std::mt19937_64 random(static_cast<uint64_t>(id));
      std::vector<Block*> mine;
      for (int step = 0; step < 8000; ++step) {
        if (mine.size() < 40 && random() % 2) {
          mine.push_back(bench.allocator.allocate(random_size(random, 3, 16), id % 2));
          std::memset(bench.memory.translate(mine.back()->address), static_cast<int>(id), mine.back()->bytes);
        } else if (!mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          const std::byte* memory = bench.memory.translate(mine.back()->address);
          wrong += memory[0] != std::byte(id) || memory[mine.back()->bytes - 1] != std::byte(id);
          bench.allocator.free(mine.back());
          mine.pop_back();
        }
        if (step % 1000 == 0) bench.allocator.empty_cache();
      }
      for (Block* block : mine) bench.allocator.free(block);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(bench.allocator.statistics().allocated_bytes.current, 0);
  CHECK_EQ(bench.allocator.statistics().largest_free_block, bench.memory.bytes());
}
