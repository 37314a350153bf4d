// Element formats of host and card, and bit-exact conversion between them (contract N1, N8).
// Twin of openspyre/spec/formats.py, from which the tables are generated; tests hold the conversions equal.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "generated/formats.h"
#include "generated/machine.h"

namespace openspyre {

// A DType is what a tensor's elements are to its user: the host stores them in its own encoding of the type, the card
// in a DataFormat. name(dtype) is torch's spelling without "torch.".
int bits(DataFormat format);             // 0 for INVALID
int elems_per_stick(DataFormat format);  // 128 * 8 / bits; 0 for INVALID
int device_itemsize(
    DataFormat format);  // bytes; 0 where an element is not a whole number of bytes (no tensor can have such a format)
int host_itemsize(DType dtype);
DataFormat device_format(DType dtype);  // the default format on the card
DataFormat host_format(DType dtype);

// --- single elements -------------------------------------------------------------------------------------------------
// SEN169: 1 sign, 6 exponent (bias 31), 9 fraction bits; no subnormals. The code with all bits set is infinity, the one
// below it, which would be the largest number, is NaN: our choice (N2), the documents merge the two.
constexpr uint16_t kSen169Infinity = 0x7FFF, kSen169NaN = 0x7FFE;

inline uint16_t sen169_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | kSen169NaN);
  // Largest magnitude that still rounds to 0x7FFD: exponent 159, fraction 509.0111...b.
  if (magnitude > ((159u << 23) | (509u << 14) | 0x1FFFu)) return static_cast<uint16_t>(sign | kSen169Infinity);
  const uint32_t rounded = (magnitude + 0x2000u) >> 14;  // ties away from zero
  const uint32_t bias = 96u << 9;                        // 127 - 31
  return static_cast<uint16_t>(rounded < bias ? sign : sign | (rounded - bias));
}

// Selections, not branches: which way an element goes cannot be guessed.
inline float sen169_to_float(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000u) << 16;
  const uint32_t magnitude = code & 0x7FFFu;
  uint32_t bits = (magnitude << 14) + (96u << 23);
  bits = magnitude == 0 ? 0 : bits;
  bits = magnitude == kSen169Infinity ? 0x7F800000u : bits;
  bits = magnitude == kSen169NaN ? 0x7FC00000u : bits;
  return std::bit_cast<float>(sign | bits);
}

// What a step stores: rounded once, ties away from zero; infinity beyond the range; a NaN has no sign (N1, N2).
inline uint16_t float_to_sen169(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFu, sign = (bits >> 16) & 0x8000u;
  const uint32_t rounded = magnitude + 0x2000u;
  uint32_t code = (rounded >> 14) - (96u << 9);
  code = rounded < (96u << 23) ? 0 : code;
  code = rounded >= ((159u << 23) | (510u << 14)) ? kSen169Infinity : code;
  code |= sign;
  code = magnitude > 0x7F800000u ? kSen169NaN : code;
  return static_cast<uint16_t>(code);
}

// --- runs of elements ------------------------------------------------------------------------------------------------
// How a device buffer's elements are to be read: the user's type and the format its bits are in.
struct DeviceElement {
  DType dtype;
  DataFormat format;
  bool operator==(const DeviceElement&) const = default;
};

// Converts n contiguous elements. Returns n, or the index of the first element the target cannot hold
// (an int64 beyond int32); nothing at or after that index has been written then.
using Convert = size_t (*)(const void* source, void* target, size_t n);

// nullptr where there is no such conversion.
Convert to_device(DType host, DeviceElement device);
Convert to_host(DeviceElement device, DType host);
Convert between(DeviceElement source, DeviceElement target);

}  // namespace openspyre
