// Generated from openspyre/spec/machine.py and layout.py by csrc/generate.py (`make generate`): do not edit.
// clang-format off
#pragma once

#include <cstddef>
#include <cstdint>


namespace openspyre {

constexpr int kStickBytes = 128;
constexpr int kCardCores = 32;
constexpr int kMaxCards = 8;
constexpr int kMaxRank = 6;
constexpr int64_t kMaxLoopPasses = 1099511627775;
constexpr int64_t kMaxPoints = 17592186044415;
constexpr size_t kMaxDepth = 16;
constexpr int64_t kMaxIterations = 16777216;

}  // namespace openspyre
