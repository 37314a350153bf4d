// A card: its memory, its streams, its state; and the process-wide set of cards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "error.h"
#include "streams/stream.h"

namespace openspyre {

// Handles are addresses in a range the host cannot touch (mapped without access); translate() leads to the backing
// memory.
using Address = uint64_t;

// How this process sees its cards. Set once, before the first card is used; see openspyre/spec/environment.py for the
// switches behind it.
struct Configuration {
  int cards = 1;                               // visible cards, 0..8
  int threads = 0;                             // host threads for the cores; 0: one per available CPU
  uint64_t memory_bytes = 112ull << 30;        // usable memory per card
  uint64_t host_reserve_bytes = 512ull << 20;  // never taken from the host's or the cgroup's memory
  double cache_watermark = 0.5;                // cached free pages above this fraction of the host's memory go back
  bool sanitize = false;                       // sanitizer: memory is poisoned, every access checked and reported
  bool sanitize_strict = false;                // what is only worth a warning is an error too
  bool null = false;                           // accepts programs and copies, and neither computes nor keeps anything
  std::string isa;                          // widest instructions to use: "baseline", "avx2", "avx512"; "": the host's
  uint64_t core_span_bytes = 256ull << 20;  // of one tensor, that one core may reach in a step
  uint64_t scratchpad_bytes = 2ull << 20;   // of each core
};
void configure(const Configuration& configuration);  // InvalidArgument if a card is already in use
const Configuration& configuration();

constexpr uint8_t kPoison = 0xFF;  // a NaN in fp32, -infinity in SEN169, -1 as an integer

struct MemoryStatistics {
  // current, peak, and the totals ever allocated and freed
  struct Counter {
    int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  };
  Counter allocated_bytes;  // handed out, rounded to sticks
  Counter requested_bytes;  // as asked for
  Counter reserved_bytes;   // committed host pages: handed out or cached
  Counter active_bytes;     // handed out, or freed but still used by a stream
  Counter allocations;      // blocks
  int64_t out_of_memory = 0;
  int64_t cache_flushes = 0;
  uint64_t free_bytes = 0;          // of the card
  uint64_t largest_free_block = 0;  // of the card
};

// One allocation. Owned by the card; valid until free().
struct Block {
  Address address;
  size_t bytes;  // a multiple of kStickBytes
  size_t requested;
  Card* card;
  int64_t stream;  // stream it was allocated on
};

class Scratchpads;
class Shadow;
struct HistoryOptions;  // memory/history.h
struct MemorySnapshot;

class Card {
 public:
  virtual ~Card() = default;
  virtual int index() const = 0;

  // Memory. Thread-safe. allocate(0) gives a block of one stick. Stream-ordered: a freed block is reused at once by its
  // own stream, by others only when every stream that used it has passed the point of the free.
  // OutOfMemory names requested, free, largest block (card or host). `purpose` is for the history, where one is kept.
  virtual Block* allocate(size_t bytes, int64_t stream, const char* purpose = nullptr) = 0;
  virtual void free(Block* block) noexcept = 0;
  virtual void record_stream(Block* block, int64_t stream) = 0;
  std::byte* translate(Address address) const {  // host memory behind a handle of this card; InvalidArgument, BadFork
    const uint64_t offset = address - handles_;
    if (offset >= handle_bytes_) [[unlikely]]
      fail_translation(address);
    return backing_ + offset;
  }
  virtual void empty_cache() = 0;
  virtual MemoryStatistics memory_statistics() const = 0;
  virtual MemoryStatistics memory_counters() const = 0;  // quicker: without what is free
  virtual void record_memory(const HistoryOptions& options, bool clear) = 0;
  virtual MemorySnapshot memory_snapshot() = 0;
  virtual void reset_peak_memory() = 0;
  virtual void reset_accumulated_memory() = 0;
  virtual uint64_t total_memory() const = 0;
  virtual Address base_address() const = 0;

  // What the sanitizer knows of a card's memory, with all frees marked that streams have passed; nullptr without it.
  virtual Shadow* settled_shadow() = 0;
  virtual Scratchpads& scratchpads() = 0;  // reserved on first use

  // Streams.
  virtual Stream& stream(int64_t id) = 0;               // InvalidDevice unless 0 <= id < kStreamCount
  virtual int64_t next_stream(bool high_priority) = 0;  // round robin in the pool
  virtual void synchronize() = 0;                       // all streams; reports the first error

  // Fault hook: a lost card refuses all work with CardLost until it is reset (memory contents survive, queued work is
  // dropped). It is lost now, or when one task more than `after` is submitted.
  virtual void lose(const std::string& why, uint64_t after = kNow) = 0;
  static constexpr uint64_t kNow = UINT64_MAX;
  virtual bool lost() const = 0;
  virtual void reset() = 0;

 protected:
  [[noreturn]] void fail_translation(Address address) const;
  Address handles_ = 0;
  uint64_t handle_bytes_ = 0;
  std::byte* backing_ = nullptr;
};

int card_count();       // without starting anything
Card& card(int index);  // starts the card on first use; InvalidDevice, BadFork
bool cards_started();
Card* started_card(int index);  // nullptr unless it is in use; starts nothing
bool in_bad_fork();             // this process is a fork of one that used a card
void synchronize_all();

struct HostMemory {
  uint64_t total_bytes, available_bytes;  // the smaller of machine and cgroup
};
HostMemory host_memory();

}  // namespace openspyre
