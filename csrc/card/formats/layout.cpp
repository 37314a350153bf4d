// The tiling rule of the public documents, and a layout's text form.
#include "formats/layout.h"

#include <algorithm>

#include "error.h"
#include "formats/layout_text.h"

namespace openspyre {

std::string list_text(std::span<const int64_t> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

namespace {

const char* name(ElementArrangement arrangement) {
  constexpr const char* kNames[] = {"STANDARD", "DL16_TO_FP32", "QFP8CH", "EXX2"};
  return kNames[static_cast<size_t>(arrangement)];
}

bool names_each_dim_once(std::span<const int64_t> dim_order, size_t rank) {
  const bool sparse = dim_order.size() == rank + 1 && dim_order.back() == -1;
  if (!sparse && dim_order.size() != rank) return false;
  std::vector<int64_t> sorted(dim_order.begin(), dim_order.end() - (sparse ? 1 : 0));
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < rank; ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

void check_host(std::span<const int64_t> size, std::span<const int64_t> stride) {
  const auto negative = [](int64_t value) { return value < 0; };
  if (size.size() != stride.size() || std::any_of(size.begin(), size.end(), negative) ||
      std::any_of(stride.begin(), stride.end(), negative)) {
    fail(Fault::InvalidLayout, "host_size " + list_text(size) + " and host_strides " + list_text(stride) +
                                   " must both have one non-negative entry per dimension");
  }
}

void check_order(std::span<const int64_t> host_size, std::span<const int64_t> dim_order) {
  if (dim_order.size() > static_cast<size_t>(kMaxRank)) {
    fail(Fault::InvalidLayout, "Unsupported tensor rank: " + std::to_string(dim_order.size()) +
                                   " (a layout tiles at most " + std::to_string(kMaxRank) +
                                   " dimensions; merge some with reshape)");
  }
  if (!names_each_dim_once(dim_order, host_size.size())) {
    fail(Fault::InvalidLayout, "Incompatible host_size and dim_order: dim_order " + list_text(dim_order) +
                                   " must name each dim of host_size " + list_text(host_size) +
                                   " once, optionally followed by -1 (one value per stick)");
  }
}

}  // namespace

int64_t Layout::device_bytes() const {
  int64_t sticks = 1;
  for (size_t i = 0; i + 1 < device_size.size(); ++i) sticks *= device_size[i];
  return sticks * kStickBytes;
}

std::string Layout::str() const {
  std::string text = "SpyreTensorLayout(device_size=" + list_text(device_size) +
                     ", stride_map =" + list_text(stride_map) + ", device_dtype=DataFormats." + openspyre::name(format);
  if (arrangement != ElementArrangement::STANDARD) {
    text += std::string(", element_arrangement=ElementArrangement.") + name(arrangement);
  }
  return text + ")";
}

Layout tiled_layout(std::span<const int64_t> host_size, std::span<const int64_t> host_stride, DataFormat format,
                    std::span<const int64_t> dim_order, ElementArrangement arrangement) {
  check_host(host_size, host_stride);
  check_order(host_size, dim_order);
  const int64_t stick_elements = elems_per_stick(format);
  if (stick_elements == 0) fail(Fault::UnsupportedFormat, std::string("no stick can hold elements of ") + name(format));
  Layout layout{{}, {}, format, arrangement};
  const auto add = [&](int64_t size, int64_t stride) {
    layout.device_size.push_back(size);
    layout.stride_map.push_back(stride);
  };
  const auto add_host_dim = [&](int64_t dim) { add(host_size[dim], host_size[dim] == 1 ? -1 : host_stride[dim]); };

  // All dims but the first, the stick dim as its tile index; then the first; then the stick itself.
  const int64_t stick = dim_order.empty() ? -1 : dim_order.back();
  const bool spread = stick >= 0 && host_size[stick] != 1;
  for (size_t i = 1; i + 1 < dim_order.size(); ++i) add_host_dim(dim_order[i]);
  add(stick < 0 ? 1 : (host_size[stick] + stick_elements - 1) / stick_elements,
      spread ? host_stride[stick] * stick_elements : -1);
  if (dim_order.size() > 1) add_host_dim(dim_order.front());
  add(stick_elements, spread ? host_stride[stick] : -1);
  return layout;
}

}  // namespace openspyre
