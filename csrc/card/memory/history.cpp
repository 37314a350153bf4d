#include "memory/history.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace openspyre {
namespace {

std::atomic<StackSource> stack_source{nullptr};
thread_local int without_stacks = 0;

int64_t now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

void set_stack_source(StackSource source) { stack_source.store(source); }

WithoutStacks::WithoutStacks() { ++without_stacks; }
WithoutStacks::~WithoutStacks() { --without_stacks; }

// Who cannot be asked is unknown: an allocation does not fail for it.
OriginPtr gather_origin(bool stack, bool foreign_frames, const char* purpose) noexcept try {
  if (!stack && !purpose) return nullptr;
  auto origin = std::make_shared<Origin>();
  if (purpose) origin->purpose = purpose;
  const StackSource source = stack_source.load();
  if (stack && source && without_stacks == 0) origin->stack = source(foreign_frames);
  return origin;
} catch (...) {
  return nullptr;
}

void MemoryHistory::set(const HistoryOptions& options, bool clear, int64_t allocated_bytes) {
  const bool begins = options.blocks && (!options_.blocks || clear);
  options_ = options;
  std::rotate(entries_.begin(), entries_.begin() + static_cast<int64_t>(oldest_), entries_.end());
  oldest_ = 0;
  if (clear || !options.trace) entries_.clear();
  if (entries_.size() > options.max_entries)
    entries_.erase(entries_.begin(), entries_.end() - static_cast<int64_t>(options.max_entries));
  if (begins) restart_peak(allocated_bytes);
}

void MemoryHistory::restart_peak(int64_t allocated_bytes) {
  peak_bytes_ = allocated_bytes;
  peak_allocation_ = allocations_;
  gone_since_peak_.clear();
}

void MemoryHistory::note(MemoryAction action, Address address, size_t bytes, int64_t stream, OriginPtr origin) {
  if (!options_.trace || (options_.skipped >> static_cast<unsigned>(action) & 1) || options_.max_entries == 0) return;
  MemoryEntry entry{action, address, bytes, stream, now_us(), std::move(origin)};
  if (entries_.size() < options_.max_entries) {
    entries_.push_back(std::move(entry));
    return;
  }
  entries_[oldest_] = std::move(entry);
  oldest_ = (oldest_ + 1) % entries_.size();
}

void MemoryHistory::allocated(const Block& block, OriginPtr origin, int64_t allocated_bytes) {
  if (!options_.blocks) return;
  const bool on_entry = options_.stacks >= HistoryOptions::Stacks::Allocations || (origin && !origin->stack);
  note(MemoryAction::Alloc, block.address, block.requested, block.stream, on_entry ? origin : nullptr);
  held_.insert_or_assign(block.address, Held{block.bytes, std::move(origin), ++allocations_});
  if (allocated_bytes <= peak_bytes_) return;
  peak_bytes_ = allocated_bytes;
  peak_allocation_ = allocations_;
  gone_since_peak_.clear();
}

void MemoryHistory::free_requested(const Block& block, OriginPtr origin) {
  note(MemoryAction::FreeRequested, block.address, block.requested, block.stream, std::move(origin));
  const auto found = held_.find(block.address);
  if (found == held_.end()) return;
  Held& held = found->second;
  if (held.number <= peak_allocation_) gone_since_peak_.push_back({held.bytes, held.origin});
  awaiting_.insert_or_assign(block.address, std::move(held.origin));
  held_.erase(found);
}

void MemoryHistory::free_completed(const Block& block, OriginPtr origin) {
  awaiting_.erase(block.address);
  note(MemoryAction::FreeCompleted, block.address, block.requested, block.stream, std::move(origin));
}

OriginPtr MemoryHistory::origin_of(Address address) const {
  if (const auto held = held_.find(address); held != held_.end()) return held->second.origin;
  const auto awaiting = awaiting_.find(address);
  return awaiting == awaiting_.end() ? nullptr : awaiting->second;
}

void MemoryHistory::fill(MemorySnapshot& snapshot) const {
  snapshot.trace.assign(entries_.begin() + static_cast<int64_t>(oldest_), entries_.end());
  snapshot.trace.insert(snapshot.trace.end(), entries_.begin(), entries_.begin() + static_cast<int64_t>(oldest_));
  snapshot.peak_bytes = static_cast<uint64_t>(peak_bytes_);
  snapshot.peak = gone_since_peak_;
  for (const auto& [address, held] : held_) {
    snapshot.held.push_back({held.bytes, held.origin});
    if (held.number <= peak_allocation_) snapshot.peak.push_back(snapshot.held.back());
  }
}

}  // namespace openspyre
