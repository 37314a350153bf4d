// A card's address space: a range of handles nobody can dereference, and beside it the backing memory,
// reserved as a whole and committed in granules when a block is first handed out there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "card.h"
#include "host_budget.h"

namespace openspyre {

constexpr uint64_t kGranuleBytes = 2ull << 20;  // a huge page

class DeviceMemory {
 public:
  DeviceMemory(int card_index, uint64_t bytes, uint64_t host_reserve_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Address base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  std::byte* translate(Address address) const { return backing_ + (address - base_); }

  // Commits what is not yet committed of the range; false, with nothing changed, if the host cannot back it.
  bool commit(Address address, uint64_t bytes, HostShortage& shortage);
  void release_inside(Address address, uint64_t bytes);  // granules wholly inside the range go back to the host
  uint64_t committed_bytes() const { return committed_granules_.load(std::memory_order_relaxed) * kGranuleBytes; }
  uint64_t resident_bytes() const;  // touched pages of committed granules

 private:
  bool committed(uint64_t granule) const { return commits_[granule].load(std::memory_order_relaxed); }
  template <typename Visit>
  void for_each_committed_run(uint64_t first, uint64_t end, Visit&& visit) const;

  uint64_t bytes_, mapped_bytes_, host_reserve_bytes_;
  Address base_;
  std::byte* backing_;
  std::unique_ptr<std::atomic<bool>[]> commits_;  // atomic: other cards' budgets read it
  std::atomic<uint64_t> committed_granules_{0};
};

}  // namespace openspyre
