// A piece of the card's memory as the allocator sees it, and the sets it keeps them in.
#pragma once

#include <bitset>
#include <set>

#include "formats/formats.h"
#include "streams/card.h"

namespace openspyre {

constexpr int64_t kAnyStream = -1;

struct Chunk : Block {
  enum class State : uint8_t {
    Used,    // handed out
    Shared,  // freed, but another stream than its own may still use it
    Quick,   // free, kept at its size for its own stream
    Free,    // free, merged with its neighbours; of `stream` while fenced, else of kAnyStream
  };
  State state = State::Used;
  bool fenced = false;  // free, but its stream has not completed `fence` yet: only that stream may have it
  Ticket fence = 0;
  std::bitset<kStreamCount> users;            // streams other than its own, see record_stream
  Chunk *before = nullptr, *after = nullptr;  // neighbours in address order
  Chunk* quick_next = nullptr;
  Chunk *fence_before = nullptr, *fence_after = nullptr;  // FenceQueue
};

// Free chunks by size, then by address: the lower bound is the best fit at the lowest address.
struct BySize {
  using is_transparent = void;
  bool operator()(const Chunk* left, const Chunk* right) const {
    return left->bytes != right->bytes ? left->bytes < right->bytes : left->address < right->address;
  }
  bool operator()(const Chunk* chunk, size_t bytes) const { return chunk->bytes < bytes; }
};
using FreeTree = std::set<Chunk*, BySize>;

// Fenced chunks of one stream in the order of their frees, so that those whose fence has passed are at the front.
class FenceQueue {
 public:
  Chunk* front() const { return first_; }

  void append(Chunk& chunk) {
    chunk.fenced = true;
    chunk.fence_before = last_;
    chunk.fence_after = nullptr;
    (last_ ? last_->fence_after : first_) = &chunk;
    last_ = &chunk;
  }

  void remove(Chunk& chunk) {
    chunk.fenced = false;
    (chunk.fence_before ? chunk.fence_before->fence_after : first_) = chunk.fence_after;
    (chunk.fence_after ? chunk.fence_after->fence_before : last_) = chunk.fence_before;
  }

 private:
  Chunk *first_ = nullptr, *last_ = nullptr;
};

// Small free chunks of one stream, one list per size: reuse takes no search and no merging.
class QuickLists {
 public:
  static constexpr size_t kLargestBytes = 64 << 10;

  void push(Chunk& chunk) {
    const size_t index = slot(chunk.bytes);
    chunk.quick_next = heads_[index];
    heads_[index] = &chunk;
    occupied_.set(index);
  }

  Chunk* top(size_t bytes) const { return heads_[slot(bytes)]; }

  void pop(size_t bytes) {
    const size_t index = slot(bytes);
    heads_[index] = heads_[index]->quick_next;
    if (!heads_[index]) occupied_.reset(index);
  }

  Chunk* take_any() {  // any chunk, or nullptr
    const size_t index = occupied_._Find_first();
    if (index == kSizes) return nullptr;
    Chunk* chunk = heads_[index];
    pop(chunk->bytes);
    return chunk;
  }

 private:
  static constexpr size_t kSizes = kLargestBytes / kStickBytes;
  static size_t slot(size_t bytes) { return bytes / kStickBytes - 1; }

  std::array<Chunk*, kSizes> heads_{};
  std::bitset<kSizes> occupied_;
};

}  // namespace openspyre
