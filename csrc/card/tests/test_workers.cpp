#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "child_process.h"
#include "streams/card.h"
#include "streams/workers.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace openspyre;

namespace {

const bool configured = [] {
  Configuration configuration;
  configuration.threads = 4;
  configure(configuration);
  return true;
}();

}  // namespace

TEST(every_index_is_called_exactly_once) {
  CHECK(configured);
  CHECK_EQ(worker_threads(), 4);
  for (const size_t count : {0, 1, 2, 3, 7, 64, 1000, 100003}) {
    std::vector<std::atomic<int>> calls(count);
    parallel_for(count, [&](size_t i) { ++calls[i]; });
    size_t once = 0;
    for (const auto& c : calls) once += c == 1;
    CHECK_EQ(once, count);
  }
}

TEST(bodies_run_at_the_same_time) {
  std::atomic<int> arrived{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  parallel_for(4, [&](size_t) {
    ++arrived;
    while (arrived < 4 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  CHECK(std::chrono::steady_clock::now() < deadline);
}

TEST(nested_loops_run_inline) {
  std::atomic<int> wrong{0}, calls{0};
  parallel_for(8, [&](size_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(8, [&](size_t) {
      ++calls;
      wrong += std::this_thread::get_id() != outer;
    });
  });
  CHECK_EQ(calls.load(), 64);
  CHECK_EQ(wrong.load(), 0);
}

TEST(the_first_exception_is_rethrown_and_the_pool_stays_usable) {
  for (int round = 0; round < 50; ++round) {
    bool caught = false;
    try {
      parallel_for(100, [&](size_t i) {
        if (i % 10 == 3) throw std::runtime_error("bad index");
      });
    } catch (const std::runtime_error& error) {
      caught = std::string(error.what()) == "bad index";
    }
    CHECK(caught);
    std::atomic<int> calls{0};
    parallel_for(10, [&](size_t) { ++calls; });
    CHECK_EQ(calls.load(), 10);
  }
}

TEST(many_callers_at_once_get_their_own_results) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (size_t caller = 0; caller < 20; ++caller)  // more than the pool serves at once
    callers.emplace_back([&, caller] {
      for (size_t round = 0; round < 100; ++round) {
        std::vector<size_t> result(50);
        parallel_for(50, [&](size_t i) { result[i] = caller * round + i; });
        for (size_t i = 0; i < 50; ++i) wrong += result[i] != caller * round + i;
      }
    });
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(wrong.load(), 0);
}

TEST(a_sleeping_pool_wakes_up_and_waits_for_slow_bodies) {
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> done{0};
    parallel_for(4, [&](size_t i) {
      if (i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++done;
    });
    CHECK_EQ(done.load(), 4);
  }
}

TEST(a_forked_child_runs_loops_alone) {
  parallel_for(4, [](size_t) {});
  CHECK_EQ(check::run_in_child([] {
             int calls = 0;  // not atomic: one thread
             parallel_for(100, [&](size_t) { ++calls; });
             CHECK_EQ(calls, 100);
             CHECK_EQ(worker_threads(), 1);
           }),
           0);
}

#if defined(__x86_64__)
TEST(bodies_see_the_cards_floating_point_state_and_the_caller_keeps_its_own) {
  const unsigned before = _mm_getcsr();
  const unsigned mine = 0x1F80 | 0x8040 | 0x6000;  // flush to zero, subnormals are zero, round toward zero
  _mm_setcsr(mine);
  std::atomic<int> wrong{0};
  parallel_for(64, [&](size_t) { wrong += (_mm_getcsr() & 0xFFC0) != 0x1F80; });
  parallel_for(1, [&](size_t) { wrong += (_mm_getcsr() & 0xFFC0) != 0x1F80; });
  CHECK_EQ(_mm_getcsr(), mine);
  _mm_setcsr(before);
  CHECK_EQ(wrong.load(), 0);
}
#endif
