// Streams and events: FIFO queues of work that run on executor threads, truly asynchronously to the caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "error.h"
#include "streams/task.h"

namespace openspyre {

class Card;
class Stream;
struct LaunchWork;

constexpr int kStreamsPerPool = 32;
constexpr int kStreamCount = 1 + 2 * kStreamsPerPool;  // 0 default, 1..32 low priority, 33..64 high priority
constexpr int64_t kDefaultStream = 0;

// Position in a stream's queue: the n-th task submitted has ticket n (from 1).
using Ticket = uint64_t;

class Stream {
 public:
  virtual ~Stream() = default;
  virtual int64_t id() const = 0;
  virtual int priority() const = 0;  // 0 low, -1 high (as torch counts)
  virtual Card& card() const = 0;

  // Appends work. `name` (copied) names it in errors. Throws CardLost at once if the card is lost.
  // Cheap: no heap allocation for small closures, no system call while an executor is awake.
  // `lengthy` work is left to the executors, so that a wait for it can be interrupted. `launch` makes a launch of it,
  // and is what is counted for it.
  virtual Ticket submit(const char* name, Task work, bool lengthy = false, const LaunchWork* launch = nullptr) = 0;
  virtual Ticket submitted() const = 0;  // ticket of the newest task
  virtual Ticket completed() const = 0;  // every ticket up to this one has ended
  bool query() const { return completed() >= submitted(); }

  // Waits for a ticket (synchronize: for all submitted so far); the caller may help to execute. If a task of this
  // stream has failed since the last report, throws that first error, prefixed with the task's name, and the stream is
  // clean again. Tasks queued behind a failed one are skipped until the error has been reported; events among them
  // still complete. Throws Interrupted (interrupt.h) if the host wants to leave: the queue goes on.
  virtual void wait(Ticket ticket) = 0;
  virtual void finish(Ticket ticket) noexcept = 0;  // the same, to the end, and reports nothing
  void synchronize() { wait(submitted()); }
};

// A point in a stream. Recording again moves it. Thread-safe.
class Event {
 public:
  explicit Event(bool timing = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream& stream);
  void block(Stream& stream);  // work submitted to `stream` from now on waits for the recorded point; the host does not
  bool query() const;          // true if not recorded or reached
  void synchronize();          // reports errors of the recorded stream as Stream::wait does
  bool recorded() const;
  double elapsed_ms(const Event& later) const;  // InvalidArgument unless both were recorded with timing and are reached

  struct State;

 private:
  std::shared_ptr<State> state_;
  bool timing_;
};

}  // namespace openspyre
