// What the process may still take from the host, over all cards: committed pages count even before they are touched,
// so that a full host shows as an out-of-memory error and not as a killed process.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "memory/host_memory.h"

namespace openspyre {

class DeviceMemory;

struct HostShortage {
  uint64_t available_bytes;
  bool cgroup;
};

class HostBudget {
 public:
  static HostBudget& instance();

  void add(const DeviceMemory* memory);
  void remove(const DeviceMemory* memory);
  bool take(uint64_t bytes, uint64_t reserve_bytes, HostShortage& shortage);
  void give_back(uint64_t bytes);

 private:
  uint64_t untouched_at_most() const { return committed_ - std::min(committed_, resident_at_least_); }
  uint64_t measure_resident() const;

  std::mutex mutex_;
  std::vector<const DeviceMemory*> memories_;
  uint64_t committed_ = 0;
  uint64_t resident_at_least_ = 0;  // measured once; falls with what is given back
  uint64_t credit_ = 0;             // may be taken without asking the host again, for a moment
  std::chrono::steady_clock::time_point credit_until_;
};

}  // namespace openspyre
