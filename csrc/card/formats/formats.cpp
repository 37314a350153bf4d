// Widths of elements, and which format a type has on host and card.
#include "formats/formats.h"

namespace openspyre {
int bits(DataFormat format) { return kFormatBits[static_cast<size_t>(format)]; }

int elems_per_stick(DataFormat format) {
  const int width = bits(format);
  return width == 0 ? 0 : kStickBytes * 8 / width;
}

int device_itemsize(DataFormat format) {
  const int width = bits(format);
  const bool fills_a_stick = width >= 8 && (width & (width - 1)) == 0;  // 9 and 24 bits leave a stick's end unused
  return fills_a_stick ? width / 8 : 0;
}

int host_itemsize(DType dtype) { return kTypeFormats[static_cast<size_t>(dtype)].host_itemsize; }
DataFormat device_format(DType dtype) { return kTypeFormats[static_cast<size_t>(dtype)].device; }
DataFormat host_format(DType dtype) { return kTypeFormats[static_cast<size_t>(dtype)].host; }

}  // namespace openspyre
