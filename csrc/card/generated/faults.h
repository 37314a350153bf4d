// Generated from openspyre/spec/errors.py by csrc/generate.py (`make generate`): do not edit.
// clang-format off
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/names.h"

namespace openspyre {

enum class Fault : uint8_t {
  InvalidArgument,  // A call whose arguments make no sense together.
  InvalidDevice,  // There is no such card, or no such stream on it.
  UnsupportedFormat,  // An element type, or a conversion between two, that the card does not have.
  InvalidLayout,  // A layout that contradicts itself or does not fit its tensor.
  ValueOutOfRange,  // A value the device format cannot hold, such as an int64 beyond int32.
  OutOfMemory,  // The card, or the host under it, has no room for an allocation.
  CardLost,  // The card fell off the bus; it refuses all work until it is reset.
  BadFork,  // A card was used in a forked child of a process that had already started it.
  Internal,  // A bug of ours, not a mistake of the user's.
  IndexOutOfRange,  // An index tensor points outside the tensor it indexes; found by the card, told when the host next waits for it.
  SanitizerFinding,  // The sanitizer saw memory used wrongly; it says what, where, on which core, and which line launched it.
};
constexpr int kFaultCount = 11;
template <>
struct Names<Fault> {
  static constexpr const char* of[] = {
      "InvalidArgument", "InvalidDevice", "UnsupportedFormat", "InvalidLayout", "ValueOutOfRange", "OutOfMemory",
      "CardLost", "BadFork", "Internal", "IndexOutOfRange", "SanitizerFinding"};
};

}  // namespace openspyre
