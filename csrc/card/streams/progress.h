// How far a stream is: written by the stream, read by everybody who orders himself after it.
#pragma once

#include <atomic>

#include "generated/counters.h"
#include "streams/stream.h"

namespace openspyre {

// `completed` is released after a task's last access.
struct Progress : QueueCounts {
  bool idle() const { return completed.load(std::memory_order_acquire) >= submitted.load(std::memory_order_acquire); }
};

}  // namespace openspyre
