// Errors of the card. Each kind has a Python class of the same name in openspyre/spec/errors.py.
#pragma once

#include <stdexcept>
#include <string>

#include "generated/faults.h"

namespace openspyre {

class Error : public std::runtime_error {
 public:
  Error(Fault kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
  Fault kind;
};

[[noreturn]] inline void fail(Fault kind, const std::string& message) { throw Error(kind, message); }

}  // namespace openspyre
