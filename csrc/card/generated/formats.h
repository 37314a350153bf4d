// Generated from openspyre/spec/formats.py by csrc/generate.py (`make generate`): do not edit.
// clang-format off
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/names.h"

namespace openspyre {

// Values are part of the public artifact format: never renumber.
enum class DataFormat : uint8_t {
  SEN169_FP16,
  IEEE_FP32,
  INVALID,
  SEN143_FP8,
  SEN152_FP8,
  SEN153_FP9,
  SENINT2,
  SENINT4,
  SENINT8,
  SENINT16,
  SENINT24,
  IEEE_INT64,
  IEEE_INT32,
  SENUINT32,
  SENUINT2,
  IEEE_FP16,
  BOOL,
  BFLOAT16,
  SEN18F_FP24,
};
constexpr int kDataFormatCount = 19;
template <>
struct Names<DataFormat> {
  static constexpr const char* of[] = {
      "SEN169_FP16", "IEEE_FP32", "INVALID", "SEN143_FP8", "SEN152_FP8", "SEN153_FP9", "SENINT2", "SENINT4",
      "SENINT8", "SENINT16", "SENINT24", "IEEE_INT64", "IEEE_INT32", "SENUINT32", "SENUINT2", "IEEE_FP16", "BOOL",
      "BFLOAT16", "SEN18F_FP24"};
};

constexpr int kFormatBits[] = {16, 32, 0, 8, 8, 9, 2, 4, 8, 16, 24, 64, 32, 32, 2, 16, 8, 16, 24};

enum class ElementArrangement : uint8_t {
  STANDARD,
  DL16_TO_FP32,
  QFP8CH,
  EXX2,
};
constexpr int kElementArrangementCount = 4;
template <>
struct Names<ElementArrangement> {
  static constexpr const char* of[] = {
      "STANDARD", "DL16_TO_FP32", "QFP8CH", "EXX2"};
};

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
template <>
struct Names<DType> {
  static constexpr const char* of[] = {
      "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float8_e4m3fn",
      "float8_e5m2fnuz"};
};

struct TypeFormats {
  int host_itemsize;
  DataFormat host, device;
};
constexpr TypeFormats kTypeFormats[] = {
    {1, DataFormat::BOOL, DataFormat::SEN169_FP16},
    {1, DataFormat::SENUINT32, DataFormat::SENUINT32},
    {1, DataFormat::SENINT8, DataFormat::SENINT8},
    {2, DataFormat::SENINT16, DataFormat::SENINT16},
    {4, DataFormat::IEEE_INT32, DataFormat::IEEE_INT32},
    {8, DataFormat::IEEE_INT64, DataFormat::IEEE_INT32},
    {2, DataFormat::IEEE_FP16, DataFormat::SEN169_FP16},
    {2, DataFormat::BFLOAT16, DataFormat::SEN169_FP16},
    {4, DataFormat::IEEE_FP32, DataFormat::IEEE_FP32},
    {1, DataFormat::SEN143_FP8, DataFormat::SEN143_FP8},
    {1, DataFormat::SEN152_FP8, DataFormat::SEN152_FP8},
};

}  // namespace openspyre
