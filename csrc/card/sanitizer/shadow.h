// What is known of every byte of a card's memory: a byte of state for each, reserved beside it while the card is
// sanitized (Configuration::sanitize) and never otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace openspyre {

enum class ByteState : uint8_t {
  Unallocated,    // never handed out, or its pages have gone back to the host
  Freed,          // handed out once, and freed
  Uninitialised,  // handed out, and written by nobody since
  Tainted,        // padding, or a value computed from padding or from what nobody wrote
  Initialised,
};
inline bool is_allocated(ByteState state) { return state > ByteState::Freed; }

class Shadow {
 public:
  struct Extent {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    bool holds(const std::byte* from, int64_t bytes) const { return from >= begin && from <= end - bytes; }
  };

  // `handles` is what the memory's first byte is called in reports.
  Shadow(const std::byte* memory, uint64_t bytes, uint64_t handles);
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  // The shadow that covers this memory, or nullptr: of a card without sanitizer, or no card's at all.
  static Shadow* of(const std::byte* memory);

  ByteState* at(const std::byte* memory) const { return states_ + (memory - memory_); }
  uint64_t handle(const std::byte* memory) const { return handles_ + static_cast<uint64_t>(memory - memory_); }
  void set(const std::byte* memory, uint64_t bytes, ByteState state);

  void hand_out(const std::byte* memory, uint64_t bytes);    // a block of its own, uninitialised
  void take_back(const std::byte* memory, uint64_t bytes);   // all blocks that begin here
  void drop_pages(const std::byte* memory, uint64_t bytes);  // whole pages; their bytes become Unallocated
  std::optional<Extent> block_at(const std::byte* memory) const;

 private:
  const std::byte* const memory_;
  const uint64_t bytes_, handles_;
  ByteState* states_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, uint64_t> blocks_;  // handed out: where each begins, and its bytes
};

}  // namespace openspyre
