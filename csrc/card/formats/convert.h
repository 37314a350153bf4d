// The catalogue of element encodings (codecs) and the conversions between each two of them.
#pragma once

#include "formats/formats.h"
#include "kernels/isa.h"

namespace openspyre::convert {

// How an element's bits are read: a floating format by itself, an integer or bool type together with the format that
// holds it.
enum class Codec : uint8_t {
  Sen169,
  Fp32,
  Fp16,
  Bf16,
  Fp8E4M3,
  Fp8E5M2,
  Bool8,
  BoolSen169,
  BoolFp32,
  Bool16,
  Bool32,
  UInt8As8,
  UInt8As16,
  UInt8As32,
  UInt8AsSen169,
  UInt8AsFp32,
  Int8As8,
  Int8As16,
  Int8As32,
  Int8AsSen169,
  Int8AsFp32,
  Int16As16,
  Int16As32,
  Int16AsSen169,
  Int16AsFp32,
  Int32As32,
  Int32AsU32,
  Int32AsSen169,
  Int32AsFp32,
  Int64As64,
  Int64As32,
  Int64AsU32,
  Int64AsSen169,
  Int64AsFp32,
  None,
};
constexpr int kCodecCount = static_cast<int>(Codec::None);

Codec codec_of(DType host);
Codec codec_of(DeviceElement element);  // None where the format cannot hold the type

// Runs of `lanes` elements at constant distances (in bytes) on both sides: the sticks of a copy.
struct Grid {
  struct Loop {
    int64_t count, source, target;
  };
  const std::byte* source;
  std::byte* target;
  size_t lanes;
  Loop outer, inner;
};

// Converts all runs of a grid in one pass; there is none for conversions that can fail. Streaming writes whole lines
// around the cache where the target is aligned to them: make them visible with dma::finish_streaming.
using ConvertGrid = void (*)(const Grid& grid, bool streaming);

struct Conversion {
  Convert run = nullptr;
  ConvertGrid grid = nullptr;  // of the hot pairs and of plain copies only
  int copied_bytes = 0;        // of an element whose bits stay as they are, else 0
};

Convert exact_conversion(Codec source, Codec target);  // every pair, through double or int64
int copied_bytes(Codec source, Codec target);          // the element's size where the bits stay as they are, else 0

// The hot pairs, with the same bits; empty for the others.
Conversion vector_conversion(Codec source, Codec target, Isa isa);
ConvertGrid grid_copy(int itemsize, Isa isa);

Conversion conversion(Codec source, Codec target);  // the best there is for host and configuration

// As those of formats.h, which give the run alone.
Conversion to_device(DType host, DeviceElement device);
Conversion to_host(DeviceElement device, DType host);
Conversion between(DeviceElement source, DeviceElement target);

}  // namespace openspyre::convert
