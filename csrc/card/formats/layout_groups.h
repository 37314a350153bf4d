// Finds the place of every element of a host shape in a layout: the groups and digits of a BufferShape.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "formats/layout.h"

namespace openspyre {

// Row-major strides, in elements, of a layout's device dims.
std::vector<int64_t> device_strides(const Layout& layout);

// Largest host offset + 1; 0 if the tensor is empty.
int64_t count_host_elements(std::span<const int64_t> size, std::span<const int64_t> stride);

// Groups ordered by decreasing base stride, or nothing if some element has no place.
std::optional<std::vector<Group>> find_groups(std::span<const int64_t> host_size, std::span<const int64_t> host_stride,
                                              const Layout& layout);

}  // namespace openspyre
