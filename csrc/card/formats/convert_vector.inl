// Loops around the hot conversions, and their table for one instruction set: included with ISA_TABLE as its name.
#include <cstddef>
#include <cstdint>

#include "formats/convert_lanes.inl"
#include "formats/convert_table.h"

namespace openspyre::convert {
namespace {

// --- lines and parts of lines ---
template <bool streaming>
INLINE void put_line(void* to, const void* line) {
#if defined(__AVX512BW__)
  if constexpr (streaming) return _mm512_stream_si512(static_cast<__m512i*>(to), _mm512_load_si512(line));
#elif defined(__AVX2__)
  if constexpr (streaming) {
    for (int i = 0; i < 2; ++i)
      _mm256_stream_si256(static_cast<__m256i*>(to) + i, _mm256_load_si256(static_cast<const __m256i*>(line) + i));
    return;
  }
#elif defined(__SSE2__)
  if constexpr (streaming) {
    for (int i = 0; i < 4; ++i)
      _mm_stream_si128(static_cast<__m128i*>(to) + i, _mm_load_si128(static_cast<const __m128i*>(line) + i));
    return;
  }
#endif
  __builtin_memcpy(to, line, kLine);
}

// Fewer bytes than `limit`, a power of two, in pieces of halving sizes.
template <size_t limit>
INLINE void copy_part(const char* from, char* to, size_t bytes) {
  if constexpr (limit > 1) {
    constexpr size_t kPiece = limit / 2;
    const size_t taken = bytes & kPiece;
    if (taken != 0) __builtin_memcpy(to, from, kPiece);
    copy_part<kPiece>(from + taken, to + taken, bytes);
  }
}

// The first elements of a line.
template <typename Kernel>
INLINE void convert_part(const typename Kernel::Source* from, typename Kernel::Target* to, size_t n) {
  using Source = typename Kernel::Source;
  using Target = typename Kernel::Target;
  constexpr size_t kLanes = kLine / sizeof(Target);
  alignas(kLine) Source first[kLanes];
  alignas(kLine) Target converted[kLanes];
#if defined(__AVX512BW__)
  if constexpr (sizeof(Source) == sizeof(Target)) {  // masked lanes are neither read nor written
    const __mmask64 mask = _bzhi_u64(~0ull, static_cast<unsigned>(n * sizeof(Source)));
    _mm512_store_si512(first, _mm512_maskz_loadu_epi8(mask, from));
    Kernel::line(first, converted);
    return _mm512_mask_storeu_epi8(to, mask, _mm512_load_si512(converted));
  }
#endif
  __builtin_memset(first, 0, sizeof first);
  copy_part<sizeof first>(reinterpret_cast<const char*>(from), reinterpret_cast<char*>(first), n * sizeof(Source));
  Kernel::line(first, converted);
  copy_part<kLine>(reinterpret_cast<const char*>(converted), reinterpret_cast<char*>(to), n * sizeof(Target));
}

template <typename Kernel>
constexpr bool kCopies = false;
template <typename Element>
constexpr bool kCopies<Same<Element>> = true;

template <typename Kernel, bool streaming>
INLINE void convert_run(const typename Kernel::Source* from, typename Kernel::Target* to, size_t n) {
  constexpr size_t kLanes = kLine / sizeof(typename Kernel::Target);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if constexpr (sizeof(typename Kernel::Source) == sizeof(typename Kernel::Target)) {
      alignas(kLine) typename Kernel::Target line[kLanes];
      Kernel::line(from + i, line);
      put_line<streaming>(to + i, line);
    } else {
      Kernel::line(from + i, to + i);
    }
  }
  if constexpr (kCopies<Kernel>) {  // parts of sticks are common here: nothing stands between the sides
    copy_part<kLine>(reinterpret_cast<const char*>(from + i), reinterpret_cast<char*>(to + i), (n - i) * sizeof(*from));
  } else {
    if (i < n) convert_part<Kernel>(from + i, to + i, n - i);
  }
}

template <typename Kernel>
size_t run(const void* source, void* target, size_t n) {
  convert_run<Kernel, false>(static_cast<const typename Kernel::Source*>(source),
                             static_cast<typename Kernel::Target*>(target), n);
  return n;
}

template <typename Kernel, bool streaming>
INLINE void convert_grid(const Grid grid) {  // a copy: bytes written could otherwise be the grid's own
  for (int64_t i = 0; i < grid.outer.count; ++i) {
    const std::byte* source = grid.source + i * grid.outer.source;
    std::byte* target = grid.target + i * grid.outer.target;
    for (int64_t j = 0; j < grid.inner.count; ++j) {
      convert_run<Kernel, streaming>(reinterpret_cast<const typename Kernel::Source*>(source),
                                     reinterpret_cast<typename Kernel::Target*>(target), grid.lanes);
      source += grid.inner.source;
      target += grid.inner.target;
    }
  }
}

template <typename Kernel>
void grid(const Grid& grid, bool streaming) {
  const auto places = reinterpret_cast<uintptr_t>(grid.target) | static_cast<uintptr_t>(grid.inner.target) |
                      static_cast<uintptr_t>(grid.outer.target);
  if (streaming && places % kLine == 0) {
    convert_grid<Kernel, true>(grid);
  } else {
    convert_grid<Kernel, false>(grid);
  }
}

// --- conversions the compiler vectorises by itself ---
INLINE uint16_t bool8_to_sen169(uint8_t value) { return value != 0 ? 0x3E00 : 0; }
INLINE uint8_t bool_sen169_to_8(uint16_t code) { return (code & 0x7FFF) != 0; }
INLINE int64_t int32_to_64(int32_t value) { return value; }
INLINE uint32_t uint8_to_32(uint8_t value) { return value; }
INLINE uint8_t uint8_from_32(uint32_t value) { return static_cast<uint8_t>(value); }

INLINE uint32_t same_word(uint32_t code) { return code; }

// Truth values: nonzero by bits, so that a host that flushes subnormals reads them right, too.
INLINE uint16_t truth_of_word(uint32_t value) { return value != 0 ? 0x3E00 : 0; }
INLINE uint16_t truth_of_fp32(uint32_t bits) { return (bits & 0x7FFFFFFF) != 0 ? 0x3E00 : 0; }
INLINE uint16_t truth_of_sen169(uint16_t code) { return (code & 0x7FFF) != 0 ? 0x3E00 : 0; }
INLINE uint32_t truth_to_word(uint16_t code) { return (code & 0x7FFF) != 0; }
INLINE uint32_t truth_to_fp32(uint16_t code) { return (code & 0x7FFF) != 0 ? 0x3F800000 : 0; }

INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
INLINE float float_of(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

INLINE float word_to_fp32(int32_t value) { return static_cast<float>(value); }

// Truncated and saturated; NaN is 0.
INLINE int32_t fp32_to_word(uint32_t bits) {
  const float value = float_of(bits);
  const bool fits = value > -2147483648.0f && value < 2147483648.0f;
  const int32_t whole = static_cast<int32_t>(fits ? value : 0.0f);
  const int32_t end = (bits >> 31) != 0 ? INT32_MIN : INT32_MAX;
  return fits ? whole : (bits & 0x7FFFFFFF) > 0x7F800000 ? 0 : end;
}

INLINE int32_t sen169_to_word(uint16_t code) {
  const uint32_t magnitude = code & 0x7FFF, sign = (code & 0x8000u) << 16;
  const uint32_t finite = magnitude == 0 ? 0 : (magnitude << 14) + (96u << 23);
  const uint32_t special = magnitude == 0x7FFF ? 0x7F800000 : 0x7FC00000;
  return fp32_to_word((magnitude > 0x7FFD ? special : finite) | sign);
}

// Rounded once: what float32 has no place for is kept as one bit below all that decides a rounding to ten bits.
INLINE uint16_t word_to_sen169(int32_t value) {
  const auto negative = static_cast<uint32_t>(value >> 31);
  const uint32_t magnitude = (static_cast<uint32_t>(value) ^ negative) - negative;
  const uint32_t large = 0u - static_cast<uint32_t>(magnitude >> 24 != 0);
  const uint32_t shortened = (magnitude >> 8) | static_cast<uint32_t>((magnitude & 0xFF) != 0);
  const auto kept = static_cast<int32_t>((magnitude & ~large) | (shortened & large));
  const uint32_t bits = bits_of(static_cast<float>(kept)) + (large & (8u << 23));
  const uint32_t rounded = ((bits + 0x2000) >> 14) - (96u << 9);
  return static_cast<uint16_t>((rounded & (0u - static_cast<uint32_t>(magnitude != 0))) | (negative & 0x8000));
}

template <auto function, typename Target, typename Source>
INLINE void each_of(Target (*)(Source), const void* source, void* target, size_t n) {
  const auto* from = static_cast<const Source*>(source);
  auto* to = static_cast<Target*>(target);
  for (size_t i = 0; i < n; ++i) to[i] = function(from[i]);
}

template <auto function>
size_t each(const void* source, void* target, size_t n) {
  each_of<function>(function, source, target, n);
  return n;
}

// An int64 lives as int32: whole blocks are checked before they are written.
size_t int64_to_32(const void* source, void* target, size_t n) {
  constexpr size_t kBlock = 64;
  const auto* from = static_cast<const int64_t*>(source);
  auto* to = static_cast<int32_t*>(target);
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    uint64_t beyond = 0;
    for (size_t j = 0; j < kBlock; ++j) beyond |= (static_cast<uint64_t>(from[i + j]) + 0x80000000u) >> 32;
    if (beyond != 0) break;
    for (size_t j = 0; j < kBlock; ++j) to[i + j] = static_cast<int32_t>(from[i + j]);
  }
  for (; i < n; ++i) {
    if (from[i] != static_cast<int32_t>(from[i])) return i;
    to[i] = static_cast<int32_t>(from[i]);
  }
  return n;
}

template <typename Kernel>
constexpr Conversion kBoth = {run<Kernel>, grid<Kernel>};

}  // namespace

const VectorTable ISA_TABLE = {
    {
        {Codec::Fp16, Codec::Sen169, kBoth<WithRareCase<Fp16ToSen169>>},
        {Codec::Sen169, Codec::Fp16, kBoth<WithRareCase<Sen169ToFp16>>},
        {Codec::Bf16, Codec::Sen169, kBoth<Lanes16<Bf16ToSen169>>},
        {Codec::Sen169, Codec::Bf16, kBoth<Lanes16<Sen169ToBf16>>},
        {Codec::Fp32, Codec::Sen169, kBoth<Fp32ToSen169>},
        {Codec::Sen169, Codec::Fp32, kBoth<Sen169ToFp32>},
        {Codec::Bool8, Codec::BoolSen169, {each<bool8_to_sen169>, nullptr}},
        {Codec::BoolSen169, Codec::Bool8, {each<bool_sen169_to_8>, nullptr}},
        {Codec::Int64As64, Codec::Int64As32, {int64_to_32, nullptr}},
        {Codec::Int64As32, Codec::Int64As64, {each<int32_to_64>, nullptr}},
        {Codec::UInt8As8, Codec::UInt8As32, {each<uint8_to_32>, nullptr}},
        {Codec::UInt8As32, Codec::UInt8As8, {each<uint8_from_32>, nullptr}},
        {Codec::Int64As32, Codec::Int32As32, {each<same_word>, grid<Same<uint32_t>>, 4}},
        {Codec::Int32As32, Codec::Int64As32, {each<same_word>, grid<Same<uint32_t>>, 4}},
        {Codec::BoolSen169, Codec::Int64As32, {each<truth_to_word>, nullptr}},
        {Codec::BoolSen169, Codec::Int32As32, {each<truth_to_word>, nullptr}},
        {Codec::BoolSen169, Codec::Fp32, {each<truth_to_fp32>, nullptr}},
        {Codec::BoolSen169, Codec::Sen169, {each<truth_of_sen169>, nullptr}},
        {Codec::Int64As32, Codec::BoolSen169, {each<truth_of_word>, nullptr}},
        {Codec::Int32As32, Codec::BoolSen169, {each<truth_of_word>, nullptr}},
        {Codec::Fp32, Codec::BoolSen169, {each<truth_of_fp32>, nullptr}},
        {Codec::Sen169, Codec::BoolSen169, {each<truth_of_sen169>, nullptr}},
        {Codec::Int64As32, Codec::Fp32, {each<word_to_fp32>, nullptr}},
        {Codec::Int32As32, Codec::Fp32, {each<word_to_fp32>, nullptr}},
        {Codec::Fp32, Codec::Int64As32, {each<fp32_to_word>, nullptr}},
        {Codec::Fp32, Codec::Int32As32, {each<fp32_to_word>, nullptr}},
        {Codec::Int64As32, Codec::Sen169, {each<word_to_sen169>, nullptr}},
        {Codec::Int32As32, Codec::Sen169, {each<word_to_sen169>, nullptr}},
        {Codec::Sen169, Codec::Int64As32, {each<sen169_to_word>, nullptr}},
        {Codec::Sen169, Codec::Int32As32, {each<sen169_to_word>, nullptr}},
    },
    {grid<Same<uint8_t>>, grid<Same<uint16_t>>, grid<Same<uint32_t>>, grid<Same<uint64_t>>},
};

}  // namespace openspyre::convert
