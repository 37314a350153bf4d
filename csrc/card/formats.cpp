// Tables of the element formats: names, widths, and which format a type has on host and card.
#include "formats.h"

#include <array>

namespace openspyre {
namespace {

struct FormatRow {
  const char* name;
  int bits;
};

constexpr std::array<FormatRow, kDataFormatCount> kFormats = {{
    {"SEN169_FP16", 16}, {"IEEE_FP32", 32},  {"INVALID", 0},     {"SEN143_FP8", 8},   {"SEN152_FP8", 8},
    {"SEN153_FP9", 9},   {"SENINT2", 2},     {"SENINT4", 4},     {"SENINT8", 8},      {"SENINT16", 16},
    {"SENINT24", 24},    {"IEEE_INT64", 64}, {"IEEE_INT32", 32}, {"SENUINT32", 32},   {"SENUINT2", 2},
    {"IEEE_FP16", 16},   {"BOOL", 8},        {"BFLOAT16", 16},   {"SEN18F_FP24", 24},
}};

struct TypeRow {
  const char* name;
  int host_itemsize;
  DataFormat host;
  DataFormat device;
};

// uint8 is SENUINT32 on both sides by name, one byte on the host by size; int64 lives as int32 on the card.
constexpr std::array<TypeRow, kDTypeCount> kTypes = {{
    {"bool", 1, DataFormat::BOOL, DataFormat::SEN169_FP16},
    {"uint8", 1, DataFormat::SENUINT32, DataFormat::SENUINT32},
    {"int8", 1, DataFormat::SENINT8, DataFormat::SENINT8},
    {"int16", 2, DataFormat::SENINT16, DataFormat::SENINT16},
    {"int32", 4, DataFormat::IEEE_INT32, DataFormat::IEEE_INT32},
    {"int64", 8, DataFormat::IEEE_INT64, DataFormat::IEEE_INT32},
    {"float16", 2, DataFormat::IEEE_FP16, DataFormat::SEN169_FP16},
    {"bfloat16", 2, DataFormat::BFLOAT16, DataFormat::SEN169_FP16},
    {"float32", 4, DataFormat::IEEE_FP32, DataFormat::IEEE_FP32},
    {"float8_e4m3fn", 1, DataFormat::SEN143_FP8, DataFormat::SEN143_FP8},
    {"float8_e5m2fnuz", 1, DataFormat::SEN152_FP8, DataFormat::SEN152_FP8},
}};

constexpr const FormatRow& row(DataFormat format) { return kFormats[static_cast<size_t>(format)]; }
constexpr const TypeRow& row(DType dtype) { return kTypes[static_cast<size_t>(dtype)]; }

}  // namespace

const char* name(DataFormat format) { return row(format).name; }
const char* name(DType dtype) { return row(dtype).name; }
int bits(DataFormat format) { return row(format).bits; }

int elems_per_stick(DataFormat format) {
  const int width = bits(format);
  return width == 0 ? 0 : kStickBytes * 8 / width;
}

int device_itemsize(DataFormat format) {
  const int width = bits(format);
  const bool fills_a_stick = width >= 8 && (width & (width - 1)) == 0;  // 9 and 24 bits leave a stick's end unused
  return fills_a_stick ? width / 8 : 0;
}

int host_itemsize(DType dtype) { return row(dtype).host_itemsize; }
DataFormat device_format(DType dtype) { return row(dtype).device; }
DataFormat host_format(DType dtype) { return row(dtype).host; }

}  // namespace openspyre
