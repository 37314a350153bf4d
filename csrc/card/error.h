// Errors of the card. Each kind has a Python class of the same name in openspyre/spec/errors.py.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace openspyre {

enum class Fault : uint8_t {
  InvalidArgument,    // a call that makes no sense; ValueError
  InvalidDevice,      // no such card, no such stream
  UnsupportedFormat,  // an element type or conversion the card does not have
  InvalidLayout,      // a layout that does not fit its tensor
  ValueOutOfRange,    // a value the device format cannot hold (int64 beyond int32)
  OutOfMemory,        // the card, or the host under it, is full
  CardLost,           // the card fell off the bus (fault hook)
  BadFork,            // used in a forked child
  Internal,           // our bug
  IndexOutOfRange,    // an index tensor points outside its table; IndexError
  SanitizerFinding,   // the unkind card saw memory used wrongly
};

inline const char* name(Fault kind) {
  constexpr const char* names[] = {"InvalidArgument", "InvalidDevice",   "UnsupportedFormat", "InvalidLayout",
                                   "ValueOutOfRange", "OutOfMemory",     "CardLost",          "BadFork",
                                   "Internal",        "IndexOutOfRange", "SanitizerFinding"};
  return names[static_cast<int>(kind)];
}

class Error : public std::runtime_error {
 public:
  Error(Fault kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
  Fault kind;
};

[[noreturn]] inline void fail(Fault kind, const std::string& message) { throw Error(kind, message); }

}  // namespace openspyre
