// Streams: order within, overlap across, priorities, helping waits, errors, a lost card.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "streams/card.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace openspyre;
using std::chrono::steady_clock;

namespace {

const bool configured = [] {
  Configuration configuration;
  configuration.cards = 2;
  configuration.threads = 2;
  configuration.memory_bytes = 1ull << 30;
  configure(configuration);
  return true;
}();

template <typename Condition>
bool eventually(Condition&& condition) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// A task that holds its executor until opened.
struct Gate {
  std::atomic<bool> entered{false}, open{false};
  void pass() {
    entered = true;
    if (!eventually([this] { return open.load(); })) fail(Fault::Internal, "the gate was never opened");
  }
};

std::string error_of(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(streams_have_ids_and_priorities) {
  Card& c = card(0);
  CHECK_EQ(c.stream(0).priority(), 0);
  CHECK_EQ(c.stream(32).priority(), 0);
  CHECK_EQ(c.stream(33).priority(), -1);
  CHECK_EQ(c.stream(64).id(), 64);
  CHECK(&c.stream(5).card() == &c);
  CHECK_THROWS_SAYING(InvalidDevice, "0 to 64", c.stream(65));
  CHECK_THROWS(InvalidDevice, c.stream(-1));
  for (int i = 0; i < 100; ++i) {
    const int64_t low = c.next_stream(false), high = c.next_stream(true);
    CHECK(low >= 1 && low <= 32 && high >= 33 && high <= 64);
  }
}

TEST(tickets_count_the_tasks) {
  Stream& stream = card(0).stream(3);
  const Ticket before = stream.submitted();
  CHECK_EQ(stream.submit("one", [] {}), before + 1);
  CHECK_EQ(stream.submit("two", [] {}), before + 2);
  stream.wait(before + 1);
  CHECK(stream.completed() >= before + 1);
  stream.synchronize();
  CHECK(stream.query());
  CHECK_THROWS_SAYING(InvalidArgument, "not been submitted", stream.wait(before + 3));
}

TEST(tasks_of_a_stream_run_in_order_whoever_submits) {
  Stream& stream = card(0).stream(1);
  constexpr int kThreads = 4, kTasks = 3000;
  std::vector<int> last(kThreads, -1);  // written by tasks only: no lock is needed if they never overlap
  int running = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (size_t id = 0; id < kThreads; ++id)
    threads.emplace_back([&, id] {
      for (int i = 0; i < kTasks; ++i) {
        stream.submit("ordered", [&, id, i] {
          wrong += running++ != 0 || last[id] != i - 1;
          last[id] = i;
          --running;
        });
        if (i % 500 == 0) stream.synchronize();
      }
    });
  for (std::thread& thread : threads) thread.join();
  stream.synchronize();
  CHECK_EQ(wrong, 0);
  for (const int l : last) CHECK_EQ(l, kTasks - 1);
}

TEST(streams_overlap) {
  Card& c = card(0);
  std::atomic<bool> first{false}, second{false}, met_first{false}, met_second{false};
  c.stream(1).submit("first", [&] {
    first = true;
    met_first = eventually([&] { return second.load(); });
  });
  c.stream(2).submit("second", [&] {
    second = true;
    met_second = eventually([&] { return first.load(); });
  });
  c.synchronize();
  CHECK(met_first && met_second);
}

TEST(submit_does_not_wait_for_the_work) {
  Stream& stream = card(0).stream(4);
  Gate gate;
  stream.submit("gate", [&] { gate.pass(); });
  for (int i = 0; i < 100; ++i) stream.submit("queued", [] {});
  CHECK(!stream.query());
  gate.open = true;
  stream.synchronize();
  CHECK(stream.query());
}

TEST(high_priority_streams_go_first) {
  Card& c = card(0);
  Gate gates[2];
  std::mutex mutex;
  std::vector<std::string> order;
  const auto note = [&](const char* name) {
    std::lock_guard lock(mutex);
    order.push_back(name);
  };
  for (int i = 0; i < 2; ++i) c.stream(10 + i).submit("gate", [&, i] { gates[i].pass(); });
  CHECK(eventually([&] { return gates[0].entered && gates[1].entered; }));  // both executors are busy now
  c.stream(1).submit("low", [&] { note("low"); });
  c.stream(2).submit("low", [&] { note("low"); });
  c.stream(33).submit("high", [&] { note("high"); });
  c.stream(64).submit("high", [&] { note("high"); });
  gates[0].open = true;
  CHECK(eventually([&] {
    std::lock_guard lock(mutex);
    return order.size() == 4;
  }));
  gates[1].open = true;
  c.synchronize();
  CHECK((order == std::vector<std::string>{"high", "high", "low", "low"}));
}

TEST(a_running_low_priority_stream_gives_way_between_tasks) {
  Card& c = card(0);
  Gate gates[2];
  c.stream(20).submit("other executor", [&] { gates[1].pass(); });
  c.stream(21).submit("gate", [&] { gates[0].pass(); });
  CHECK(eventually([&] { return gates[0].entered && gates[1].entered; }));
  std::atomic<int> low{0}, low_seen_by_high{-1};
  for (int i = 0; i < 10; ++i) c.stream(21).submit("low", [&] { ++low; });
  c.stream(40).submit("high", [&] { low_seen_by_high = low.load(); });
  gates[0].open = true;
  CHECK(eventually([&] { return low == 10 && low_seen_by_high >= 0; }));
  gates[1].open = true;
  c.synchronize();
  CHECK_EQ(low_seen_by_high.load(), 0);
}

TEST(what_a_closure_owns_is_released_before_the_wait_returns) {
  Stream& stream = card(0).stream(6);
  for (int i = 0; i < 200; ++i) {
    auto owned = std::make_shared<int>(i);
    std::weak_ptr<int> watch = owned;
    stream.submit("owner", [owned = std::move(owned)] {});
    stream.synchronize();
    CHECK(watch.expired());
  }
}

TEST(an_error_surfaces_once_with_the_name_of_the_task_and_its_kind) {
  Stream& stream = card(0).stream(7);
  stream.submit("aten::index", [] { fail(Fault::ValueOutOfRange, "index 9 is out of range"); });
  CHECK_EQ(error_of(stream), "aten::index failed on spyre:0 stream 7: index 9 is out of range");
  CHECK_EQ(error_of(stream), "");
  stream.submit("aten::index", [] { fail(Fault::ValueOutOfRange, "again"); });
  CHECK_THROWS(ValueOutOfRange, stream.synchronize());
  stream.submit("throws", [] { throw std::runtime_error("plain"); });
  CHECK_THROWS_SAYING(Internal, "plain", stream.synchronize());
  stream.submit("throws", [] { throw std::bad_alloc(); });
  CHECK_THROWS(OutOfMemory, stream.synchronize());
  stream.submit("throws", [] { throw 5; });
  CHECK_THROWS(Internal, stream.synchronize());
}

TEST(tasks_behind_a_failed_one_are_skipped_until_it_is_reported) {
  Stream& stream = card(0).stream(8);
  std::atomic<int> ran{0};
  Event event(true);
  stream.submit("fails", [] { fail(Fault::InvalidArgument, "no"); });
  for (int i = 0; i < 50; ++i) stream.submit("behind", [&] { ++ran; });
  event.record(stream);
  stream.submit("fails later", [] { fail(Fault::Internal, "must be skipped"); });
  CHECK(eventually([&] { return event.query(); }));  // events among the skipped still complete
  CHECK_THROWS_SAYING(InvalidArgument, "fails failed", stream.synchronize());
  CHECK_EQ(ran.load(), 0);
  stream.submit("after the report", [&] { ++ran; });
  stream.synchronize();
  CHECK_EQ(ran.load(), 1);
}

TEST(an_error_leaves_other_streams_alone) {
  Card& c = card(0);
  std::atomic<int> ran{0};
  for (int64_t id = 1; id <= 4; ++id) {
    c.stream(id).submit("work", [&, id] {
      if (id == 2) fail(Fault::InvalidArgument, "only here");
    });
    c.stream(id).submit("next", [&] { ++ran; });
  }
  for (const int64_t id : {1, 3, 4}) c.stream(id).synchronize();
  CHECK_EQ(ran.load(), 3);
  CHECK_THROWS_SAYING(InvalidArgument, "stream 2", c.stream(2).synchronize());
}

TEST(synchronizing_the_card_reports_the_first_error_and_keeps_the_others) {
  Card& c = card(0);
  c.stream(9).submit("first", [] { fail(Fault::InvalidArgument, "first"); });
  CHECK(eventually([&] { return c.stream(9).query(); }));
  c.stream(5).submit("second", [] { fail(Fault::InvalidLayout, "second"); });
  CHECK_THROWS(InvalidArgument, c.synchronize());
  CHECK_THROWS(InvalidLayout, c.synchronize());
  c.synchronize();
}

TEST(a_task_that_waits_is_refused_instead_of_hanging) {
  Card& c = card(0);
  c.stream(1).submit("waits", [&] { c.stream(2).synchronize(); });
  CHECK_THROWS_SAYING(Internal, "'waits' waits for stream 2", c.stream(1).synchronize());
  c.stream(1).submit("waits", [&] { c.synchronize(); });
  CHECK_THROWS_SAYING(Internal, "must not wait", c.stream(1).synchronize());
}

TEST(a_task_may_submit_more_work_and_use_memory) {
  Card& c = card(0);
  std::atomic<int> ran{0};
  c.stream(1).submit("parent", [&] {
    Block* block = c.allocate(1000, 1);
    c.translate(block->address)[999] = std::byte{1};
    c.free(block);
    c.stream(1).submit("child", [&] { ++ran; });
    c.stream(2).submit("child", [&] { ++ran; });
  });
  c.stream(1).synchronize();
  c.synchronize();
  CHECK_EQ(ran.load(), 2);
}

TEST(an_empty_task_is_refused) { CHECK_THROWS(InvalidArgument, card(0).stream(1).submit("empty", Task())); }

TEST(memory_still_in_use_by_a_stream_is_waited_for_when_the_card_is_full) {
  Card& c = card(0);
  Gate gate;
  Block* block = c.allocate(700 << 20, 1);
  c.stream(1).submit("gate", [&] { gate.pass(); });
  c.free(block);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open = true;
  });
  Block* next = c.allocate(700 << 20, 2);
  CHECK(gate.open);
  c.free(next);
  opener.join();
}

TEST(translation_is_checked) {
  Card& c = card(0);
  CHECK_THROWS_SAYING(InvalidArgument, "not an address of spyre:0", c.translate(c.base_address() - 1));
  CHECK_THROWS(InvalidArgument, c.translate(c.base_address() + c.total_memory()));
  Block* block = card(1).allocate(256, 0);
  CHECK(block->card == &card(1));
  CHECK_THROWS(InvalidArgument, c.translate(block->address));
  card(1).free(block);
}

TEST(a_lost_card_refuses_work_drops_its_queue_and_ends_waits) {
  Card& c = card(0);
  Gate gate;
  std::atomic<bool> dropped_ran{false};
  Block* block = c.allocate(256, 0);
  c.translate(block->address)[0] = std::byte{77};
  Event event;
  c.stream(1).submit("gate", [&] { gate.pass(); });
  c.stream(1).submit("dropped", [&] { dropped_ran = true; });
  event.record(c.stream(1));
  event.block(c.stream(2));
  CHECK(eventually([&] { return gate.entered.load(); }));
  std::atomic<int> ended{0};
  std::vector<std::thread> waiters;
  for (int64_t id : {1, 2})
    waiters.emplace_back([&, id] {
      CHECK_THROWS_SAYING(CardLost, "pulled", c.stream(id).synchronize());
      ++ended;
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  c.lose("it was pulled out");
  for (std::thread& waiter : waiters) waiter.join();  // while the gate is still closed
  CHECK_EQ(ended.load(), 2);
  CHECK(c.lost());
  CHECK_THROWS(CardLost, c.stream(1).submit("no", [] {}));
  CHECK_THROWS(CardLost, c.allocate(1, 0));
  CHECK_THROWS(CardLost, c.synchronize());
  CHECK_THROWS(CardLost, event.record(c.stream(0)));
  card(1).stream(0).submit("other card", [] {});
  card(1).synchronize();
  gate.open = true;
  CHECK(eventually([&] { return c.stream(1).query(); }));
  c.reset();
  CHECK(!c.lost());
  c.stream(1).submit("works again", [] {});
  c.synchronize();
  CHECK(!dropped_ran);
  CHECK(c.translate(block->address)[0] == std::byte{77});
  c.free(block);
}

TEST(a_card_is_lost_when_a_task_is_submitted_and_the_task_is_gone) {
  Card& c = card(0);
  const auto owned = std::make_shared<int>(0);
  const auto work = [owned] { ++*owned; };
  c.lose("it will be pulled out", 2);
  c.stream(0).submit("first", work);
  c.stream(0).submit("second", work);
  c.synchronize();
  CHECK_EQ(*owned, 2);
  CHECK(!c.lost());
  const Ticket before = c.stream(0).submitted();
  CHECK_THROWS_SAYING(CardLost, "pulled out", c.stream(0).submit("third", work));
  CHECK(c.lost());
  CHECK_EQ(c.stream(0).submitted(), before);
  CHECK_EQ(owned.use_count(), 2);  // `owned` and `work`: nothing is kept of the third
  c.reset();
  c.stream(0).submit("works again", work);
  c.synchronize();
  CHECK_EQ(*owned, 3);
  c.lose("not after a reset", 0);
  c.reset();
  c.stream(0).submit("works", work);
  c.synchronize();
  CHECK_EQ(*owned, 4);
}

#if defined(__x86_64__)
TEST(tasks_see_the_cards_floating_point_state_wherever_they_run) {
  Card& c = card(0);
  const unsigned before = _mm_getcsr(), mine = 0x1F80 | 0x8040 | 0x6000;
  _mm_setcsr(mine);
  std::atomic<int> wrong{0};
  for (int i = 0; i < 300; ++i) {
    c.stream(i % kStreamCount).submit("state", [&] { wrong += (_mm_getcsr() & 0xFFC0) != 0x1F80; });
    if (i % 3) c.stream(i % kStreamCount).synchronize();
  }
  c.synchronize();
  CHECK_EQ(_mm_getcsr(), mine);
  _mm_setcsr(before);
  CHECK_EQ(wrong.load(), 0);
}
#endif
