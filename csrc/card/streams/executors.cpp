#include "streams/executors.h"

#include <bit>
#include <chrono>
#include <exception>
#include <new>
#include <thread>

#include "formats/floating_point.h"
#include "streams/card.h"
#include "streams/futex.h"

namespace openspyre {
namespace {

constexpr int kTurnTasks = 64;  // a stream's turn while others of its pool wait

thread_local const char* task_of_this_thread = nullptr;

struct TaskError {
  Fault kind;
  std::string message;
};

std::optional<TaskError> run_task(Task& work, const char* name) noexcept {
  task_of_this_thread = name;
  std::optional<TaskError> error;
  try {
    work();
  } catch (const Error& thrown) {
    error = TaskError{thrown.kind, thrown.what()};
  } catch (const std::bad_alloc&) {
    error = TaskError{Fault::OutOfMemory, "the host's memory is exhausted"};
  } catch (const std::exception& thrown) {
    error = TaskError{Fault::Internal, thrown.what()};
  } catch (...) {
    error = TaskError{Fault::Internal, "an exception that is not a std::exception"};
  }
  work = Task();  // what the closure owns is gone before the task counts as completed
  task_of_this_thread = nullptr;
  return error;
}

}  // namespace

Executors::Executors(Card& card, CardCounters& counters, int max_threads)
    : card_(card), counters_(counters), max_threads_(max_threads) {
  for (int64_t id = 0; id < kStreamCount; ++id)
    streams_[static_cast<size_t>(id)] =
        std::make_unique<StreamQueue>(card, *this, counters.streams[static_cast<size_t>(id)], id);
}

const char* Executors::current_task() { return task_of_this_thread; }

// --- queues ----------------------------------------------------------------------------------------------------------

Entry& Executors::append(StreamQueue& stream) {
  if (lost_) throw_lost();
  if (stopping_) fail(Fault::CardLost, "the process is exiting: its cards take no more work");
  Entry& entry = stream.queue.push();
  stream.progress.submitted.store(stream.progress.submitted.load(std::memory_order_relaxed) + 1,
                                  std::memory_order_release);
  return entry;
}

Ticket Executors::submit(StreamQueue& stream, const char* name, Task work, TaskTraits traits,
                         const LaunchWork* launch) {
  if (counting_down_.load(std::memory_order_relaxed)) [[unlikely]]
    count_down();
  std::lock_guard lock(mutex_);
  Entry& entry = append(stream);
  entry.name.assign(name);
  entry.work = std::move(work);
  entry.traits = traits;
  if (launch) {
    add_alone(stream.progress.launches, 1);
    add_alone(stream.counted, *launch);
  }
  entry.awaited = nullptr;
  if (stream.state == StreamQueue::State::Idle) make_ready(stream);
  return stream.progress.submitted.load(std::memory_order_relaxed);
}

Ticket Executors::submit_await(StreamQueue& stream, StreamQueue& awaited, Ticket ticket) {
  std::lock_guard lock(mutex_);
  Entry& entry = append(stream);
  entry.awaited = &awaited;
  entry.awaited_ticket = ticket;
  if (stream.state == StreamQueue::State::Idle) make_ready(stream);
  return stream.progress.submitted.load(std::memory_order_relaxed);
}

void Executors::make_ready(StreamQueue& stream) {
  stream.state = StreamQueue::State::Ready;
  auto& ready = ready_[stream.pool()];
  ready.store(ready.load(std::memory_order_relaxed) | stream.pool_bit(), std::memory_order_relaxed);
  const int ready_count = std::popcount(ready_[0].load(std::memory_order_relaxed)) +
                          std::popcount(ready_[1].load(std::memory_order_relaxed));
  if (ready_count > spinning_ + wake_tokens_) wake_thread();
}

void Executors::take(StreamQueue& stream) {
  auto& ready = ready_[stream.pool()];
  ready.store(ready.load(std::memory_order_relaxed) & ~stream.pool_bit(), std::memory_order_relaxed);
  stream.state = StreamQueue::State::Running;
}

StreamQueue* Executors::take_next() {
  for (size_t pool = 0; pool < 2; ++pool) {
    const uint64_t ready = ready_[pool].load(std::memory_order_relaxed);
    if (!ready) continue;
    const unsigned step = static_cast<unsigned>(std::countr_zero(std::rotr(ready, static_cast<int>(turn_[pool]))));
    const unsigned bit = (turn_[pool] + step) % 64;
    turn_[pool] = (bit + 1) % 64;
    StreamQueue& next = *streams_[pool == 0 ? bit + kStreamsPerPool + 1 : bit];
    take(next);
    return &next;
  }
  return nullptr;
}

// --- threads ---------------------------------------------------------------------------------------------------------

void Executors::wake_thread() {
  if (sleeping_ > 0) {
    --sleeping_;
    ++wake_tokens_;
    work_.notify_one();
  } else if (threads_ < max_threads_) {
    try {
      std::thread([this] { run_thread(); }).detach();
      ++threads_;
      ++wake_tokens_;
    } catch (const std::system_error&) {
      done_.notify_all();  // no thread to be had now: the others, or whoever waits, will run the stream
    }
  }
}

void Executors::run_thread() {
  FloatingPointScope::enter_forever();
  Lock lock(mutex_);
  --wake_tokens_;
  while (!stopping_) {
    if (StreamQueue* stream = take_next()) {
      run_stream(*stream, lock);
      continue;
    }
    ++spinning_;
    lock.unlock();
    spin_until([this] { return any_ready() || stopping_.load(std::memory_order_relaxed); }, kSpin);
    lock.lock();
    --spinning_;
    if (any_ready() || stopping_) continue;
    ++sleeping_;
    work_.wait(lock, [this] { return wake_tokens_ > 0 || stopping_; });
    if (!stopping_) --wake_tokens_;
  }
  --threads_;
}

bool Executors::give_way(const StreamQueue& stream, int tasks_run) const {
  if (!stream.high_priority() && ready_[0].load(std::memory_order_relaxed)) return true;
  return tasks_run >= kTurnTasks && ready_[stream.pool()].load(std::memory_order_relaxed);
}

// One task of a stream that this thread has taken; false if there was none to run and the stream is no longer taken.
bool Executors::run_next(StreamQueue& stream, Lock& lock) {
  if (stream.queue.empty() || stopping_) {
    stream.state = StreamQueue::State::Idle;
    return false;
  }
  const Entry& front = stream.queue.front();
  if (!front.awaited) {
    run_front(stream, lock);
  } else if (front.awaited->progress.completed.load(std::memory_order_acquire) >= front.awaited_ticket) {
    finish_front(stream, lock);
  } else {
    block_front(stream, lock);
    return false;
  }
  return true;
}

void Executors::run_stream(StreamQueue& stream, Lock& lock) {
  for (int tasks_run = 1; run_next(stream, lock); ++tasks_run)
    if (!stream.queue.empty() && give_way(stream, tasks_run)) return make_ready(stream);
}

void Executors::run_front(StreamQueue& stream, Lock& lock) {
  Entry& front = stream.queue.front();
  const Ticket ticket = stream.progress.completed.load(std::memory_order_relaxed) + 1;
  const bool skip = !front.traits.always && (stream.failure || ticket <= stream.skip_through);
  const uint64_t life = life_;
  Task work = std::move(front.work);
  std::string name;
  name.swap(front.name);
  stream.front_in_execution = true;
  ++busy_;
  lock.unlock();
  std::optional<TaskError> error;
  if (skip) {
    work = Task();
  } else {
    error = run_task(work, name.c_str());
  }
  if (error)
    error->message = name + " failed on spyre:" + std::to_string(card_.index()) + " stream " +
                     std::to_string(stream.id()) + ": " + error->message;
  lock.lock();
  stream.front_in_execution = false;
  if ((--busy_ == 0 && stopping_) || lost_) stopped_.notify_all();
  stream.queue.front().name.swap(name);  // the slot keeps its capacity
  if (error && !stream.failure && life == life_)
    stream.failure = Failure{error->kind, std::move(error->message), ++failures_};
  finish_front(stream, lock);
}

void Executors::finish_front(StreamQueue& stream, Lock& lock) {
  stream.queue.pop();
  const std::vector<StreamWaiter> due = publish(stream);
  if (due.empty()) return;
  lock.unlock();
  for (const StreamWaiter& waiter : due) waiter.stream->executors.resume(waiter);
  lock.lock();
}

std::vector<StreamWaiter> Executors::publish(StreamQueue& stream) {
  const Ticket completed = stream.progress.submitted.load(std::memory_order_relaxed) - stream.queue.size();
  stream.progress.completed.store(completed, std::memory_order_release);
  if (completed >= stream.wake_host_at) {
    stream.wake_host_at = kNever;
    done_.notify_all();
  }
  std::vector<StreamWaiter> due;
  if (stream.waiters.empty()) return due;
  std::erase_if(stream.waiters, [&](const StreamWaiter& waiter) {
    if (waiter.ticket > completed) return false;
    due.push_back(waiter);
    return true;
  });
  return due;
}

// --- waiting of streams for streams, perhaps of another card: never two locks at once
// ----------------------------------

void Executors::block_front(StreamQueue& stream, Lock& lock) {
  const Entry& front = stream.queue.front();
  StreamQueue& awaited = *front.awaited;
  const StreamWaiter waiter{&stream, ++stream.block_serial, front.awaited_ticket};
  stream.state = StreamQueue::State::Blocked;
  lock.unlock();
  if (!awaited.executors.add_waiter(awaited, waiter)) resume(waiter);
  lock.lock();
}

bool Executors::add_waiter(StreamQueue& awaited, StreamWaiter waiter) {
  std::lock_guard lock(mutex_);
  if (awaited.progress.completed.load(std::memory_order_relaxed) >= waiter.ticket) return false;
  awaited.waiters.push_back(waiter);
  return true;
}

void Executors::resume(StreamWaiter waiter) {
  std::lock_guard lock(mutex_);
  StreamQueue& stream = *waiter.stream;
  if (stream.state == StreamQueue::State::Blocked && stream.block_serial == waiter.serial) make_ready(stream);
}

}  // namespace openspyre
