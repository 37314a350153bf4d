#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "byte_text.h"

namespace openspyre {
namespace {

constexpr uint64_t kHandleBase = 0x5000'0000'0000, kHandlePitch = 256ull << 30;

uint64_t page_bytes() {
  static const uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

[[noreturn]] void fail_reserve(int card_index, uint64_t bytes) {
  fail(Fault::OutOfMemory, "cannot reserve " + byte_text(bytes) + " of address space for spyre:" +
                               std::to_string(card_index) + ": " + std::strerror(errno) +
                               ". Raise the limit (ulimit -v, vm.overcommit_memory) or configure a card with less "
                               "memory (memory_bytes).");
}

// Handles are easy to recognise where the pleasant place is free.
void* reserve_handles(int card_index, uint64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* wish = reinterpret_cast<void*>(kHandleBase + static_cast<uint64_t>(card_index) * kHandlePitch);
  if (bytes <= kHandlePitch) {
    void* handles = mmap(wish, bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (handles == wish) return handles;
    if (handles != MAP_FAILED) munmap(handles, bytes);  // kernels before 4.17 take the flag for a hint
  }
  return mmap(nullptr, bytes, PROT_NONE, flags, -1, 0);
}

std::byte* reserve_backing(uint64_t bytes) {
  const uint64_t slack = bytes + kGranuleBytes;
  void* start = mmap(nullptr, slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  const uint64_t address = reinterpret_cast<uint64_t>(start);
  const uint64_t aligned = (address + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
  if (aligned > address) munmap(start, aligned - address);
  if (const uint64_t tail = address + slack - (aligned + bytes)) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  std::byte* backing = reinterpret_cast<std::byte*>(aligned);
  madvise(backing, bytes, MADV_HUGEPAGE);
  madvise(backing, bytes, MADV_DONTFORK);  // a child may not use it: spare the parent the copying of page tables
  madvise(backing, bytes, MADV_DONTDUMP);
  return backing;
}

}  // namespace

DeviceMemory::DeviceMemory(int card_index, uint64_t bytes, uint64_t host_reserve_bytes)
    : bytes_(bytes),
      mapped_bytes_((bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes),
      host_reserve_bytes_(host_reserve_bytes),
      commits_(new std::atomic<bool>[mapped_bytes_ / kGranuleBytes]()) {
  void* handles = reserve_handles(card_index, mapped_bytes_);
  if (handles == MAP_FAILED) fail_reserve(card_index, bytes);
  base_ = reinterpret_cast<Address>(handles);
  backing_ = reserve_backing(mapped_bytes_);
  if (!backing_) {
    const int reason = errno;
    munmap(handles, mapped_bytes_);
    errno = reason;
    fail_reserve(card_index, bytes);
  }
  HostBudget::instance().add(this);
}

DeviceMemory::~DeviceMemory() {
  HostBudget::instance().remove(this);
  HostBudget::instance().give_back(committed_bytes());
  munmap(backing_, mapped_bytes_);
  munmap(reinterpret_cast<void*>(base_), mapped_bytes_);
}

bool DeviceMemory::commit(Address address, uint64_t bytes, HostShortage& shortage) {
  const uint64_t first = (address - base_) / kGranuleBytes, last = (address - base_ + bytes - 1) / kGranuleBytes;
  uint64_t missing = 0;
  for (uint64_t granule = first; granule <= last; ++granule) missing += !committed(granule);
  if (missing == 0) return true;
  if (!HostBudget::instance().take(missing * kGranuleBytes, host_reserve_bytes_, shortage)) return false;
  for (uint64_t granule = first; granule <= last; ++granule) commits_[granule].store(true, std::memory_order_relaxed);
  committed_granules_.fetch_add(missing, std::memory_order_relaxed);
  return true;
}

template <typename Visit>
void DeviceMemory::for_each_committed_run(uint64_t first, uint64_t end, Visit&& visit) const {
  while (first < end) {
    uint64_t stop = first;
    while (stop < end && committed(stop)) ++stop;
    if (stop > first) visit(first, stop);
    first = stop + 1;
  }
}

void DeviceMemory::release_inside(Address address, uint64_t bytes) {
  const uint64_t first = (address - base_ + kGranuleBytes - 1) / kGranuleBytes;
  uint64_t end = (address - base_ + bytes) / kGranuleBytes;
  if (address - base_ + bytes == bytes_) end = mapped_bytes_ / kGranuleBytes;  // the last granule may be a part
  for_each_committed_run(first, end, [this](uint64_t start, uint64_t stop) {
    const uint64_t run = (stop - start) * kGranuleBytes;
    madvise(backing_ + start * kGranuleBytes, run, MADV_DONTNEED);
    for (uint64_t granule = start; granule < stop; ++granule) commits_[granule].store(false, std::memory_order_relaxed);
    committed_granules_.fetch_sub(stop - start, std::memory_order_relaxed);
    HostBudget::instance().give_back(run);
  });
}

uint64_t DeviceMemory::resident_bytes() const {
  constexpr uint64_t kBatchGranules = 512;
  std::vector<unsigned char> pages(kBatchGranules * (kGranuleBytes / page_bytes()));
  uint64_t resident = 0;
  for_each_committed_run(0, mapped_bytes_ / kGranuleBytes, [&](uint64_t start, uint64_t stop) {
    for (; start < stop; start += kBatchGranules) {
      const uint64_t bytes = std::min(kBatchGranules, stop - start) * kGranuleBytes;
      if (mincore(backing_ + start * kGranuleBytes, bytes, pages.data()) != 0) continue;
      resident += static_cast<uint64_t>(std::count_if(pages.begin(),
                                                      pages.begin() + static_cast<ptrdiff_t>(bytes / page_bytes()),
                                                      [](auto page) { return page & 1; }));
    }
  });
  return resident * page_bytes();
}

}  // namespace openspyre
