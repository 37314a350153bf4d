// The tiled layout of a device buffer, and the algebra that leads from a host offset to a device element (D2).
// Twin of openspyre/spec/layout.py; tests hold the two equal.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/formats.h"

namespace openspyre {

struct Layout {
  std::vector<int64_t> device_size;
  std::vector<int64_t> stride_map;  // host stride of each device dim; -1: no host dim, 0: replicated
  DataFormat format = DataFormat::INVALID;
  ElementArrangement arrangement = ElementArrangement::STANDARD;

  bool operator==(const Layout&) const = default;
  int64_t device_bytes() const;  // kStickBytes * product(device_size[:-1])
  std::string str() const;       // as Python prints it
};

// The rule of the public documents. dim_order has one entry per host dim, or one more that is -1 (sparse: one value a
// stick).
Layout tiled_layout(std::span<const int64_t> host_size, std::span<const int64_t> host_stride, DataFormat format,
                    std::span<const int64_t> dim_order, ElementArrangement arrangement = ElementArrangement::STANDARD);

// One digit of a host coordinate: digit = (x / step) % count, found at device stride `device_stride` (elements).
struct Digit {
  int64_t step;
  int64_t count;
  int64_t device_stride;
};

// A group of host dims that one run of device dims tiles together. The group's coordinate is
// x = sum over its host dims of index * (host_stride / base_stride), 0 <= x < extent, and its device offset is
// the sum over digits of ((x / step) % count) * device_stride; digits are ordered by decreasing step.
struct Group {
  int64_t base_stride;
  int64_t extent;
  std::vector<Digit> digits;
  int64_t device_offset(int64_t x) const {
    int64_t offset = 0;
    for (const Digit& digit : digits) {
      offset += x / digit.step * digit.device_stride;
      x %= digit.step;
    }
    return offset;
  }
};

// Everything about a buffer except where it is: immutable and interned, so that equal shapes share one object and one
// id.
class BufferShape {
 public:
  uint64_t id() const { return id_; }
  const Layout& layout() const { return layout_; }
  DType dtype() const { return dtype_; }
  DeviceElement element() const { return {dtype_, layout_.format}; }
  const std::vector<int64_t>& host_size() const { return host_size_; }
  const std::vector<int64_t>& host_stride() const { return host_stride_; }
  int64_t host_elements() const { return host_elements_; }  // largest host offset + 1; 0 if empty
  int64_t device_bytes() const { return device_bytes_; }

  // Groups ordered by decreasing base_stride; they decode a host offset by division, largest first.
  const std::vector<Group>& groups() const { return groups_; }
  // Device dims with stride_map 0: each element stands `count` times, `device_stride` elements apart.
  const std::vector<Digit>& replicas() const { return replicas_; }

  // Device element index of a host offset. Throws InvalidArgument for an offset in a gap of the strides or past the
  // end.
  int64_t device_offset(int64_t host_offset) const;

 private:
  friend std::shared_ptr<const BufferShape> intern(std::span<const int64_t>, std::span<const int64_t>, DType,
                                                   const Layout&);
  friend struct ShapeTable;
  BufferShape() = default;
  uint64_t id_ = 0;
  Layout layout_;
  DType dtype_ = DType::Float16;
  std::vector<int64_t> host_size_, host_stride_;
  int64_t host_elements_ = 0;
  int64_t device_bytes_ = 0;
  std::vector<Group> groups_;
  std::vector<Digit> replicas_;
};

using ShapePtr = std::shared_ptr<const BufferShape>;

// The shape of a buffer for a host tensor of this size and stride with a given layout. Throws InvalidLayout, naming
// both, if some element of the tensor has no place in the layout.
ShapePtr intern(std::span<const int64_t> host_size, std::span<const int64_t> host_stride, DType dtype,
                const Layout& layout);

// The same with the default layout. Sizes and strides that no layout can tile as they are (overlapping strides, rank
// above 6) are folded: dense dims are merged, else the buffer is tiled as one flat run of its host elements.
ShapePtr intern_default(std::span<const int64_t> host_size, std::span<const int64_t> host_stride, DType dtype);

// The table is bounded: entries nobody uses are dropped when it grows past its limit. Ids are never used again.
size_t interned_shapes();
void clear_unused_shapes();

}  // namespace openspyre
