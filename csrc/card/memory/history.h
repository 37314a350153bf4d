// What an allocator did and for whom, kept while somebody records it; and what was held at the peak.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "streams/card.h"

namespace openspyre {

// Who asked for memory. The stack is what the source of stacks gave; only it can read it.
struct Origin {
  std::shared_ptr<void> stack;
  std::string purpose;  // what the block is for, where that is no tensor of the user's
};
using OriginPtr = std::shared_ptr<const Origin>;

enum class MemoryAction : uint8_t { Alloc, FreeRequested, FreeCompleted, Map, Unmap, Snapshot, OutOfMemory };

// Pages belong to all streams, as stream 0 to the viewers of histories; a snapshot to none.
constexpr int64_t kPageStream = 0, kNoStream = -1;

struct MemoryEntry {
  MemoryAction action;
  Address address;  // of OutOfMemory: the bytes that were free
  size_t bytes;
  int64_t stream;
  int64_t time_us;  // since 1970
  OriginPtr origin;
};

struct HistoryOptions {
  enum class Stacks : uint8_t { None, Blocks, Allocations, All };  // each with those before it
  bool blocks = false;                                             // who holds what, now and at the peak
  bool trace = false;                                              // and everything that happens
  Stacks stacks = Stacks::None;
  bool foreign_frames = false;  // of C++ too
  size_t max_entries = SIZE_MAX;
  uint32_t skipped = 0;  // actions that are left out of the trace: bits
};

struct MemorySnapshot {
  enum class State : uint8_t { Allocated, AwaitingFree, Inactive };
  struct Piece {  // of memory that the host backs; in the order of addresses
    Address address;
    size_t bytes, requested;
    State state;
    OriginPtr origin;
  };
  struct Share {  // a block, as far as recorded
    size_t bytes;
    OriginPtr origin;
  };
  std::vector<Piece> pieces;
  std::vector<MemoryEntry> trace;
  uint64_t peak_bytes = 0;  // allocated at the peak since the recording began or peaks were reset
  std::vector<Share> peak;  // those of it that were allocated while it was recorded
  uint64_t held_bytes = 0;  // allocated now
  std::vector<Share> held;
};

// The allocator calls it under its lock. Stopped, it still learns of frees: blocks it knows may go.
class MemoryHistory {
 public:
  void set(const HistoryOptions& options, bool clear, int64_t allocated_bytes);
  void restart_peak(int64_t allocated_bytes);

  void allocated(const Block& block, OriginPtr origin, int64_t allocated_bytes);
  void free_requested(const Block& block, OriginPtr origin);
  void free_completed(const Block& block, OriginPtr origin);
  void note(MemoryAction action, Address address, size_t bytes, int64_t stream, OriginPtr origin = nullptr);

  OriginPtr origin_of(Address address) const;
  void fill(MemorySnapshot& snapshot) const;  // all but the pieces and held_bytes

 private:
  struct Held {
    size_t bytes;
    OriginPtr origin;
    uint64_t number;  // of its allocation
  };
  HistoryOptions options_;
  std::vector<MemoryEntry> entries_;
  size_t oldest_ = 0;  // once entries_ is full
  std::unordered_map<Address, Held> held_;
  std::unordered_map<Address, OriginPtr> awaiting_;  // freed, and another stream still uses them
  // Held at the peak is what was allocated up to it and is still held, or has gone since.
  uint64_t allocations_ = 0, peak_allocation_ = 0;
  int64_t peak_bytes_ = 0;
  std::vector<MemorySnapshot::Share> gone_since_peak_;
};

// A thread's stack, without any lock of the card held; may be null.
using StackSource = std::shared_ptr<void> (*)(bool foreign_frames);
void set_stack_source(StackSource source);

// Inside, the calling thread asks for no stack: it may hold a lock that somebody who has what the source needs waits
// for.
class WithoutStacks {
 public:
  WithoutStacks();
  ~WithoutStacks();
  WithoutStacks(const WithoutStacks&) = delete;
  WithoutStacks& operator=(const WithoutStacks&) = delete;
};

OriginPtr gather_origin(bool stack, bool foreign_frames, const char* purpose) noexcept;

// For all cards of the process, also those that start later. Stopped, the traces are dropped.
void record_memory(const HistoryOptions& options, bool clear);
bool memory_recorded();

}  // namespace openspyre
