// Which codec an element has, and which conversion serves a pair.
#include "formats/convert.h"

namespace openspyre {
namespace convert {
namespace {

Codec float_codec(DataFormat format) {
  switch (format) {
    case DataFormat::SEN169_FP16:
      return Codec::Sen169;
    case DataFormat::IEEE_FP32:
      return Codec::Fp32;
    case DataFormat::IEEE_FP16:
      return Codec::Fp16;
    case DataFormat::BFLOAT16:
      return Codec::Bf16;
    case DataFormat::SEN143_FP8:
      return Codec::Fp8E4M3;
    case DataFormat::SEN152_FP8:
      return Codec::Fp8E5M2;
    default:
      return Codec::None;
  }
}

// Columns: 8-bit, 16-bit, 32-bit, unsigned 32-bit, 64-bit integers, SEN169, fp32.
struct IntegerRow {
  Codec as8, as16, as32, as_u32, as64, as_sen169, as_fp32;
};

constexpr Codec kNone = Codec::None;
constexpr IntegerRow kBool = {Codec::Bool8, Codec::Bool16,     Codec::Bool32,  Codec::Bool32,
                              kNone,        Codec::BoolSen169, Codec::BoolFp32};
constexpr IntegerRow kUInt8 = {Codec::UInt8As8, Codec::UInt8As16,     Codec::UInt8As32,  Codec::UInt8As32,
                               kNone,           Codec::UInt8AsSen169, Codec::UInt8AsFp32};
constexpr IntegerRow kInt8 = {Codec::Int8As8, Codec::Int8As16,     Codec::Int8As32,  kNone,
                              kNone,          Codec::Int8AsSen169, Codec::Int8AsFp32};
constexpr IntegerRow kInt16 = {kNone, Codec::Int16As16,     Codec::Int16As32,  kNone,
                               kNone, Codec::Int16AsSen169, Codec::Int16AsFp32};
constexpr IntegerRow kInt32 = {
    kNone, kNone, Codec::Int32As32, Codec::Int32AsU32, kNone, Codec::Int32AsSen169, Codec::Int32AsFp32};
constexpr IntegerRow kInt64 = {
    kNone, kNone, Codec::Int64As32, Codec::Int64AsU32, Codec::Int64As64, Codec::Int64AsSen169, Codec::Int64AsFp32};

Codec integer_codec(const IntegerRow& row, DataFormat format) {
  switch (format) {
    case DataFormat::SENINT8:
      return row.as8;
    case DataFormat::SENINT16:
      return row.as16;
    case DataFormat::IEEE_INT32:
      return row.as32;
    case DataFormat::SENUINT32:
      return row.as_u32;
    case DataFormat::IEEE_INT64:
      return row.as64;
    case DataFormat::SEN169_FP16:
      return row.as_sen169;
    case DataFormat::IEEE_FP32:
      return row.as_fp32;
    default:
      return Codec::None;
  }
}

}  // namespace

Codec codec_of(DeviceElement element) {
  switch (element.dtype) {
    case DType::Bool:
      return integer_codec(kBool, element.format);
    case DType::UInt8:
      return integer_codec(kUInt8, element.format);
    case DType::Int8:
      return integer_codec(kInt8, element.format);
    case DType::Int16:
      return integer_codec(kInt16, element.format);
    case DType::Int32:
      return integer_codec(kInt32, element.format);
    case DType::Int64:
      return integer_codec(kInt64, element.format);
    default:
      return float_codec(element.format);
  }
}

Codec codec_of(DType host) {
  switch (host) {
    case DType::Bool:
      return Codec::Bool8;
    case DType::UInt8:
      return Codec::UInt8As8;
    case DType::Int64:
      return Codec::Int64As64;
    default:
      return codec_of(DeviceElement{host, host_format(host)});
  }
}

Conversion conversion(Codec source, Codec target) {
  if (source == Codec::None || target == Codec::None) return {};
  const Isa isa = active_isa();
  const Conversion fast = vector_conversion(source, target, isa);
  if (fast.run != nullptr) return fast;
  const int copied = copied_bytes(source, target);
  return {exact_conversion(source, target), copied != 0 ? grid_copy(copied, isa) : nullptr, copied};
}

Conversion to_device(DType host, DeviceElement device) { return conversion(codec_of(host), codec_of(device)); }

Conversion to_host(DeviceElement device, DType host) {
  const Codec codec = codec_of(device);
  return conversion(codec, codec_of(host));
}

Conversion between(DeviceElement source, DeviceElement target) {
  return conversion(codec_of(source), codec_of(target));
}

}  // namespace convert

Convert to_device(DType host, DeviceElement device) { return convert::to_device(host, device).run; }
Convert to_host(DeviceElement device, DType host) { return convert::to_host(device, host).run; }
Convert between(DeviceElement source, DeviceElement target) { return convert::between(source, target).run; }

}  // namespace openspyre
