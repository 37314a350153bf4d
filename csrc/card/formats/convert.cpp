// Conversion between any two codecs: a block is decoded to double or int64, then encoded. Exact, and fast enough for
// cold pairs.
#include "formats/convert.h"

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "formats/convert_scalar.h"

namespace openspyre::convert {
namespace {

template <typename Storage>
Storage load(const void* base, size_t i) {
  Storage value;
  std::memcpy(&value, static_cast<const char*>(base) + i * sizeof(Storage), sizeof(Storage));
  return value;
}

template <typename Storage>
void store(void* base, size_t i, Storage value) {
  std::memcpy(static_cast<char*>(base) + i * sizeof(Storage), &value, sizeof(Storage));
}

// A codec has Storage, Value (double or int64_t), decode(Storage) -> Value, and encode(double or int64_t, Storage&) ->
// fits.
template <typename Format>
struct FloatCodec {
  using Storage = typename Format::Storage;
  using Value = double;
  static double decode(Storage code) { return Format::decode(code); }
  static bool encode(double value, Storage& code) {
    code = Format::encode(value);
    return true;
  }
  static bool encode(int64_t value, Storage& code) { return encode(roundable(value), code); }
};

template <typename Integer>
struct Plain {  // an integer format
  using Storage = Integer;
};

template <typename Holder>
constexpr bool kIsPlain = std::is_integral_v<typename Holder::Storage> &&
                          requires { requires std::is_same_v<Holder, Plain<typename Holder::Storage>>; };

template <typename Holder>
struct BoolCodec {
  using Storage = typename Holder::Storage;
  using Value = int64_t;
  static int64_t decode(Storage code) {
    if constexpr (kIsPlain<Holder>) {
      return code != 0;
    } else {
      return !Holder::zero(code);
    }
  }
  static bool encode(bool value, Storage& code) {
    if constexpr (kIsPlain<Holder>) {
      code = value;
    } else {
      code = Holder::encode(value ? 1.0 : 0.0);
    }
    return true;
  }
  static bool encode(double value, Storage& code) { return encode(value != 0.0, code); }  // NaN != 0
  static bool encode(int64_t value, Storage& code) { return encode(value != 0, code); }
};

template <typename Type, typename Holder>
struct IntegerCodec {
  using Storage = typename Holder::Storage;
  using Value = int64_t;
  static constexpr bool kPlain = kIsPlain<Holder>;
  using Limits = std::numeric_limits<Type>;

  // uint8 wraps mod 256 after saturating to int32; an int64 saturates to what its format can hold.
  static int64_t from_double(double value) {
    if constexpr (std::is_same_v<Type, uint8_t>) {
      return static_cast<uint8_t>(truncate(value, INT32_MIN, INT32_MAX));
    } else if constexpr (kPlain) {
      using Held = std::numeric_limits<Storage>;
      constexpr int64_t kLow =
          std::cmp_less(Limits::min(), Held::min()) ? static_cast<int64_t>(Held::min()) : Limits::min();
      constexpr int64_t kHigh =
          std::cmp_greater(Limits::max(), Held::max()) ? static_cast<int64_t>(Held::max()) : Limits::max();
      return truncate(value, kLow, kHigh);
    } else {
      return truncate(value, Limits::min(), Limits::max());
    }
  }
  static int64_t decode(Storage code) {
    if constexpr (kPlain) {
      return static_cast<Type>(code);
    } else {
      return from_double(Holder::decode(code));
    }
  }
  static bool encode(int64_t value, Storage& code) {
    const Type cast = static_cast<Type>(value);
    if constexpr (kPlain) {
      if (!std::in_range<Storage>(cast)) return false;
      code = static_cast<Storage>(cast);
    } else {
      code = Holder::encode(roundable(cast));
    }
    return true;
  }
  static bool encode(double value, Storage& code) { return encode(from_double(value), code); }
};

using I8 = Plain<int8_t>;
using I16 = Plain<int16_t>;
using I32 = Plain<int32_t>;
using U32 = Plain<uint32_t>;
using I64 = Plain<int64_t>;

template <Codec codec>
struct Of;
#define CODEC(name, ...)      \
  template <>                 \
  struct Of<Codec::name> {    \
    using type = __VA_ARGS__; \
  };
CODEC(Sen169, FloatCodec<Sen169>)
CODEC(Fp32, FloatCodec<Fp32>)
CODEC(Fp16, FloatCodec<Fp16>)
CODEC(Bf16, FloatCodec<Bf16>)
CODEC(Fp8E4M3, FloatCodec<Fp8E4M3>)
CODEC(Fp8E5M2, FloatCodec<Fp8E5M2>)
CODEC(Bool8, BoolCodec<I8>)
CODEC(BoolSen169, BoolCodec<Sen169>)
CODEC(BoolFp32, BoolCodec<Fp32>)
CODEC(Bool16, BoolCodec<I16>)
CODEC(Bool32, BoolCodec<I32>)
CODEC(UInt8As8, IntegerCodec<uint8_t, Plain<uint8_t>>)
CODEC(UInt8As16, IntegerCodec<uint8_t, I16>)
CODEC(UInt8As32, IntegerCodec<uint8_t, I32>)
CODEC(UInt8AsSen169, IntegerCodec<uint8_t, Sen169>)
CODEC(UInt8AsFp32, IntegerCodec<uint8_t, Fp32>)
CODEC(Int8As8, IntegerCodec<int8_t, I8>)
CODEC(Int8As16, IntegerCodec<int8_t, I16>)
CODEC(Int8As32, IntegerCodec<int8_t, I32>)
CODEC(Int8AsSen169, IntegerCodec<int8_t, Sen169>)
CODEC(Int8AsFp32, IntegerCodec<int8_t, Fp32>)
CODEC(Int16As16, IntegerCodec<int16_t, I16>)
CODEC(Int16As32, IntegerCodec<int16_t, I32>)
CODEC(Int16AsSen169, IntegerCodec<int16_t, Sen169>)
CODEC(Int16AsFp32, IntegerCodec<int16_t, Fp32>)
CODEC(Int32As32, IntegerCodec<int32_t, I32>)
CODEC(Int32AsU32, IntegerCodec<int32_t, U32>)
CODEC(Int32AsSen169, IntegerCodec<int32_t, Sen169>)
CODEC(Int32AsFp32, IntegerCodec<int32_t, Fp32>)
CODEC(Int64As64, IntegerCodec<int64_t, I64>)
CODEC(Int64As32, IntegerCodec<int64_t, I32>)
CODEC(Int64AsU32, IntegerCodec<int64_t, U32>)
CODEC(Int64AsSen169, IntegerCodec<int64_t, Sen169>)
CODEC(Int64AsFp32, IntegerCodec<int64_t, Fp32>)
#undef CODEC

constexpr size_t kBlock = 256;

// Not inlined: one decoder and one encoder per codec instead of one loop per pair.
template <typename C>
[[gnu::noinline]] void decode_block(const void* source, typename C::Value* values, size_t n) {
  for (size_t i = 0; i < n; ++i) values[i] = C::decode(load<typename C::Storage>(source, i));
}

template <typename C, typename Value>
[[gnu::noinline]] size_t encode_block(const Value* values, void* target, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    typename C::Storage code;
    if (!C::encode(values[i], code)) return i;
    store(target, i, code);
  }
  return n;
}

template <typename Source, typename Target>
size_t convert_pair(const void* source, void* target, size_t n) {
  std::array<typename Source::Value, kBlock> values;
  for (size_t done = 0; done < n; done += kBlock) {
    const size_t length = n - done < kBlock ? n - done : kBlock;
    decode_block<Source>(static_cast<const char*>(source) + done * sizeof(typename Source::Storage), values.data(),
                         length);
    void* out = static_cast<char*>(target) + done * sizeof(typename Target::Storage);
    const size_t encoded = encode_block<Target>(values.data(), out, length);
    if (encoded != length) return done + encoded;
  }
  return n;
}

template <size_t itemsize>
size_t copy_bits(const void* source, void* target, size_t n) {
  std::memcpy(target, source, n * itemsize);
  return n;
}

// A host's bool must be read as 0 or 1.
constexpr bool keeps_bits(int source, int target) {
  return source == target && source != static_cast<int>(Codec::Bool8);
}

struct Pair {
  Convert convert;
  int copied_bytes;
};

template <int source, int target>
constexpr Pair pair() {
  using S = typename Of<static_cast<Codec>(source)>::type;
  using T = typename Of<static_cast<Codec>(target)>::type;
  constexpr size_t kSize = sizeof(typename S::Storage);
  if constexpr (keeps_bits(source, target)) {
    return {copy_bits<kSize>, static_cast<int>(kSize)};
  } else {
    return {convert_pair<S, T>, 0};
  }
}

using Row = std::array<Pair, kCodecCount>;

template <int source, int... targets>
constexpr Row make_row(std::integer_sequence<int, targets...>) {
  return {pair<source, targets>()...};
}

template <int... sources>
constexpr std::array<Row, kCodecCount> make_table(std::integer_sequence<int, sources...> all) {
  return {make_row<sources>(all)...};
}

constexpr auto kTable = make_table(std::make_integer_sequence<int, kCodecCount>());

}  // namespace

Convert exact_conversion(Codec source, Codec target) {
  return kTable[static_cast<size_t>(source)][static_cast<size_t>(target)].convert;
}

int copied_bytes(Codec source, Codec target) {
  return kTable[static_cast<size_t>(source)][static_cast<size_t>(target)].copied_bytes;
}

}  // namespace openspyre::convert
