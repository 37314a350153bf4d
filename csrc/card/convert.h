// The catalogue of element encodings (codecs) and the conversions between each two of them.
#pragma once

#include "formats.h"

namespace openspyre::convert {

// How an element's bits are read: a floating format by itself, an integer or bool type together with the format that
// holds it.
enum class Codec : uint8_t {
  Sen169,      // as the card computes with it: NINF is an infinity
  Sen169Seen,  // as the host sees it: NINF is a NaN; only ever a source
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

Convert exact_conversion(Codec source, Codec target);  // every pair, through double or int64

enum class Vectors : uint8_t { Baseline, Wide };  // what every host of this architecture has; x86-64-v3
Vectors best_vectors();                           // the widest this host has

// The hot pairs, with the same bits; nullptr for the others.
Convert vector_conversion(Codec source, Codec target, Vectors vectors);
Convert conversion(Codec source, Codec target);  // the best there is for this host

}  // namespace openspyre::convert
