// A stream of a card: its queue and where it stands. The executors of its card guard and run it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "counters/counters.h"
#include "streams/entry_ring.h"

namespace openspyre {

class Executors;
constexpr Ticket kNever = std::numeric_limits<Ticket>::max();

// A stream that waits for a ticket of another one; `serial` tells a late wake-up from the current wait.
struct StreamWaiter {
  StreamQueue* stream;
  uint64_t serial;
  Ticket ticket;
};

struct Failure {
  Fault kind;
  std::string text;
  uint64_t order;  // among the card's failures
};

class StreamQueue final : public Stream {
 public:
  StreamQueue(Card& card, Executors& executors, StreamCounters& counters, int64_t id)
      : executors(executors), progress(counters.queue), counted(counters.work), card_(card), id_(id) {}

  int64_t id() const override { return id_; }
  int priority() const override { return high_priority() ? -1 : 0; }
  Card& card() const override { return card_; }
  Ticket submit(const char* name, Task work, bool lengthy, const LaunchWork* launch) override;
  Ticket submitted() const override;
  Ticket completed() const override;
  void wait(Ticket ticket) override;
  void finish(Ticket ticket) noexcept override;

  bool high_priority() const { return id_ > kStreamsPerPool; }
  size_t pool() const { return high_priority() ? 0 : 1; }
  uint64_t pool_bit() const { return 1ull << (high_priority() ? id_ - kStreamsPerPool - 1 : id_); }

  Executors& executors;
  Progress& progress;
  WorkCounts& counted;  // under the lock

  // Guarded by the executors' lock. A line of its own: threads change it by turns, and what stands above it they only
  // read.
  enum class State : uint8_t { Idle, Ready, Running, Blocked };
  alignas(64) State state = State::Idle;
  bool front_in_execution = false;
  EntryRing queue;
  std::optional<Failure> failure;
  Ticket skip_through = 0;  // tasks up to here were queued behind a failed one
  std::vector<StreamWaiter> waiters;
  uint64_t block_serial = 0;
  Ticket wake_host_at = kNever;  // lowest ticket a sleeping host thread waits for

 private:
  Card& card_;
  const int64_t id_;
};

}  // namespace openspyre
