// Generated from openspyre/spec/launch_numbers.py by csrc/generate.py (`make generate`): do not edit.
// clang-format off
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/names.h"

namespace openspyre {

enum class Encoding : uint8_t {
  Float,
  Sen169,
  IntBelow,
  Int8,
  UInt8,
  Int16,
  Int32,
  Int64,
  SeedLow,
  SeedHigh,
  OffsetLow,
  OffsetHigh,
};
constexpr int kEncodingCount = 12;
template <>
struct Names<Encoding> {
  static constexpr const char* of[] = {
      "float", "sen169", "int_below", "int8", "uint8", "int16", "int32", "int64", "seed_low", "seed_high",
      "offset_low", "offset_high"};
};

enum class Rule : uint8_t {
  Cut,
  Checked,
  Ends,
  Divisor,
};
constexpr int kRuleCount = 4;
template <>
struct Names<Rule> {
  static constexpr const char* of[] = {
      "", "_checked", "_ends", "_divisor"};
};

}  // namespace openspyre
