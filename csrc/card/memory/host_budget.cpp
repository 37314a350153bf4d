#include "memory/host_budget.h"

#include <algorithm>

#include "memory/memory.h"

namespace openspyre {
namespace {

constexpr auto kCreditLifetime = std::chrono::milliseconds(50);

uint64_t difference(uint64_t left, uint64_t right) { return left - std::min(left, right); }

}  // namespace

HostBudget& HostBudget::instance() {
  static HostBudget* budget = new HostBudget;  // never destroyed: memory may be freed late
  return *budget;
}

void HostBudget::add(const DeviceMemory* memory) {
  std::lock_guard lock(mutex_);
  memories_.push_back(memory);
}

void HostBudget::remove(const DeviceMemory* memory) {
  std::lock_guard lock(mutex_);
  std::erase(memories_, memory);
}

uint64_t HostBudget::measure_resident() const {
  uint64_t bytes = 0;
  for (const DeviceMemory* memory : memories_) bytes += memory->resident_bytes();
  return bytes;
}

bool HostBudget::take(uint64_t bytes, uint64_t reserve_bytes, HostShortage& shortage) {
  std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (bytes <= credit_ && now < credit_until_) {
    credit_ -= bytes;
    committed_ += bytes;
    return true;
  }
  HostLimit host = read_host_limit();
  uint64_t room = difference(host.available_bytes, untouched_at_most() + reserve_bytes);
  if (room < bytes) {  // the cheap bound says no: find out what is really untouched
    resident_at_least_ = std::min(measure_resident(), committed_);
    host = read_host_limit();
    room = difference(host.available_bytes, untouched_at_most() + reserve_bytes);
  }
  if (room < bytes) {
    credit_ = 0;
    shortage = {room, host.cgroup};
    return false;
  }
  committed_ += bytes;
  credit_ = (room - bytes) / 4;
  credit_until_ = now + kCreditLifetime;
  return true;
}

void HostBudget::give_back(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  committed_ = difference(committed_, bytes);
  resident_at_least_ = difference(resident_at_least_, bytes);
}

}  // namespace openspyre
