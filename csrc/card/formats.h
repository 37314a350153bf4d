// Element formats of host and card, and bit-exact conversion between them (contract N1, N8).
// Twin of openspyre/spec/formats.py; tests hold the two equal.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace openspyre {

// Values are part of the public artifact format: never renumber.
enum class DataFormat : uint8_t {
  SEN169_FP16 = 0,
  IEEE_FP32 = 1,
  INVALID = 2,
  SEN143_FP8 = 3,
  SEN152_FP8 = 4,
  SEN153_FP9 = 5,
  SENINT2 = 6,
  SENINT4 = 7,
  SENINT8 = 8,
  SENINT16 = 9,
  SENINT24 = 10,
  IEEE_INT64 = 11,
  IEEE_INT32 = 12,
  SENUINT32 = 13,
  SENUINT2 = 14,
  IEEE_FP16 = 15,
  BOOL = 16,
  BFLOAT16 = 17,
  SEN18F_FP24 = 18,
};
constexpr int kDataFormatCount = 19;

enum class ElementArrangement : uint8_t { STANDARD = 0, DL16_TO_FP32 = 1, QFP8CH = 2, EXX2 = 3 };

// What a tensor's elements are to its user. The host stores them in its own encoding of the type, the card in a
// DataFormat.
enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float8E4M3FN,
  Float8E5M2FNUZ,
};
constexpr int kDTypeCount = 11;

constexpr int kStickBytes = 128;

const char* name(DataFormat format);
const char* name(DType dtype);           // "float16", "int64", ...: torch's spelling without "torch."
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

inline float sen169_to_float(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000u) << 16;
  const uint32_t magnitude = code & 0x7FFFu;
  if (magnitude == 0) return std::bit_cast<float>(sign);
  if (magnitude == kSen169Infinity) return std::bit_cast<float>(sign | 0x7F800000u);
  if (magnitude == kSen169NaN) return std::bit_cast<float>(sign | 0x7FC00000u);
  return std::bit_cast<float>(sign | ((magnitude << 14) + (96u << 23)));
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
