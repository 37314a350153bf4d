// Copies as the sanitizer sees them: they mark what they write, tell what they read, and carry what is known of each
// element along. Nothing happens for memory without a shadow.
#pragma once

#include <functional>
#include <string>

#include "dma/dma.h"

namespace openspyre::sanitize {

// Throw SanitizerFinding for memory that is not allocated; copying_out also reports elements nobody wrote.
void copying_in(const DeviceView& target);
void copied_in(const DeviceView& target);
void copying_out(const DeviceView& source);
void copying_across(const DeviceView& source, const DeviceView& target);
// Runs a copy and sees that it wrote every element; source and target lie apart.
void watch_copy(const DeviceView& target, const std::function<void()>& copy);

// The host reads on somebody's behalf whether anything was written or not: a fallback's out= tensors.
class AllowUninitialisedReads {
 public:
  AllowUninitialisedReads();
  ~AllowUninitialisedReads();
};

// What copies of this thread are reported as being part of.
class CopyName {
 public:
  explicit CopyName(std::string name);
  ~CopyName();
  CopyName(const CopyName&) = delete;
  CopyName& operator=(const CopyName&) = delete;
  const std::string& text() const { return name_; }

 private:
  const std::string name_;
};

// Memory written and read as plain bytes (RAW buffers).
void wrote_bytes(const std::byte* memory, size_t bytes);
void copied_bytes(const std::byte* source, const std::byte* target, size_t bytes);

}  // namespace openspyre::sanitize
