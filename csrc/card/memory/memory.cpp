#include "memory/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "formats/byte_text.h"
#include "formats/formats.h"

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

// Handles are easy to recognise where the pleasant place is free; a hint never replaces what is there.
void* reserve_handles(int card_index, uint64_t bytes) {
  const uint64_t wish = kHandleBase + static_cast<uint64_t>(card_index) * kHandlePitch;
  return mmap(reinterpret_cast<void*>(wish), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

std::byte* reserve_backing(uint64_t bytes) {
  const uint64_t slack = bytes + kRegionBytes;
  void* start = mmap(nullptr, slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  const uint64_t address = reinterpret_cast<uint64_t>(start);
  const uint64_t aligned = (address + kRegionBytes - 1) / kRegionBytes * kRegionBytes;
  if (aligned > address) munmap(start, aligned - address);
  if (const uint64_t tail = address + slack - (aligned + bytes)) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  std::byte* backing = reinterpret_cast<std::byte*>(aligned);
  madvise(backing, bytes, MADV_HUGEPAGE);
  madvise(backing, bytes, MADV_DONTFORK);  // a child may not use it: spare the parent the copying of page tables
  madvise(backing, bytes, MADV_DONTDUMP);
  return backing;
}

struct GranuleRun {
  uint64_t first = 0, end = 0;
  bool extend(uint64_t granule) {
    if (first == end) first = end = granule;
    return granule == end && ++end;
  }
};

}  // namespace

DeviceMemory::DeviceMemory(int card_index, uint64_t bytes, uint64_t host_reserve_bytes, bool backed, bool shadowed)
    : bytes_(bytes),
      mapped_bytes_((bytes + kRegionBytes - 1) / kRegionBytes * kRegionBytes),
      host_reserve_bytes_(host_reserve_bytes),
      backed_(backed),
      commits_(new std::atomic<uint32_t>[mapped_bytes_ / kRegionBytes]()) {
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
  if (shadowed) shadow_ = std::make_unique<Shadow>(backing_, mapped_bytes_, base_);
  HostBudget::instance().add(this);
}

DeviceMemory::~DeviceMemory() {
  HostBudget::instance().remove(this);
  HostBudget::instance().give_back(committed_bytes());
  munmap(backing_, mapped_bytes_);
  munmap(reinterpret_cast<void*>(base_), mapped_bytes_);
}

// Of the granules first..last, those of `region` that are missing; all of it where nothing of it is committed.
uint32_t DeviceMemory::missing_granules(uint64_t region, uint64_t first, uint64_t last) const {
  const uint32_t committed = commits_[region].load(std::memory_order_relaxed);
  if (committed == 0) return ~0u;
  const unsigned low = region == first / kRegionGranules ? first % kRegionGranules : 0;
  const unsigned high = region == last / kRegionGranules ? last % kRegionGranules : kRegionGranules - 1;
  return (~0u << low) & (~0u >> (kRegionGranules - 1 - high)) & ~committed;
}

uint64_t DeviceMemory::missing_bytes(Address address, uint64_t bytes) const {
  if (!backed_) return 0;
  const uint64_t first = (address - base_) / kGranuleBytes, last = (address - base_ + bytes - 1) / kGranuleBytes;
  uint64_t granules = 0;
  for (uint64_t region = first / kRegionGranules; region <= last / kRegionGranules; ++region)
    granules += static_cast<uint64_t>(std::popcount(missing_granules(region, first, last)));
  return granules * kGranuleBytes;
}

bool DeviceMemory::commit(Address address, uint64_t bytes, HostShortage& shortage) {
  const uint64_t missing = missing_bytes(address, bytes);
  if (missing == 0) return true;
  if (!HostBudget::instance().take(missing, host_reserve_bytes_, shortage)) return false;
  const uint64_t first = (address - base_) / kGranuleBytes, last = (address - base_ + bytes - 1) / kGranuleBytes;
  GranuleRun fresh;
  for (uint64_t region = first / kRegionGranules; region <= last / kRegionGranules; ++region) {
    const uint32_t granules = missing_granules(region, first, last);
    commits_[region].fetch_or(granules, std::memory_order_relaxed);
    for (uint64_t i = 0; watcher_ && i < kRegionGranules; ++i) {
      if (!(granules >> i & 1)) continue;
      const uint64_t granule = region * kRegionGranules + i;
      if (!fresh.extend(granule)) tell(true, fresh.first, fresh.end), fresh = {granule, granule + 1};
    }
  }
  if (watcher_) tell(true, fresh.first, fresh.end);
  committed_granules_.fetch_add(missing / kGranuleBytes, std::memory_order_relaxed);
  top_granule_ = std::max(top_granule_, (last / kRegionGranules + 1) * kRegionGranules);
  return true;
}

void DeviceMemory::release_inside(Address address, uint64_t bytes, uint64_t enough_bytes) {
  const uint64_t first = (address - base_ + kGranuleBytes - 1) / kGranuleBytes;
  uint64_t end = (address - base_ + bytes) / kGranuleBytes;
  if (address - base_ + bytes == bytes_) end = mapped_bytes_ / kGranuleBytes;  // the card may end within a granule
  end = std::min(end, top_granule_);
  for (uint64_t released = 0; first < end && released < enough_bytes / kGranuleBytes;) {
    if (!committed(end - 1)) {
      const bool whole_region =
          end % kRegionGranules == 0 && commits_[end / kRegionGranules - 1].load(std::memory_order_relaxed) == 0;
      end = whole_region ? std::max(first, end - std::min(end, kRegionGranules)) : end - 1;
      continue;
    }
    uint64_t start = end;
    while (start > first && committed(start - 1) && released < enough_bytes / kGranuleBytes) --start, ++released;
    release_run(start, end);
    end = start;
  }
}

// The card may end within its last granule.
void DeviceMemory::tell(bool come, uint64_t first, uint64_t end) const {
  const uint64_t last = std::min(end * kGranuleBytes, bytes_ / kStickBytes * kStickBytes);
  if (watcher_ && first * kGranuleBytes < last)
    watcher_(come, {base_ + first * kGranuleBytes, last - first * kGranuleBytes});
}

std::vector<Pages> DeviceMemory::committed_runs(Address address, uint64_t bytes) const {
  std::vector<Pages> runs;
  const uint64_t begin = address - base_, end = std::min(begin + bytes, top_granule_ * kGranuleBytes);
  for (uint64_t at = begin; at < end;) {
    const uint64_t granule = at / kGranuleBytes;
    const bool whole_region = granule % kRegionGranules == 0;
    const bool none = whole_region && commits_[granule / kRegionGranules].load(std::memory_order_relaxed) == 0;
    const uint64_t next = std::min(end, (granule + (none ? kRegionGranules : 1)) * kGranuleBytes);
    if (committed(granule)) {
      if (!runs.empty() && runs.back().address + runs.back().bytes == base_ + at)
        runs.back().bytes += next - at;
      else
        runs.push_back({base_ + at, next - at});
    }
    at = next;
  }
  return runs;
}

void DeviceMemory::release_run(uint64_t first, uint64_t end) {
  tell(false, first, end);
  madvise(backing_ + first * kGranuleBytes, (end - first) * kGranuleBytes, MADV_DONTNEED);
  if (shadow_) shadow_->drop_pages(backing_ + first * kGranuleBytes, (end - first) * kGranuleBytes);
  for (uint64_t granule = first; granule < end; ++granule)
    commits_[granule / kRegionGranules].fetch_and(~(1u << granule % kRegionGranules), std::memory_order_relaxed);
  committed_granules_.fetch_sub(end - first, std::memory_order_relaxed);
  HostBudget::instance().give_back((end - first) * kGranuleBytes);
}

uint64_t DeviceMemory::resident_bytes() const {
  const uint64_t pages_per_granule = kGranuleBytes / page_bytes();
  std::vector<unsigned char> pages(pages_per_granule * kRegionGranules);
  uint64_t resident = 0;
  for (uint64_t region = 0; region < mapped_bytes_ / kRegionBytes; ++region) {
    if (commits_[region].load(std::memory_order_relaxed) == 0) continue;
    if (mincore(backing_ + region * kRegionBytes, kRegionBytes, pages.data()) != 0) continue;
    for (uint64_t page = 0; page < pages.size(); ++page)
      resident += (pages[page] & 1) && committed(region * kRegionGranules + page / pages_per_granule);
  }
  return resident * page_bytes();
}

}  // namespace openspyre
