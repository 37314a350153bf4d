// How lists of sizes and strides appear in messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace openspyre {

std::string list_text(std::span<const int64_t> values);  // "[2, 33, 64]"

}  // namespace openspyre
