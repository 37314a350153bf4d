// An event is a ticket of a stream; only a timing event adds a task of its own, which takes the time.
#include <chrono>
#include <mutex>

#include "memory/fork.h"
#include "streams/executors.h"
#include "streams/stream.h"

namespace openspyre {
namespace {

using Stamp = std::atomic<int64_t>;  // nanoseconds, 0 until reached

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Point {
  StreamQueue* stream = nullptr;
  Ticket ticket = 0;
  std::shared_ptr<Stamp> stamp;

  bool reached() const { return !stream || stream->progress.completed.load(std::memory_order_acquire) >= ticket; }
};

}  // namespace

struct Event::State {
  std::mutex mutex;
  Point point;

  Point read() {
    refuse_after_fork();
    std::lock_guard lock(mutex);
    return point;
  }
};

Event::Event(bool timing) : state_(std::make_shared<State>()), timing_(timing) {}
Event::~Event() = default;

void Event::record(Stream& stream) {
  refuse_after_fork();
  auto& queue = static_cast<StreamQueue&>(stream);
  queue.executors.refuse_if_lost();
  std::lock_guard lock(state_->mutex);
  if (!timing_) {
    state_->point = {&queue, queue.submitted(), nullptr};
    return;
  }
  auto stamp = std::make_shared<Stamp>(0);
  const Ticket ticket = queue.executors.submit(
      queue, "event", [stamp] { stamp->store(now_ns(), std::memory_order_release); }, {.always = true});
  state_->point = {&queue, ticket, std::move(stamp)};
}

void Event::block(Stream& stream) {
  auto& queue = static_cast<StreamQueue&>(stream);
  const Point point = state_->read();
  queue.executors.refuse_if_lost();
  if (point.stream == &queue || point.reached()) return;
  queue.executors.submit_await(queue, *point.stream, point.ticket);
}

bool Event::query() const { return state_->read().reached(); }

void Event::synchronize() {
  const Point point = state_->read();
  if (point.stream) point.stream->wait(point.ticket);
}

bool Event::recorded() const { return state_->read().stream != nullptr; }

double Event::elapsed_ms(const Event& later) const {
  const Point points[] = {state_->read(), later.state_->read()};
  int64_t times[2];
  for (int i = 0; i < 2; ++i) {
    const std::string which = i == 0 ? "elapsed_ms: the start event " : "elapsed_ms: the end event ";
    if (!points[i].stream) fail(Fault::InvalidArgument, which + "was never recorded; call record() first");
    if (!points[i].stamp) fail(Fault::InvalidArgument, which + "takes no time; create it with timing enabled");
    times[i] = points[i].stamp->load(std::memory_order_acquire);
    if (!times[i]) fail(Fault::InvalidArgument, which + "is not reached yet; synchronize() it first");
  }
  return static_cast<double>(times[1] - times[0]) * 1e-6;
}

}  // namespace openspyre
