// Formats against arithmetic on doubles written here from the formats' definitions, over every pattern where that is
// possible.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "formats/convert.h"
#include "formats/formats.h"
#include "streams/card.h"

using namespace openspyre;

namespace {

constexpr DeviceElement kFp16{DType::Float16, DataFormat::SEN169_FP16};
constexpr DeviceElement kBf16{DType::BFloat16, DataFormat::SEN169_FP16};
constexpr DeviceElement kFp32{DType::Float32, DataFormat::IEEE_FP32};
constexpr DeviceElement kInt64{DType::Int64, DataFormat::IEEE_INT32};
constexpr DeviceElement kBool{DType::Bool, DataFormat::SEN169_FP16};
const double kInf = INFINITY;

template <typename Target, typename Source>
Target one(Convert convert, Source source) {
  Target target{};
  CHECK(convert != nullptr);
  if (convert != nullptr) CHECK_EQ(convert(&source, &target, 1), 1u);
  return target;
}

// value = (-1)^s 2^(E-31) (1+F/512), except the zeros, the infinities and the NaNs below them.
double sen169_value(uint16_t code) {
  const int exponent = (code >> 9) & 63, fraction = code & 511;
  const double sign = code & 0x8000 ? -1 : 1;
  if (exponent == 0 && fraction == 0) return sign * 0.0;
  if (exponent == 63 && fraction == 511) return sign * kInf;
  if (exponent == 63 && fraction == 510) return std::copysign(NAN, sign);
  return sign * std::ldexp(1 + fraction / 512.0, exponent - 31);
}

double ieee_value(uint32_t code, int exponent_bits, int fraction_bits) {
  const int exponent = static_cast<int>(code >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double fraction = std::ldexp(static_cast<double>(code & ((1u << fraction_bits) - 1)), -fraction_bits);
  const double sign = (code >> (exponent_bits + fraction_bits)) & 1 ? -1 : 1;
  if (exponent == 2 * bias + 1) return std::copysign(fraction == 0 ? kInf : NAN, sign);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

// Nearest SEN169 code, ties away from zero: half a unit of the value's binade is added, the rest dropped.
uint16_t sen169_nearest(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7FFE;
  if (std::isinf(value)) return sign | 0x7FFF;
  if (magnitude == 0) return sign;
  int exponent = std::ilogb(magnitude);
  double units = std::floor(std::ldexp(magnitude, 9 - exponent) + 0.5);  // in [512, 1024]
  if (units == 1024) units = 512, ++exponent;
  if (exponent < -31) return sign;
  if (exponent > 32 || (exponent == 32 && units >= 1022)) return sign | 0x7FFF;
  return static_cast<uint16_t>(sign | ((exponent + 31) << 9 | (static_cast<int>(units) - 512)));
}

// Nearest even of an IEEE-like format as a value; infinity beyond the largest.
double ieee_nearest(double value, int bias, int fraction_bits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int unit = std::max(std::ilogb(value), 1 - bias) - fraction_bits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) >= std::ldexp(1.0, bias + 1) ? std::copysign(kInf, value) : rounded;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

std::vector<float> interesting_floats() {
  std::vector<float> floats;
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (uint32_t code = 0; code < 0x8000; ++code) {  // each code, its ties, and their neighbours
    const auto bits = static_cast<uint32_t>((code << 14) + (96u << 23));
    for (uint32_t delta : {0u, 1u, 0x1FFFu, 0x2000u, 0x2001u, 0x3FFFu}) {
      floats.push_back(std::bit_cast<float>(bits + delta));
      floats.push_back(-floats.back());
    }
  }
  return floats;
}

}  // namespace

TEST(golden_vectors_of_the_reference) {
  const Convert encode = to_device(DType::Float32, kFp16);
  const std::pair<float, uint16_t> golden[] = {{0.f, 0x0000},
                                               {1.f, 0x3E00},
                                               {-1.f, 0xBE00},
                                               {0.5f, 0x3C00},
                                               {2.f, 0x4000},
                                               {1 / 3.f, 0x3AAB},
                                               {0.1f, 0x3733},
                                               {448.f, 0x4F80},
                                               {65504.f, 0x5E00},
                                               {0x1p-31f, 0x0000},
                                               {1.001f * 0x1p-31f, 0x0001},
                                               {INFINITY, 0x7FFF},
                                               {1e-30f, 0x0000},
                                               {-INFINITY, 0xFFFF},
                                               {8564768768.f, 0x7FFD},
                                               {8568962560.f, 0x7FFD},  // the last that is nearer to it
                                               {8568963072.f, 0x7FFF},
                                               {-8573157376.f, 0xFFFF}};
  for (const auto& [value, code] : golden) CHECK_EQ(one<uint16_t>(encode, value), code);
  CHECK_EQ(one<uint16_t>(encode, NAN), 0x7FFE);
  CHECK_EQ(one<uint16_t>(encode, -NAN), 0xFFFE);
}

TEST(every_sen169_code_decodes_to_its_value_and_back) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto code = static_cast<uint16_t>(i);
    const auto value = one<float>(to_host(kFp16, DType::Float32), code);
    CHECK(same(value, sen169_value(code)));
    CHECK_EQ(one<uint16_t>(to_device(DType::Float32, kFp16), value), code);
  }
}

TEST(every_fp16_and_bf16_pattern_becomes_the_nearest_sen169) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    CHECK_EQ(one<uint16_t>(to_device(DType::Float16, kFp16), bits), sen169_nearest(ieee_value(bits, 5, 10)));
    CHECK_EQ(one<uint16_t>(to_device(DType::BFloat16, kBf16), bits), sen169_nearest(ieee_value(bits, 8, 7)));
  }
}

TEST(floats_around_every_tie_become_the_nearest_sen169) {
  for (float value : interesting_floats())
    CHECK_EQ(one<uint16_t>(to_device(DType::Float32, kFp16), value), sen169_nearest(value));
}

TEST(every_sen169_code_reads_back_as_the_nearest_even_fp16_and_bf16) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto code = static_cast<uint16_t>(i);
    const double value = sen169_value(code);
    const auto fp16 = one<uint16_t>(to_host(kFp16, DType::Float16), code);
    const auto bf16 = one<uint16_t>(to_host(kBf16, DType::BFloat16), code);
    CHECK(same(ieee_value(fp16, 5, 10), ieee_nearest(value, 15, 10)));
    CHECK(same(ieee_value(bf16, 8, 7), ieee_nearest(value, 127, 7)));
  }
}

TEST(ieee_formats_round_to_nearest_even) {
  const DeviceElement fp16{DType::Float32, DataFormat::IEEE_FP16}, bf16{DType::Float32, DataFormat::BFLOAT16};
  for (float value : interesting_floats()) {
    CHECK(same(ieee_value(one<uint16_t>(to_device(DType::Float32, fp16), value), 5, 10), ieee_nearest(value, 15, 10)));
    CHECK(same(ieee_value(one<uint16_t>(to_device(DType::Float32, bf16), value), 8, 7), ieee_nearest(value, 127, 7)));
  }
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    CHECK(same(one<float>(to_device(DType::Float16, kFp32), bits), ieee_value(bits, 5, 10)));
    CHECK(same(one<float>(to_device(DType::BFloat16, kFp32), bits), ieee_value(bits, 8, 7)));
  }
}

TEST(fp8_casts_as_torch_does) {
  const DeviceElement e4m3{DType::Float8E4M3FN, DataFormat::SEN143_FP8},
      e5m2{DType::Float8E5M2FNUZ, DataFormat::SEN152_FP8};
  const std::pair<double, uint8_t> e4m3_torch[] = {{448, 0x7E},  {464, 0x7E},   {480, 0x7E},         {1e9, 0x7E},
                                                   {kInf, 0x7E}, {-kInf, 0xFE}, {NAN, 0x7F},         {-0.0, 0x80},
                                                   {0x1p-9, 1},  {0x1p-10, 0},  {1.01 * 0x1p-10, 1}, {1, 0x38}};
  const std::pair<double, uint8_t> e5m2_torch[] = {
      {57344, 0x7F}, {61439, 0x7F}, {61440, 0x80}, {1e9, 0x80},         {kInf, 0x80},  {-kInf, 0x80}, {NAN, 0x80},
      {-0.0, 0},     {0x1p-17, 1},  {0x1p-18, 0},  {1.01 * 0x1p-18, 1}, {-0x1p-30, 0}, {1, 0x40}};
  for (const auto& [value, code] : e4m3_torch)
    CHECK_EQ(one<uint8_t>(to_device(DType::Float32, e4m3), static_cast<float>(value)), code);
  for (const auto& [value, code] : e5m2_torch)
    CHECK_EQ(one<uint8_t>(to_device(DType::Float32, e5m2), static_cast<float>(value)), code);
  for (uint32_t code = 0; code < 256; ++code) {
    const auto bits = static_cast<uint8_t>(code);
    const int exponent = (bits >> 2) & 31;
    const double fraction = (bits & 3) / 4.0, sign = bits & 0x80 ? -1 : 1;
    const double value = sign * (exponent ? std::ldexp(1 + fraction, exponent - 16) : std::ldexp(fraction, -15));
    CHECK(same(one<float>(to_host(e5m2, DType::Float32), bits), bits == 0x80 ? NAN : value));
    const bool nan = (bits & 0x7F) == 0x7F;
    const double top = (bits & 0x78) == 0x78 ? std::ldexp(1 + (bits & 7) / 8.0, 8) * sign : ieee_value(bits, 4, 3);
    CHECK(same(one<float>(to_host(e4m3, DType::Float32), bits), nan ? NAN : top));
    CHECK_EQ(one<uint8_t>(to_device(DType::Float32, e4m3), one<float>(to_host(e4m3, DType::Float32), bits)) &
                 (nan ? 0x7F : 0xFF),
             bits & (nan ? 0x7F : 0xFF));
    CHECK_EQ(one<uint8_t>(to_device(DType::Float32, e5m2), one<float>(to_host(e5m2, DType::Float32), bits)), bits);
  }
}

// The nearest of a format's positive finite values, ties to the even code; `values` ascend with the code.
int nearest_code(double magnitude, const std::vector<double>& values) {
  int best = 0;
  for (int code = 1; code < static_cast<int>(values.size()); ++code) {
    const double better = std::fabs(values[best] - magnitude) - std::fabs(values[code] - magnitude);
    if (better > 0 || (better == 0 && code % 2 == 0)) best = code;
  }
  return best;
}

TEST(every_fp16_pattern_becomes_the_nearest_fp8) {
  const Convert to_e4m3 = to_device(DType::Float16, {DType::Float8E4M3FN, DataFormat::SEN143_FP8});
  const Convert to_e5m2 = to_device(DType::Float16, {DType::Float8E5M2FNUZ, DataFormat::SEN152_FP8});
  std::vector<double> e4m3, e5m2;
  for (int code = 0; code < 0x7F; ++code)  // 0x7F is a NaN
    e4m3.push_back(code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 10));
  for (int code = 0; code < 0x80; ++code)
    e5m2.push_back(code < 4 ? std::ldexp(code, -17) : std::ldexp(4 + code % 4, code / 4 - 18));
  CHECK_EQ(e4m3.back(), 448);
  CHECK_EQ(e5m2.back(), 57344);
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double magnitude = std::fabs(ieee_value(bits, 5, 10));
    const uint8_t sign = bits & 0x8000 ? 0x80 : 0;
    const uint8_t first =
        std::isnan(magnitude) ? 0x7F : static_cast<uint8_t>(nearest_code(std::min(magnitude, 448.0), e4m3));
    CHECK_EQ(one<uint8_t>(to_e4m3, bits), static_cast<uint8_t>(sign | first));
    const bool beyond = !(magnitude < 61440);  // half a step above the largest, infinities and NaNs
    const auto second = static_cast<uint8_t>(nearest_code(beyond ? 0 : magnitude, e5m2));
    CHECK_EQ(one<uint8_t>(to_e5m2, bits), beyond ? 0x80 : static_cast<uint8_t>(second ? sign | second : 0));
  }
}

// Every pair with a vector loop, on every instruction set this host has.
template <typename Body>
void each_vector_conversion(Body&& body) {
  using convert::Codec;
  for (Isa isa : {Isa::Baseline, Isa::Avx2, Isa::Avx512}) {
    for (int s = 0; s < convert::kCodecCount && available(isa); ++s) {
      for (int t = 0; t < convert::kCodecCount; ++t) {
        const auto source = static_cast<Codec>(s), target = static_cast<Codec>(t);
        const convert::Conversion fast = convert::vector_conversion(source, target, isa);
        if (fast.run != nullptr) body(fast, convert::exact_conversion(source, target));
        const int itemsize = convert::copied_bytes(source, target);
        if (itemsize != 0)
          body(convert::Conversion{nullptr, convert::grid_copy(itemsize, isa)},
               convert::exact_conversion(source, target));
      }
    }
  }
}

// All 16-bit patterns, then floats.
std::vector<std::byte> interesting_bytes() {
  const std::vector<float> floats = interesting_floats();
  std::vector<std::byte> bytes(0x20000 + floats.size() * sizeof(float));
  for (size_t i = 0; i < 0x10000; ++i) {
    const auto pattern = static_cast<uint16_t>(i * 40503u);
    std::memcpy(&bytes[2 * i], &pattern, 2);
  }
  std::memcpy(&bytes[0x20000], floats.data(), floats.size() * sizeof(float));
  return bytes;
}

TEST(vector_loops_give_the_exact_bits_at_every_length) {
  const std::vector<std::byte> bytes = interesting_bytes();
  each_vector_conversion([&](const convert::Conversion& fast, Convert exact) {
    if (fast.run == nullptr) return;
    for (size_t n = 0; n < bytes.size() / 8; n = n < 300 ? n + 1 : n * 7 + 5) {
      std::vector<std::byte> got(n * 8 + 8), expected(n * 8 + 8);
      const std::byte* from = bytes.data() + (n % 5) * 8;
      CHECK_EQ(fast.run(from, got.data(), n), exact(from, expected.data(), n));
      CHECK(got == expected);
    }
  });
}

TEST(grids_give_the_exact_bits_and_leave_the_bytes_between_alone) {
  const std::vector<std::byte> bytes = interesting_bytes();
  constexpr int64_t kRun = 8 * 150, kTarget = 8 * (kRun + 64);
  alignas(64) static std::byte got[kTarget], expected[kTarget];
  each_vector_conversion([&](const convert::Conversion& fast, Convert exact) {
    if (fast.grid == nullptr) return;
    for (size_t lanes = 1; lanes <= 150; lanes = lanes < 70 ? lanes + 1 : lanes + 13) {
      for (int64_t skew : {0, 8}) {  // lines that are aligned, which may be streamed, and some that are not
        std::memset(got, 0xA5, sizeof got);
        std::memset(expected, 0xA5, sizeof expected);
        const int64_t outer = 4 * (kRun + 16) / 64 * 64 + skew, inner = (kRun + 16) / 64 * 64 + skew;
        const convert::Grid grid{bytes.data() + 8 * lanes, got + skew, lanes, {2, 20000, outer}, {3, 3000, inner}};
        fast.grid(grid, true);
        for (int64_t i = 0; i < 2; ++i) {
          for (int64_t j = 0; j < 3; ++j)
            exact(grid.source + i * 20000 + j * 3000, expected + skew + i * outer + j * inner, lanes);
        }
        CHECK(std::memcmp(got, expected, sizeof got) == 0);
      }
    }
  });
}

TEST(the_configuration_limits_the_instruction_set) {
  using convert::Codec;
  const Configuration before = configuration();
  for (Isa isa : {Isa::Baseline, Isa::Avx2, Isa::Avx512}) {
    if (!available(isa)) continue;
    Configuration limited = before;
    limited.isa = name(isa);
    configure(limited);
    CHECK(to_device(DType::Float16, kFp16) == convert::vector_conversion(Codec::Fp16, Codec::Sen169, isa).run);
  }
  configure(before);
}

TEST(an_int64_beyond_int32_is_found) {
  std::vector<int64_t> values(1000, -5);
  std::vector<int32_t> narrow(1000, 99);
  values[777] = int64_t{1} << 31;
  CHECK_EQ(to_device(DType::Int64, kInt64)(values.data(), narrow.data(), 1000), 777u);
  CHECK_EQ(narrow[776], -5);
  CHECK_EQ(narrow[777], 99);
  values[777] = INT32_MIN;
  values[778] = INT32_MAX;
  CHECK_EQ(to_device(DType::Int64, kInt64)(values.data(), narrow.data(), 1000), 1000u);
  CHECK_EQ(narrow[777], INT32_MIN);
  values[3] = int64_t{INT32_MIN} - 1;
  CHECK_EQ(to_device(DType::Int64, kInt64)(values.data(), narrow.data(), 1000), 3u);
}

TEST(floats_become_integers_by_truncation_and_saturation) {
  const Convert to_i32 = to_device(DType::Float32, {DType::Int32, DataFormat::IEEE_INT32});
  CHECK_EQ(one<int32_t>(to_i32, -1.9f), -1);
  CHECK_EQ(one<int32_t>(to_i32, 3e9f), INT32_MAX);
  CHECK_EQ(one<int32_t>(to_i32, -INFINITY), INT32_MIN);
  CHECK_EQ(one<int32_t>(to_i32, NAN), 0);
  CHECK_EQ(one<int32_t>(to_device(DType::Float32, kInt64), 1e12f), INT32_MAX);
  CHECK_EQ(one<int64_t>(to_host(kFp32, DType::Int64), 1e30f), INT64_MAX);
  CHECK_EQ(one<int8_t>(to_device(DType::Float32, {DType::Int8, DataFormat::SENINT8}), -300.f), -128);
  const Convert to_u8 = to_device(DType::Float32, {DType::UInt8, DataFormat::SENUINT32});
  CHECK_EQ(one<uint32_t>(to_u8, 300.7f), 44u);
  CHECK_EQ(one<uint32_t>(to_u8, -1.5f), 255u);
  CHECK_EQ(one<uint32_t>(to_u8, 1e20f), 255u);                                // INT32_MAX mod 256
  CHECK_EQ(one<int32_t>(to_host(kFp16, DType::Int32), uint16_t{0x7FFE}), 0);  // a NaN
  CHECK_EQ(one<int32_t>(to_host(kFp16, DType::Int32), uint16_t{0x7FFF}), INT32_MAX);
}

TEST(integers_wrap_into_narrower_types) {
  CHECK_EQ(one<int8_t>(to_device(DType::Int64, {DType::Int8, DataFormat::SENINT8}), int64_t{300}), 44);
  CHECK_EQ(one<int32_t>(to_device(DType::Int64, {DType::Int32, DataFormat::IEEE_INT32}), (int64_t{1} << 33) + 5), 5);
  CHECK_EQ(one<uint32_t>(to_device(DType::Int8, {DType::UInt8, DataFormat::SENUINT32}), int8_t{-1}), 255u);
}

TEST(integers_are_rounded_once) {
  const int32_t tie_in_fp32 = (1 << 30) + (1 << 20) - 1;  // just below a SEN169 tie; fp32 would round it onto the tie
  const Convert from_i32 = to_device(DType::Int32, kFp16), from_i64 = to_device(DType::Int64, kFp32);
  CHECK_EQ(one<uint16_t>(from_i32, tie_in_fp32), sen169_nearest(tie_in_fp32));
  const int64_t sticky = (int64_t{1} << 62) + (int64_t{1} << 38) + 1;  // just above an fp32 tie; double drops the 1
  CHECK_EQ(one<float>(from_i64, sticky), 0x1p62f + 0x1p39f);
}

TEST(bool_is_zero_or_one) {
  CHECK_EQ(one<uint16_t>(to_device(DType::Bool, kBool), uint8_t{1}), 0x3E00);
  CHECK_EQ(one<uint16_t>(to_device(DType::Float32, kBool), NAN), 0x3E00);
  CHECK_EQ(one<uint16_t>(to_device(DType::Float32, kBool), -0.f), 0);
  for (uint32_t code = 0; code < 0x10000; ++code) {
    CHECK_EQ(one<uint8_t>(to_host(kBool, DType::Bool), static_cast<uint16_t>(code)), (code & 0x7FFF) != 0);
    CHECK_EQ(one<uint16_t>(between(kFp16, kBool), static_cast<uint16_t>(code)), (code & 0x7FFF) != 0 ? 0x3E00 : 0);
  }
}

TEST(the_host_reads_every_code_as_the_card_computes_with_it) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto code = static_cast<uint16_t>(i);
    CHECK_EQ(one<uint32_t>(between(kFp16, kFp32), code), one<uint32_t>(to_host(kFp16, DType::Float32), code));
  }
}

TEST(infinities_and_nan_of_every_host_format_stay_apart) {
  for (DType dtype : {DType::Float16, DType::BFloat16, DType::Float32}) {
    for (float value : {INFINITY, -INFINITY, NAN, -NAN}) {
      const DeviceElement wide{DType::Float32, host_format(dtype)};  // the host's own bits, made by a cast
      uint32_t there = 0, back = 0;
      CHECK_EQ(to_device(DType::Float32, wide)(&value, &there, 1), 1u);
      uint16_t code = 0;
      CHECK_EQ(to_device(dtype, kFp16)(&there, &code, 1), 1u);
      CHECK_EQ(to_host(kFp16, dtype)(&code, &back, 1), 1u);
      CHECK_EQ(back, there);
    }
  }
}

TEST(copies_on_the_card_keep_every_code) {
  for (uint32_t code = 0; code < 0x10000; ++code)
    CHECK_EQ(one<uint16_t>(between(kFp16, kBf16), static_cast<uint16_t>(code)), code);
}

TEST(tables_follow_the_reference) {
  CHECK_EQ(elems_per_stick(DataFormat::SEN169_FP16), 64);
  CHECK_EQ(elems_per_stick(DataFormat::IEEE_FP32), 32);
  CHECK_EQ(elems_per_stick(DataFormat::SEN143_FP8), 128);
  CHECK_EQ(elems_per_stick(DataFormat::SENINT4), 256);
  CHECK_EQ(elems_per_stick(DataFormat::SENINT2), 512);
  CHECK_EQ(elems_per_stick(DataFormat::IEEE_INT64), 16);
  CHECK_EQ(elems_per_stick(DataFormat::INVALID), 0);
  for (DataFormat partial : {DataFormat::SENINT4, DataFormat::SENINT2, DataFormat::SEN153_FP9, DataFormat::SENINT24,
                             DataFormat::SEN18F_FP24}) {
    CHECK_EQ(device_itemsize(partial), 0);
  }
  CHECK_EQ(device_itemsize(DataFormat::SEN169_FP16), 2);
  CHECK(device_format(DType::Int64) == DataFormat::IEEE_INT32);
  CHECK(device_format(DType::UInt8) == DataFormat::SENUINT32);
  CHECK_EQ(host_itemsize(DType::UInt8), 1);
  CHECK(device_format(DType::Bool) == DataFormat::SEN169_FP16);
  CHECK(host_format(DType::Bool) == DataFormat::BOOL);
  CHECK(to_device(DType::Float16, {DType::Float16, DataFormat::IEEE_INT32}) == nullptr);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(to_device(dtype, {dtype, device_format(dtype)}) != nullptr);
  }
}
