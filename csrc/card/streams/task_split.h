// Spreads the cores of a step over the worker pool. Where there are fewer cores than threads, the points of a core are
// shared out too; this never changes a result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "streams/workers.h"

namespace openspyre {

class TaskSplit {
 public:
  // `points` per core, handed out in multiples of `unit`; a point costs about `work` lanes.
  TaskSplit(int cores, int64_t points, int64_t unit, int64_t work) : cores_(cores), points_(points) {
    const int64_t lanes = points * work * cores;
    serial_ = lanes <= kSerialLanes;
    const int64_t wanted = serial_ ? 1 : std::min<int64_t>(4 * worker_threads(), lanes / kTaskLanes + 1);
    const int64_t parts = std::max<int64_t>(1, (wanted + cores - 1) / cores);
    length_ = std::max<int64_t>(1, ((points + parts - 1) / parts + unit - 1) / unit * unit);
    parts_ = points == 0 ? 0 : (points + length_ - 1) / length_;
  }

  // body(core, first point, end)
  template <typename Body>
  void run(Body&& body) const {
    auto task = [&](size_t i) {
      const auto core = static_cast<int64_t>(i) / parts_, part = static_cast<int64_t>(i) % parts_;
      body(static_cast<int>(core), part * length_, std::min(points_, (part + 1) * length_));
    };
    const auto tasks = static_cast<size_t>(cores_ * parts_);
    if (serial_) {
      for (size_t i = 0; i < tasks; ++i) task(i);
    } else {
      parallel_for(tasks, task);
    }
  }

 private:
  static constexpr int64_t kSerialLanes = 32 << 10;  // below, waking workers costs more than it saves
  static constexpr int64_t kTaskLanes = 16 << 10;
  int64_t cores_, points_, parts_ = 1, length_ = 1;
  bool serial_ = true;
};

}  // namespace openspyre
