// The scratchpads of a card's cores: 2 MB for each, in which a core keeps values from step to step and from launch to
// launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "generated/machine.h"
#include "sanitizer/shadow.h"

namespace openspyre {

class Scratchpads {
 public:
  Scratchpads(uint64_t bytes_per_core, bool shadowed);
  ~Scratchpads();
  Scratchpads(const Scratchpads&) = delete;
  Scratchpads& operator=(const Scratchpads&) = delete;

  // A launch has them to itself, whatever other streams do, and finds there what earlier launches left.
  std::unique_lock<std::mutex> claim() { return std::unique_lock(mutex_); }
  // Zero bytes, which nobody has written.
  void clear();

  std::byte* of(int core) const { return memory_ + static_cast<uint64_t>(core) * pitch_; }
  uint64_t bytes_per_core() const { return bytes_per_core_; }

 private:
  const uint64_t bytes_per_core_, pitch_;
  std::byte* memory_;
  std::unique_ptr<Shadow> shadow_;
  std::mutex mutex_;
};

}  // namespace openspyre
