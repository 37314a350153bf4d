// How far a stream is: written by the stream, read by everybody who orders himself after it.
#pragma once

#include <atomic>

#include "streams/stream.h"

namespace openspyre {

struct alignas(64) Progress {
  std::atomic<Ticket> submitted{0};
  std::atomic<Ticket> completed{0};  // released after a task's last access

  bool idle() const { return completed.load(std::memory_order_acquire) >= submitted.load(std::memory_order_acquire); }
};

}  // namespace openspyre
