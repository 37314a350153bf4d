// DMA: moves elements between host tensors and tiled device buffers, converting on the way.
// Runs in the calling thread (plus the worker pool for large copies); ordering is the caller's (streams).
// Padding lanes of the device are never written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/layout.h"

namespace openspyre {

// A strided tensor in host memory; strides in elements, `data` at the first element.
struct HostView {
  void* data;
  DType dtype;
  std::vector<int64_t> size;
  std::vector<int64_t> stride;
};

// A strided view, in host coordinates, of a tiled device buffer; `memory` is where the buffer's backing begins.
struct DeviceView {
  ShapePtr shape;
  std::byte* memory;
  DType dtype;     // may differ from shape->dtype() where the bits agree (D5: fp32 <-> int32)
  int64_t offset;  // host elements
  std::vector<int64_t> size;
  std::vector<int64_t> stride;
};

// How the elements of a buffer are read as `dtype`: one that is not the buffer's own reads its bits in its own format.
// Both formats must have the same width.
DeviceElement element_of(const ShapePtr& shape, DType dtype);

// Sizes must be equal; throws InvalidArgument otherwise, UnsupportedFormat for a pair without a conversion,
// ValueOutOfRange naming index and value for an integer the device format cannot hold (nothing is promised of the
// target then).
void copy_in(const HostView& source, const DeviceView& target);
void copy_out(const DeviceView& source, const HostView& target);
void copy_across(const DeviceView& source, const DeviceView& target);  // may overlap only if identical

constexpr size_t kLengthyCopyBytes = 16 << 20;  // a copy of more is lengthy, as Stream::submit asks

// Elements as they lie on the card, bit by bit, between a view and dense memory in the view's order.
void read_codes(const DeviceView& source, std::byte* dense);
void write_codes(const std::byte* dense, const DeviceView& target);

// The buffer as the host would store it: host_elements * host_itemsize bytes, gaps left alone.
void read_image(const BufferShape& shape, const std::byte* memory, void* image);
void write_image(const BufferShape& shape, std::byte* memory, const void* image);

}  // namespace openspyre
