// A card's address space: a range of handles nobody can dereference, and beside it the backing memory,
// reserved as a whole and committed in granules when a block is first handed out there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "memory/host_budget.h"
#include "sanitizer/shadow.h"
#include "streams/card.h"

namespace openspyre {

constexpr uint64_t kRegionBytes = 2ull << 20;  // a huge page: a fresh one is committed as a whole
constexpr uint64_t kRegionGranules = 32;
constexpr uint64_t kGranuleBytes =
    kRegionBytes / kRegionGranules;  // pages go back, and come again, in these parts of it

struct Pages {
  Address address;
  uint64_t bytes;
};

class DeviceMemory {
 public:
  // Memory that is not `backed` takes nothing from the host: it reads as zeros and must not be written.
  DeviceMemory(int card_index, uint64_t bytes, uint64_t host_reserve_bytes, bool backed = true, bool shadowed = false);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Address base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  std::byte* translate(Address address) const { return backing_ + (address - base_); }
  Shadow* shadow() const { return shadow_.get(); }  // nullptr unless shadowed

  uint64_t missing_bytes(Address address, uint64_t bytes) const;  // what commit() would take from the host
  // Commits what is not yet committed of the range; false, with nothing changed, if the host cannot back it.
  bool commit(Address address, uint64_t bytes, HostShortage& shortage);
  // Granules wholly inside the range go back to the host, from the end on, until `enough_bytes` have gone.
  void release_inside(Address address, uint64_t bytes, uint64_t enough_bytes);
  uint64_t committed_bytes() const { return committed_granules_.load(std::memory_order_relaxed) * kGranuleBytes; }
  uint64_t resident_bytes() const;                                           // touched pages of committed granules
  std::vector<Pages> committed_runs(Address address, uint64_t bytes) const;  // of a range
  // Called with every run of granules that comes (true) or goes.
  void watch(std::function<void(bool, Pages)> watcher) { watcher_ = std::move(watcher); }

 private:
  bool committed(uint64_t granule) const {
    return commits_[granule / kRegionGranules].load(std::memory_order_relaxed) >> granule % kRegionGranules & 1;
  }
  uint32_t missing_granules(uint64_t region, uint64_t first, uint64_t last) const;
  void release_run(uint64_t first, uint64_t end);
  void tell(bool come, uint64_t first, uint64_t end) const;

  uint64_t bytes_, mapped_bytes_, host_reserve_bytes_;
  bool backed_;
  Address base_;
  std::byte* backing_;
  std::unique_ptr<std::atomic<uint32_t>[]> commits_;  // a bit per granule; atomic: the budget reads it without our lock
  std::atomic<uint64_t> committed_granules_{0};
  uint64_t top_granule_ = 0;  // nothing was ever committed from here on
  std::unique_ptr<Shadow> shadow_;
  std::function<void(bool, Pages)> watcher_;
};

}  // namespace openspyre
