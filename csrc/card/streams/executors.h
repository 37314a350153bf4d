// The threads that run a card's streams. A stream is idle, ready, running (owned by one thread) or blocked on another
// stream's ticket; ready streams are taken high priority first, in turn. Threads start when needed, spin briefly, then
// sleep.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "streams/stream_queue.h"

namespace openspyre {

class Executors {
 public:
  Executors(Card& card, CardCounters& counters, int max_threads);

  StreamQueue& stream(int64_t id) { return *streams_[static_cast<size_t>(id)]; }
  const Progress& progress(int64_t id) const { return streams_[static_cast<size_t>(id)]->progress; }

  Ticket submit(StreamQueue& stream, const char* name, Task work, TaskTraits traits,
                const LaunchWork* launch = nullptr);
  Ticket submit_await(StreamQueue& stream, StreamQueue& awaited, Ticket ticket);
  void wait(StreamQueue& stream, Ticket ticket);
  void finish(StreamQueue& stream, Ticket ticket) noexcept;  // not to be interrupted; reports nothing
  void wait_all();          // reports the error that happened first; others stay for the next wait
  void wait_all_quietly();  // ends early if the card is lost; reports nothing

  void lose(const std::string& why);
  void lose_after(uint64_t tasks, const std::string& why);
  void reset();
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  void refuse_if_lost();

  void shut_down();  // queued work is abandoned, running work is waited for, for a while

  static const char* current_task();  // name of the task this thread runs, or nullptr
  static bool inside_task() { return current_task() != nullptr; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;
  static constexpr auto kSpin = std::chrono::microseconds(40);
  static constexpr auto kLook = std::chrono::milliseconds(20);  // between looks for an interrupt

  // All called with the lock held; those that take it may release it for a while.
  Entry& append(StreamQueue& stream);
  void make_ready(StreamQueue& stream);
  void take(StreamQueue& stream);
  StreamQueue* take_next();
  bool any_ready() const {
    return (ready_[0].load(std::memory_order_relaxed) | ready_[1].load(std::memory_order_relaxed));
  }
  void wake_thread();
  void run_thread();
  void run_stream(StreamQueue& stream, Lock& lock);
  void help(StreamQueue& stream, Lock& lock, Ticket until);
  bool can_help(StreamQueue& stream) const;
  bool run_next(StreamQueue& stream, Lock& lock);
  void run_front(StreamQueue& stream, Lock& lock);
  void finish_front(StreamQueue& stream, Lock& lock);
  void block_front(StreamQueue& stream, Lock& lock);
  void resume(StreamWaiter waiter);
  bool add_waiter(StreamQueue& awaited, StreamWaiter waiter);
  std::vector<StreamWaiter> drop_queue(StreamQueue& stream, std::vector<Task>& dropped);
  std::vector<StreamWaiter> publish(StreamQueue& stream);
  bool give_way(const StreamQueue& stream, int tasks_run) const;
  enum class Patience : uint8_t { Endless, Interruptible };
  void wait_until(StreamQueue& stream, Ticket ticket, Lock& lock, Patience patience = Patience::Interruptible);
  [[noreturn]] void throw_failure(StreamQueue& stream);
  [[noreturn]] void throw_lost() const;
  void count_down();  // without the lock

  Card& card_;
  CardCounters& counters_;
  const int max_threads_;
  std::array<std::unique_ptr<StreamQueue>, kStreamCount> streams_;

  // Apart from each other: what is locked, what waiting threads look at all the time, and what is changed under the
  // lock.
  alignas(64) std::mutex mutex_;
  std::condition_variable work_, done_, stopped_;
  // Bit sets of streams: [0] high priority, [1] default and low.
  alignas(64) std::array<std::atomic<uint64_t>, 2> ready_{};
  alignas(64) std::array<unsigned, 2> turn_{};
  int threads_ = 0, spinning_ = 0, sleeping_ = 0, wake_tokens_ = 0, busy_ = 0;
  std::atomic<bool> lost_{false}, stopping_{false};
  std::string lost_why_;
  std::atomic<bool> counting_down_{false};
  uint64_t tasks_left_ = 0;
  std::string why_then_;
  uint64_t life_ = 0;  // counts resets: an error from before one is not reported after it
  uint64_t failures_ = 0;
};

}  // namespace openspyre
