// Counting: current, peak, and the totals of both directions.
#pragma once

#include <algorithm>

#include "streams/card.h"

namespace openspyre {

inline void increase(MemoryStatistics::Counter& counter, size_t amount) {
  counter.current += static_cast<int64_t>(amount);
  counter.allocated += static_cast<int64_t>(amount);
  counter.peak = std::max(counter.peak, counter.current);
}

inline void decrease(MemoryStatistics::Counter& counter, size_t amount) {
  counter.current -= static_cast<int64_t>(amount);
  counter.freed += static_cast<int64_t>(amount);
}

}  // namespace openspyre
