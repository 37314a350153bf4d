// Events: order between streams and cards, time, and a stress over all of it.
#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "check.h"
#include "streams/card.h"

using namespace openspyre;

namespace {

const bool configured = [] {
  Configuration configuration;
  configuration.cards = 2;
  configuration.threads = 2;
  configuration.memory_bytes = 1ull << 30;
  configure(configuration);
  return true;
}();

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

TEST(an_event_is_reached_when_what_was_before_it_is_done) {
  Stream& stream = card(0).stream(1);
  for (const bool timing : {false, true}) {
    Event event(timing);
    CHECK(!event.recorded());
    CHECK(event.query());
    event.synchronize();
    std::atomic<bool> open{false};
    stream.submit("gate", [&] {
      while (!open) std::this_thread::yield();
    });
    event.record(stream);
    CHECK(event.recorded());
    CHECK(!event.query());
    open = true;
    event.synchronize();
    CHECK(event.query());
    stream.synchronize();
  }
}

TEST(a_blocked_stream_waits_and_holds_no_thread) {
  Card& c = card(0);
  std::atomic<bool> open{false}, passed{false};
  c.stream(1).submit("gate", [&] {
    while (!open) std::this_thread::yield();
  });
  Event event;
  event.record(c.stream(1));
  std::array<std::atomic<bool>, 8> behind{};
  for (size_t i = 0; i < 8; ++i) {  // more than there are executors
    Stream& stream = c.stream(static_cast<int64_t>(10 + i));
    event.block(stream);
    stream.submit("behind", [&, i] { behind[i] = open.load(); });
  }
  c.stream(30).submit("free", [&] { passed = true; });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!passed && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(passed);
  CHECK(!c.stream(10).query());
  open = true;
  c.synchronize();
  for (const auto& b : behind) CHECK(b);
}

TEST(recording_again_moves_the_event_and_leaves_earlier_blocks_alone) {
  Card& c = card(0);
  std::atomic<bool> first{false}, second{false};
  Event event;
  c.stream(1).submit("first", [&] {
    while (!first) std::this_thread::yield();
  });
  event.record(c.stream(1));
  event.block(c.stream(3));
  c.stream(2).submit("second", [&] {
    while (!second) std::this_thread::yield();
  });
  event.record(c.stream(2));
  c.stream(3).submit("behind the first", [] {});
  first = true;
  c.stream(3).synchronize();
  CHECK(!event.query());
  second = true;
  event.synchronize();
  c.synchronize();
}

TEST(streams_of_two_cards_wait_for_each_other) {
  int value = 0;  // the events alone keep the tasks apart
  for (int i = 0; i < 500; ++i) {
    Event there, back;
    card(0).stream(1).submit("there", [&] { value = value * 2 + 1; });
    there.record(card(0).stream(1));
    there.block(card(1).stream(2));
    card(1).stream(2).submit("back", [&] { value = value / 2 + 1; });
    back.record(card(1).stream(2));
    back.block(card(0).stream(1));
  }
  synchronize_all();
  CHECK_EQ(value, 500);
}

TEST(elapsed_time_is_measured_between_timing_events) {
  Stream& stream = card(0).stream(1);
  Event start(true), end(true), plain, never(true);
  start.record(stream);
  stream.submit("sleep", [] { sleep_ms(20); });
  end.record(stream);
  CHECK_THROWS_SAYING(InvalidArgument, "synchronize", start.elapsed_ms(end));
  end.synchronize();
  CHECK(start.elapsed_ms(end) >= 20 && start.elapsed_ms(end) < 5000);
  plain.record(stream);
  CHECK_THROWS_SAYING(InvalidArgument, "timing", start.elapsed_ms(plain));
  CHECK_THROWS_SAYING(InvalidArgument, "never recorded", never.elapsed_ms(end));
}

TEST(synchronizing_an_event_reports_its_streams_error) {
  Stream& stream = card(0).stream(1);
  Event event;
  stream.submit("fails", [] { fail(Fault::InvalidArgument, "no"); });
  event.record(stream);
  CHECK_THROWS_SAYING(InvalidArgument, "fails failed on spyre:0 stream 1: no", event.synchronize());
  event.synchronize();
}

TEST(an_event_may_go_before_it_is_reached) {
  Card& c = card(0);
  std::atomic<bool> open{false};
  c.stream(1).submit("gate", [&] {
    while (!open) std::this_thread::yield();
  });
  {
    Event event(true);
    event.record(c.stream(1));
    event.block(c.stream(2));
  }
  c.stream(2).submit("behind", [&] { open = open.load(); });
  open = true;
  c.synchronize();
}

// Random tasks on random streams; every task notes in plain memory what it must be ordered after.
TEST(a_storm_of_tasks_events_and_waits_keeps_every_order) {
  constexpr int kStreams = 12;
  struct Lane {
    int64_t value = 0;  // tasks of this lane's stream only, or ordered behind it by an event
  };
  std::array<Lane, kStreams> lanes;
  std::array<int64_t, kStreams> expected{};
  std::atomic<int> wrong{0};
  std::mt19937 random(3);
  const auto stream_of = [](size_t lane) -> Stream& {
    return card(static_cast<int>(lane % 2)).stream(static_cast<int64_t>(lane * 5 + 1));
  };
  for (int step = 0; step < 6000; ++step) {
    const size_t from = random() % kStreams, to = random() % kStreams;
    const int64_t seen = expected[from]++;
    stream_of(from).submit("count", [&lane = lanes[from], &wrong, seen] { wrong += lane.value++ != seen; });
    if (random() % 3 == 0 && from != to) {
      Event done, read;
      done.record(stream_of(from));
      done.block(stream_of(to));
      const int64_t least = expected[from];
      stream_of(to).submit("read", [&lane = lanes[from], &wrong, least] { wrong += lane.value != least; });
      read.record(stream_of(to));
      read.block(stream_of(from));
    }
    if (random() % 64 == 0) stream_of(to).synchronize();
  }
  synchronize_all();
  CHECK_EQ(wrong.load(), 0);
  for (size_t lane = 0; lane < kStreams; ++lane) CHECK_EQ(lanes[lane].value, expected[lane]);
}
