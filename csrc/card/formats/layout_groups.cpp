// Host dims are taken by decreasing stride; a group closes as soon as the device dims with at least its stride hold it.
// Twin of openspyre/spec/addressing.py.
#include "formats/layout_groups.h"

#include <algorithm>

namespace openspyre {
namespace {

struct HostDim {
  int64_t size, stride;
  int64_t reach() const { return (size - 1) * stride; }
};

struct DeviceDim {
  int64_t map_stride, count, device_stride;
};

std::vector<HostDim> moving_dims(std::span<const int64_t> size, std::span<const int64_t> stride) {
  std::vector<HostDim> dims;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] > 1 && stride[i] > 0) dims.push_back({size[i], stride[i]});
  }
  std::stable_sort(dims.begin(), dims.end(), [](const HostDim& a, const HostDim& b) {
    return a.stride != b.stride ? a.stride > b.stride : a.size > b.size;
  });
  return dims;
}

std::vector<DeviceDim> mapped_dims(const Layout& layout, size_t skipped) {
  const std::vector<int64_t> strides = device_strides(layout);
  std::vector<DeviceDim> dims;
  for (size_t j = 0; j < layout.device_size.size(); ++j) {
    if (j != skipped && layout.device_size[j] > 1 && layout.stride_map[j] > 0) {
      dims.push_back({layout.stride_map[j], layout.device_size[j], strides[j]});
    }
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const DeviceDim& a, const DeviceDim& b) { return a.map_stride > b.map_stride; });
  return dims;
}

bool covers(const Group& group) {
  int64_t reach = group.extent;
  for (const Digit& digit : group.digits) {
    if ((reach - 1) / digit.step >= digit.count) return false;
    reach = std::min(reach, digit.step);
  }
  return reach == 1;
}

// Members are ordered by decreasing stride; the last one gives the unit.
std::optional<Group> close(std::span<const HostDim> members, std::span<const DeviceDim> dims) {
  const int64_t base = members.back().stride;
  Group group{base, 1, {}};
  for (const HostDim& member : members) {
    if (member.stride % base) return std::nullopt;
    group.extent += member.reach() / base;
  }
  for (const DeviceDim& dim : dims) {
    if (dim.map_stride % base) return std::nullopt;
    group.digits.push_back({dim.map_stride / base, dim.count, dim.device_stride});
  }
  return covers(group) ? std::optional(group) : std::nullopt;
}

std::optional<std::vector<Group>> group_dims(std::span<const HostDim> host, std::span<const DeviceDim> device) {
  std::vector<Group> groups;
  size_t first = 0, first_digit = 0;
  for (size_t i = 0; i < host.size(); ++i) {
    const bool last = i + 1 == host.size();
    int64_t reach_below = 0;
    for (size_t j = i + 1; j < host.size(); ++j) reach_below += host[j].reach();
    if (reach_below >= host[i].stride) continue;  // overlapping dims share a group
    size_t end = first_digit;
    while (end < device.size() && (last || device[end].map_stride >= host[i].stride)) ++end;
    std::optional<Group> group =
        close(host.subspan(first, i + 1 - first), device.subspan(first_digit, end - first_digit));
    if (!group) continue;
    groups.push_back(std::move(*group));
    first = i + 1;
    first_digit = end;
  }
  if (first != host.size()) return std::nullopt;
  return groups;
}

}  // namespace

std::vector<int64_t> device_strides(const Layout& layout) {
  std::vector<int64_t> strides(layout.device_size.size());
  int64_t stride = 1;
  for (size_t j = strides.size(); j-- > 0;) {
    strides[j] = stride;
    stride *= layout.device_size[j];
  }
  return strides;
}

int64_t count_host_elements(std::span<const int64_t> size, std::span<const int64_t> stride) {
  int64_t elements = 1;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 0) return 0;
    elements += (size[i] - 1) * stride[i];
  }
  return elements;
}

std::optional<std::vector<Group>> find_groups(std::span<const int64_t> host_size, std::span<const int64_t> host_stride,
                                              const Layout& layout) {
  const std::vector<HostDim> host = moving_dims(host_size, host_stride);
  constexpr size_t kNone = static_cast<size_t>(-1);
  std::optional<std::vector<Group>> groups = group_dims(host, mapped_dims(layout, kNone));
  if (groups) return groups;
  // A tile index padded beyond its stick dim's size has a stride that looks like another dim's: it is always 0.
  const size_t rank = layout.device_size.size();
  return group_dims(host, mapped_dims(layout, rank < 3 ? 0 : rank - 3));
}

}  // namespace openspyre
