// The queue of a stream: a growing ring whose slots keep the capacity of their names, so that a warm queue allocates
// nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "streams/task.h"

namespace openspyre {

class StreamQueue;

struct TaskTraits {
  bool always = false;   // runs even behind a failed task
  bool lengthy = false;  // the host does not help with it
};

struct Entry {
  std::string name;
  Task work;  // empty: wait for `awaited` to complete `awaited_ticket`
  TaskTraits traits;
  StreamQueue* awaited = nullptr;
  uint64_t awaited_ticket = 0;
};

class EntryRing {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  Entry& front() { return slots_[first_]; }

  Entry& push() {
    if (size_ == capacity_) grow();
    return slots_[(first_ + size_++) & (capacity_ - 1)];
  }

  void pop() {
    first_ = (first_ + 1) & (capacity_ - 1);
    --size_;
  }

 private:
  void grow() {
    const size_t capacity = capacity_ ? 2 * capacity_ : 16;
    auto slots = std::make_unique<Entry[]>(capacity);
    for (size_t i = 0; i < size_; ++i) slots[i] = std::move(slots_[(first_ + i) & (capacity_ - 1)]);
    slots_ = std::move(slots);
    capacity_ = capacity;
    first_ = 0;
  }

  std::unique_ptr<Entry[]> slots_;
  size_t capacity_ = 0, first_ = 0, size_ = 0;
};

}  // namespace openspyre
