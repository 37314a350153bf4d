// The host's side of the executors: waiting (and helping) for streams, losing a card, ending the process.
#include <algorithm>
#include <chrono>

#include "formats/floating_point.h"
#include "streams/card.h"
#include "streams/executors.h"
#include "streams/futex.h"
#include "streams/interrupt.h"
#include "streams/workers.h"

namespace openspyre {
namespace {

constexpr auto kShutdownPatience = std::chrono::seconds(5);

}  // namespace

// Lengthy tasks are left to the executors, if there are any: the host must be able to leave.
bool Executors::can_help(StreamQueue& stream) const {
  return stream.state == StreamQueue::State::Ready && (threads_ == 0 || !stream.queue.front().traits.lengthy);
}

// Runs a stream that nobody is at, without a thread switch, until it has come to a ticket or the host shall look up.
void Executors::help(StreamQueue& stream, Lock& lock, Ticket until) {
  const auto enough = Clock::now() + kLook;
  const FloatingPointScope card_state;
  take(stream);
  for (int tasks_run = 1; run_next(stream, lock); ++tasks_run) {
    if (stream.queue.empty()) continue;
    const bool there = stream.progress.completed.load(std::memory_order_relaxed) >= until;
    const bool lengthy = stream.queue.front().traits.lengthy && threads_ > 0;
    if (there || lengthy || give_way(stream, tasks_run) || Clock::now() > enough) return make_ready(stream);
  }
}

void Executors::wait_until(StreamQueue& stream, Ticket ticket, Lock& lock, Patience patience) {
  const auto completed = [&] { return stream.progress.completed.load(std::memory_order_acquire) >= ticket; };
  const auto over = [&] { return completed() || lost_.load(std::memory_order_relaxed); };
  auto next_look = Clock::time_point::min();
  while (!stopping_) {
    if (lost_) throw_lost();
    if (completed()) return;
    if (next_look == Clock::time_point::min()) {
      next_look = Clock::now() + kLook;
    } else if (patience == Patience::Interruptible && Clock::now() >= next_look) {
      next_look = Clock::now() + kLook;
      lock.unlock();
      throw_if_interrupted();
      lock.lock();
      continue;
    }
    if (can_help(stream)) {
      help(stream, lock, ticket);
      continue;
    }
    lock.unlock();
    spin_until(over, kSpin);
    lock.lock();
    if (over() || stopping_ || can_help(stream)) continue;
    stream.wake_host_at = std::min(stream.wake_host_at, ticket);
    done_.wait_for(lock, kLook);
  }
}

void Executors::wait(StreamQueue& stream, Ticket ticket) {
  if (inside_task())
    fail(Fault::Internal, std::string("task '") + current_task() + "' waits for stream " + std::to_string(stream.id()) +
                              " of spyre:" + std::to_string(card_.index()) +
                              ": a task must not wait; order streams with events instead");
  if (ticket > stream.progress.submitted.load(std::memory_order_acquire))
    fail(Fault::InvalidArgument, "cannot wait for ticket " + std::to_string(ticket) + " of stream " +
                                     std::to_string(stream.id()) + ": it has not been submitted");
  Lock lock(mutex_);
  wait_until(stream, ticket, lock);
  if (stream.failure) throw_failure(stream);
}

void Executors::finish(StreamQueue& stream, Ticket ticket) noexcept {
  Lock lock(mutex_);
  try {
    wait_until(stream, ticket, lock, Patience::Endless);
  } catch (const Error&) {  // the card is lost: what was queued is gone, what runs ends
    stopped_.wait(lock, [&] { return !stream.front_in_execution; });
  }
}

void Executors::wait_all() {
  std::array<Ticket, kStreamCount> targets;
  for (size_t id = 0; id < kStreamCount; ++id)
    targets[id] = counters_.streams[id].queue.submitted.load(std::memory_order_acquire);
  if (inside_task())
    fail(Fault::Internal, std::string("task '") + current_task() +
                              "' waits for spyre:" + std::to_string(card_.index()) +
                              ": a task must not wait; order streams with events instead");
  Lock lock(mutex_);
  StreamQueue* first = nullptr;
  if (lost_) throw_lost();
  for (size_t id = 0; id < kStreamCount; ++id)
    if (counters_.streams[id].queue.completed.load(std::memory_order_acquire) < targets[id])
      wait_until(*streams_[id], targets[id], lock);
  for (auto& stream : streams_)
    if (stream->failure && (!first || stream->failure->order < first->failure->order)) first = stream.get();
  if (first) throw_failure(*first);
}

void Executors::wait_all_quietly() {
  Lock lock(mutex_);
  for (auto& stream : streams_) {
    if (lost_) return;
    try {
      wait_until(*stream, stream->progress.submitted.load(std::memory_order_relaxed), lock);
    } catch (const Error&) {
      return;  // lost while waiting: nothing is in use any more
    }
  }
}

void Executors::throw_failure(StreamQueue& stream) {
  const Failure failure = std::move(*stream.failure);
  stream.failure.reset();
  stream.skip_through = stream.progress.submitted.load(std::memory_order_relaxed);
  throw Error(failure.kind, failure.text);
}

// --- loss and end ----------------------------------------------------------------------------------------------------

void Executors::throw_lost() const {
  fail(Fault::CardLost, "spyre:" + std::to_string(card_.index()) + " is lost: " + lost_why_ +
                            ". Its queued work was dropped; reset the card to use it again.");
}

void Executors::refuse_if_lost() {
  if (!lost_.load(std::memory_order_acquire)) [[likely]]
    return;
  std::lock_guard lock(mutex_);
  if (lost_) throw_lost();
}

void Executors::lose(const std::string& why) {
  std::vector<Task> dropped;  // destroyed without the lock: closures may free memory of the card
  std::vector<StreamWaiter> due;
  {
    std::lock_guard lock(mutex_);
    if (lost_) return;
    lost_why_ = why;
    lost_ = true;
    ++life_;
    for (auto& stream : streams_) {
      std::vector<StreamWaiter> freed = drop_queue(*stream, dropped);
      due.insert(due.end(), freed.begin(), freed.end());
    }
    done_.notify_all();
  }
  for (const StreamWaiter& waiter : due) waiter.stream->executors.resume(waiter);
}

void Executors::lose_after(uint64_t tasks, const std::string& why) {
  std::lock_guard lock(mutex_);
  tasks_left_ = tasks;
  why_then_ = why;
  counting_down_ = true;
}

void Executors::count_down() {
  {
    std::lock_guard lock(mutex_);
    if (!counting_down_ || tasks_left_-- > 0) return;
    counting_down_ = false;
  }
  lose(why_then_);
}

std::vector<StreamWaiter> Executors::drop_queue(StreamQueue& stream, std::vector<Task>& dropped) {
  EntryRing rest;
  for (bool keep = stream.front_in_execution; !stream.queue.empty(); keep = false) {
    Entry& entry = stream.queue.front();
    if (keep)
      rest.push() = std::move(entry);
    else
      dropped.push_back(std::move(entry.work));
    stream.queue.pop();
  }
  stream.queue = std::move(rest);
  stream.failure.reset();
  const bool running = stream.state == StreamQueue::State::Running;
  if (stream.state == StreamQueue::State::Ready) take(stream);
  if (!running) stream.state = StreamQueue::State::Idle;
  return publish(stream);
}

void Executors::reset() {
  std::lock_guard lock(mutex_);
  lost_ = false;
  counting_down_ = false;
}

void Executors::shut_down() {
  const auto deadline = std::chrono::system_clock::now() + kShutdownPatience;
  Lock lock(mutex_);
  stopping_ = true;
  abandon_loops();
  work_.notify_all();
  done_.notify_all();
  if (!inside_task()) stopped_.wait_until(lock, deadline, [this] { return busy_ == 0; });
  for (auto& stream : streams_)  // whoever polls later finds nothing pending
    stream->progress.completed.store(stream->progress.submitted.load(std::memory_order_relaxed),
                                     std::memory_order_release);
}

}  // namespace openspyre
