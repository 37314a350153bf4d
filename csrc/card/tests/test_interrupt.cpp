// A host that leaves its waits: what it lent, and what goes on.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "streams/card.h"
#include "streams/interrupt.h"

using namespace openspyre;
using std::chrono::steady_clock;

namespace {

int a_cause;
std::atomic<bool> wants_to_leave{false};

const bool configured = [] {
  Configuration configuration;
  configuration.threads = 2;
  configuration.memory_bytes = 1ull << 30;
  configure(configuration);
  set_interrupt_check([]() -> void* { return wants_to_leave.exchange(false) ? &a_cause : nullptr; });
  return true;
}();

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

struct Gate {
  std::atomic<bool> entered{false}, open{false};
  void pass() {
    entered = true;
    for (int i = 0; i < 60'000 && !open; ++i) sleep_ms(1);
  }
  void wait_for_visitor() const {
    for (int i = 0; i < 60'000 && !entered; ++i) sleep_ms(1);
    CHECK(entered);
  }
};

template <typename Wait>
bool is_interrupted(Wait&& wait) {
  try {
    wait();
  } catch (const Interrupted& interrupted) {
    CHECK(interrupted.cause == &a_cause);
    return true;
  }
  return false;
}

}  // namespace

TEST(a_wait_ends_when_the_host_wants_to_leave_and_the_queue_goes_on) {
  Stream& stream = card(0).stream(0);
  Gate gate;
  std::vector<int> order;
  stream.submit("gate", [&] { gate.pass(); }, true);
  for (int i = 0; i < 100; ++i) stream.submit("count", [&order, i] { order.push_back(i); });
  gate.wait_for_visitor();
  Event event;
  event.record(stream);
  for (int way = 0; way < 3; ++way) {
    wants_to_leave = true;
    const auto start = steady_clock::now();
    CHECK(is_interrupted([&] {
      way == 0 ? stream.synchronize() : way == 1 ? event.synchronize() : card(0).synchronize();
    }));
    CHECK(seconds_since(start) < 10);
    CHECK(!stream.query());
  }
  gate.open = true;
  stream.synchronize();
  CHECK_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) CHECK_EQ(order[static_cast<size_t>(i)], i);
}

TEST(the_host_helps_with_what_is_brief_only) {
  Stream& stream = card(0).stream(1);
  for (int i = 0; i < 20; ++i) {
    std::thread::id lengthy;
    stream.wait(stream.submit("lengthy", [&] { lengthy = std::this_thread::get_id(); }, true));
    CHECK(lengthy != std::this_thread::get_id());
  }
}

TEST(many_brief_tasks_can_be_left_too) {
  Stream& stream = card(0).stream(2);
  std::atomic<int> done{0};
  for (int i = 0; i < 400; ++i)
    stream.submit("brief", [&] {
      sleep_ms(2);
      ++done;
    });
  wants_to_leave = true;
  CHECK(is_interrupted([&] { stream.synchronize(); }));
  CHECK(done < 400);
  stream.synchronize();
  CHECK_EQ(done.load(), 400);
}

TEST(lent_work_that_has_not_begun_never_begins) {
  Stream& stream = card(0).stream(3);
  Gate gate;
  stream.submit("gate", [&] { gate.pass(); }, true);
  gate.wait_for_visitor();
  auto memory = std::make_unique<std::vector<int>>(1 << 20);
  {
    const LentWork work([target = memory.get()] { target->assign(1 << 20, 1); });
    const Ticket ticket = stream.submit("write", work.task(), true);
    wants_to_leave = true;
    CHECK(is_interrupted([&] { work.wait(stream, ticket); }));
  }
  memory.reset();  // the address sanitizer would see a late write
  gate.open = true;
  stream.synchronize();
}

TEST(lent_work_that_has_begun_ends_before_the_wait_does) {
  Stream& stream = card(0).stream(4);
  Gate gate;
  auto memory = std::make_unique<std::vector<int>>();
  const LentWork work([&gate, target = memory.get()] {
    gate.pass();
    target->assign(1 << 20, 1);
  });
  const Ticket ticket = stream.submit("write", work.task(), true);
  gate.wait_for_visitor();
  wants_to_leave = true;
  std::thread opener([&] {
    while (wants_to_leave) sleep_ms(1);
    sleep_ms(50);
    gate.open = true;
  });
  CHECK(is_interrupted([&] { work.wait(stream, ticket); }));
  CHECK_EQ(memory->size(), size_t{1} << 20);
  memory.reset();
  opener.join();
  CHECK(stream.query());
}

TEST(lent_work_reports_its_error_and_is_done_otherwise) {
  Stream& stream = card(0).stream(5);
  int done = 0;
  const LentWork good([&] { ++done; });
  good.wait(stream, stream.submit("good", good.task()));
  CHECK_EQ(done, 1);
  const LentWork bad([] { fail(Fault::ValueOutOfRange, "too large"); });
  CHECK_THROWS_SAYING(ValueOutOfRange, "too large", bad.wait(stream, stream.submit("bad", bad.task())));
}
