// The kernels of one instruction set. Included by one source per set, which defines ISA_NAME; see CMakeLists.txt.
#include "functions_exp.h"
#include "functions_log.h"
#include "functions_trig.h"
#include "functions_wide.h"
#include "lane_math.h"
#include "vector_kernels.h"

namespace openspyre {
namespace {

// The lanes of a chunk are aligned and come in whole units, so that no loop needs a tail.
template <typename Body>
LANE void each_lane(int64_t n, Body body) {
  const int64_t whole = n & ~(kLaneUnit - 1);
#pragma GCC ivdep
  for (int64_t i = 0; i < whole; ++i) body(i);
}

template <typename Function>
LANE void map_lanes(Lane* target, const Lane* a, const Lane* b, const Lane* c, int64_t n) {
  each_lane(n, [=](int64_t i) __attribute__((always_inline)) { target[i] = Function::apply(a[i], b[i], c[i]); });
}

#define KERNEL(op_name, expression)                                                             \
  struct op_name##Lane {                                                                        \
    LANE static Lane apply([[maybe_unused]] Lane a, [[maybe_unused]] Lane b, [[maybe_unused]] Lane c) { \
      return expression;                                                                        \
    }                                                                                           \
  };                                                                                            \
  void op_name##_kernel(Lane* target, const Lane* a, const Lane* b, const Lane* c, int64_t n) { \
    map_lanes<op_name##Lane>(target, a, b, c, n);                                               \
  }
// Operands of the expressions below: a, b, c as fp32 (F), int32 (I) or bits (U).
#define AF as_float(a)
#define BF as_float(b)
#define CF as_float(c)
#define AI as_int(a)
#define BI as_int(b)
#define AU a
#define BU b
#define CU c
#define FLOAT(op_name, expression) KERNEL(op_name, as_bits(expression))
#define INT(op_name, expression) KERNEL(op_name, static_cast<uint32_t>(expression))

FLOAT(Add, AF + BF)
FLOAT(Sub, AF - BF)
FLOAT(Mul, AF* BF)
FLOAT(Div, AF / BF)
FLOAT(Fma, fma(AF, BF, CF))
FLOAT(Sqrt, __builtin_sqrtf(AF))
KERNEL(Neg, AU ^ 0x80000000u)
KERNEL(Abs, AU & 0x7FFFFFFFu)
FLOAT(Min, AF < BF || is_nan(AF) ? AF : BF)
FLOAT(Max, AF > BF || is_nan(AF) ? AF : BF)
FLOAT(Floor, __builtin_floorf(AF))
FLOAT(Ceil, __builtin_ceilf(AF))
FLOAT(Round, __builtin_rintf(AF))
FLOAT(Trunc, __builtin_truncf(AF))
FLOAT(Rsqrt, 1.0f / __builtin_sqrtf(AF))
FLOAT(Reciprocal, 1.0f / AF)
INT(LtF, AF < BF)
INT(LeF, AF <= BF)
INT(EqF, AF == BF)
INT(NeF, AF != BF)
INT(LtI, AI < BI)
INT(LeI, AI <= BI)
INT(EqI, AI == BI)
INT(NeI, AI != BI)
INT(IsNan, is_nan(AF))
INT(IsInf, magnitude(AF) == kInfinity)
INT(SignBit, AU >> 31)
KERNEL(Select, AU != 0 ? BU : CU)
INT(AddI, AU + BU)
INT(SubI, AU - BU)
INT(MulI, AU* BU)
INT(DivI, floored_quotient(AI, BI))
INT(ModI, floored_remainder(AI, BI))
INT(TDivI, truncated_quotient(AI, BI))
INT(TModI, truncated_remainder(AI, BI))
INT(NegI, 0u - AU)
INT(AbsI, AI < 0 ? 0u - AU : AU)
INT(MinI, AI < BI ? AU : BU)
INT(MaxI, AI > BI ? AU : BU)
INT(And, AU & BU)
INT(Or, AU | BU)
INT(Xor, AU ^ BU)
INT(Not, ~AU)
INT(Shl, BU > 31 ? 0u : AU << (BU & 31))
INT(Shr, AI >> (BU > 31 ? 31 : BU))
INT(FloatToInt, float_to_int(AF))
FLOAT(IntToFloat, static_cast<float>(AI))
INT(FloatToBool, AF != 0.0f)
INT(IntToBool, AI != 0)
KERNEL(BoolToFloat, AU != 0 ? 0x3F800000u : 0u)
KERNEL(RoundSen169, rounded_to_sen169(AU))
KERNEL(Copy, AU)

// --- functions ---
FLOAT(Exp, exp_lane(AF))
FLOAT(Exp2, exp2_lane(AF))
FLOAT(Expm1, expm1_lane(AF))
FLOAT(Log, log_lane(AF))
FLOAT(Log2, log2_lane(AF))
FLOAT(Log10, log10_lane(AF))
FLOAT(Log1p, log1p_lane(AF))
FLOAT(Tanh, tanh_lane(AF))
FLOAT(Sinh, sinh_lane(AF))
FLOAT(Cosh, cosh_lane(AF))
FLOAT(Asin, asin_lane(AF))
FLOAT(Acos, acos_lane(AF))
FLOAT(Atan, atan_lane(AF))
FLOAT(Atan2, atan2_lane(AF, BF))
FLOAT(Erf, erf_lane(AF))
FLOAT(Erfc, erfc_lane(AF))
FLOAT(Sigmoid, sigmoid_lane(AF))
FLOAT(Pow, pow_lane(AF, BF))

// Lanes the fast way cannot serve are done again one by one.
template <typename Function>
LANE void with_slow_lanes(Lane* target, const Lane* a, const Lane* b, int64_t n) {
  for (int64_t first = 0; first < n; first += kLaneUnit) {
    float x[kLaneUnit], y[kLaneUnit];
    uint32_t slow = 0;
    for (int64_t i = 0; i < kLaneUnit; ++i) {
      x[i] = as_float(a[first + i]);
      y[i] = as_float(b[first + i]);
      slow |= Function::is_slow(x[i], y[i]) ? 1u : 0u;
    }
    for (int64_t i = 0; i < kLaneUnit; ++i) target[first + i] = as_bits(Function::fast(x[i], y[i]));
    if (slow == 0) [[likely]]
      continue;
    for (int64_t i = 0; i < kLaneUnit; ++i)
      if (Function::is_slow(x[i], y[i])) target[first + i] = as_bits(Function::slow(x[i], y[i]));
  }
}
#define WITH_SLOW_LANES(op_name)                                                                    \
  void op_name##_kernel(Lane* target, const Lane* a, const Lane* b, const Lane*, int64_t n) {       \
    with_slow_lanes<op_name##Lane>(target, a, b, n);                                                \
  }
WITH_SLOW_LANES(Sin)
WITH_SLOW_LANES(Cos)
WITH_SLOW_LANES(Tan)
WITH_SLOW_LANES(Fmod)

// --- memory formats ---
#define LOAD(format, Storage, expression)                                                           \
  void load_##format(const void* source, Lane* target, int64_t n) {                                 \
    const auto* from = static_cast<const Storage*>(source);                                         \
    each_lane(n, [=](int64_t i) __attribute__((always_inline)) {                                    \
      const Storage code = from[i];                                                                 \
      target[i] = static_cast<uint32_t>(expression);                                                \
    });                                                                                             \
  }
#define STORE(format, Storage, expression)                                                          \
  void store_##format(const Lane* source, void* target, int64_t n) {                                \
    auto* to = static_cast<Storage*>(target);                                                       \
    each_lane(n, [=](int64_t i) __attribute__((always_inline)) {                                    \
      const uint32_t bits = source[i];                                                              \
      to[i] = static_cast<Storage>(expression);                                                     \
    });                                                                                             \
  }
void load_Sen169(const void* source, Lane* target, int64_t n) {
  using Half [[gnu::may_alias]] = uint16_t;
  const auto* from = static_cast<const uint16_t*>(source);
  auto* to = reinterpret_cast<Half*>(target);
  each_lane(n, [=](int64_t i) __attribute__((always_inline)) {
    const Halves halves = sen169_to_halves(from[i]);
    to[2 * i] = halves.low;
    to[2 * i + 1] = halves.high;
  });
}
LOAD(Word, uint32_t, code)
LOAD(BoolSen169, uint16_t, (code & 0x7FFFu) != 0 ? 0x3F800000u : 0u)
LOAD(Int16, int16_t, static_cast<int32_t>(code))
LOAD(Int8, int8_t, static_cast<int32_t>(code))
LOAD(UInt8Word, uint32_t, code & 0xFFu)
STORE(Sen169, uint16_t, lane_to_sen169(bits))
STORE(Fp32, uint32_t, (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : bits)
STORE(Word, uint32_t, bits)
STORE(BoolSen169, uint16_t, as_float(bits) != 0.0f ? 0x3E00u : 0u)
STORE(BoolSen169FromInt, uint16_t, bits != 0 ? 0x3E00u : 0u)
STORE(Int16, uint16_t, bits)
STORE(Int8, uint8_t, bits)
STORE(UInt8Word, uint32_t, bits & 0xFFu)

// --- folds ---
struct WordLane {
  using Storage = uint32_t;
  LANE static Lane load(uint32_t word) { return word; }
};
struct Sen169Lane {
  using Storage = uint16_t;
  LANE static Lane load(uint16_t code) { return sen169_to_lane(code); }
};

// One unit of accumulators over all rows, starting from acc.
template <typename Format, typename Step>
LANE void fold_unit(Lane* acc, const typename Format::Storage* x, int64_t rows, int64_t row_stride, Step step) {
  Lane sums[kLaneUnit];
  for (int64_t i = 0; i < kLaneUnit; ++i) sums[i] = acc[i];
  for (int64_t r = 0; r < rows; ++r) {
    const typename Format::Storage* row = x + r * row_stride;
    for (int64_t i = 0; i < kLaneUnit; ++i) sums[i] = step(sums[i], row[i]);
  }
  for (int64_t i = 0; i < kLaneUnit; ++i) acc[i] = sums[i];
}

template <typename Function, typename Format>
void fold_rows(Lane* acc, const void* source, int64_t lanes, int64_t rows, int64_t row_stride) {
  const auto* x = static_cast<const typename Format::Storage*>(source);
  for (int64_t first = 0; first < lanes; first += kLaneUnit)
    fold_unit<Format>(acc + first, x + first, rows, row_stride,
                      [](Lane sum, typename Format::Storage code) __attribute__((always_inline)) {
                        return Function::apply(sum, Format::load(code), 0);
                      });
}

// One unit of SEN169 rows, added at 2^-96 of their value: there a code is its own pattern, shifted. Says no, and leaves
// acc alone, where that is not so: infinities and the lowest binade. Sums at that scale round as they always do.
LANE bool add_usual_rows(Lane* acc, const uint16_t* x, int64_t rows, int64_t row_stride) {
  using Codes [[gnu::vector_size(32)]] = uint16_t;
  using Pairs [[gnu::vector_size(32)]] = int32_t;  // of codes, so that lanes widen in place: first and second ones
  using Floats [[gnu::vector_size(32)]] = float;
  constexpr Pairs kFirst = {0, 2, 4, 6, 8, 10, 12, 14}, kLow = {0, 8, 1, 9, 2, 10, 3, 11};
  constexpr int kVectors = 2, kCodes = 16;
  static_assert(kVectors * kCodes == kLaneUnit);
  Floats first[kVectors], second[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    Floats low, high;
    __builtin_memcpy(&low, acc + v * kCodes, sizeof low);
    __builtin_memcpy(&high, acc + v * kCodes + 8, sizeof high);
    first[v] = __builtin_shuffle(low, high, kFirst) * (1.0f / kSen169Scale);
    second[v] = __builtin_shuffle(low, high, kFirst + 1) * (1.0f / kSen169Scale);
  }
  Codes largest = {}, smallest = ~largest;
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t* row = x + r * row_stride;
    __builtin_prefetch(row + rows * row_stride);  // rows like these come next
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Pairs pairs;
      __builtin_memcpy(&pairs, row + v * kCodes, sizeof pairs);
      first[v] += (Floats)(((pairs << 16) >> 2) & static_cast<int32_t>(0x9FFFFFFF));
      second[v] += (Floats)((pairs >> 2) & static_cast<int32_t>(0x9FFFC000));
      const Codes codes = (Codes)pairs, twice = codes + codes, before = twice - 1;  // no sign; zero goes to the top
      largest = largest > twice ? largest : twice;
      smallest = smallest < before ? smallest : before;
    }
  }
  const Codes unusual = (Codes)((largest == 0xFFFE) | (smallest < 1023));
  uint64_t parts[4];
  __builtin_memcpy(parts, &unusual, sizeof parts);
  if ((parts[0] | parts[1] | parts[2] | parts[3]) != 0) return false;
  for (int v = 0; v < kVectors; ++v) {
    const Floats low = __builtin_shuffle(first[v], second[v], kLow) * kSen169Scale;
    const Floats high = __builtin_shuffle(first[v], second[v], kLow + 4) * kSen169Scale;
    __builtin_memcpy(acc + v * kCodes, &low, sizeof low);
    __builtin_memcpy(acc + v * kCodes + 8, &high, sizeof high);
  }
  return true;
}

// Sums of SEN169 are the hot case.
void sum_sen169_rows(Lane* acc, const void* source, int64_t lanes, int64_t rows, int64_t row_stride) {
  const auto* x = static_cast<const uint16_t*>(source);
  for (int64_t first = 0; first < lanes; first += kLaneUnit)
    if (!add_usual_rows(acc + first, x + first, rows, row_stride)) [[unlikely]]
      fold_rows<AddLane, Sen169Lane>(acc + first, x + first, kLaneUnit, rows, row_stride);
}

template <typename Function>
void fold_lanes(Lane* acc, Lane* total, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, acc += kFoldLanes) {
    for (int64_t i = 0; i < 32; ++i) acc[i] = Function::apply(acc[i], acc[i + 32], 0);
    for (int64_t i = 0; i < 16; ++i) acc[i] = Function::apply(acc[i], acc[i + 16], 0);
    for (int64_t i = 0; i < 8; ++i) acc[i] = Function::apply(acc[i], acc[i + 8], 0);
    for (int64_t width = 4; width > 0; width /= 2)
      for (int64_t i = 0; i < width; ++i) acc[i] = Function::apply(acc[i], acc[i + width], 0);
    total[r] = acc[0];
  }
}

// --- arg reductions: a NaN beats everything, of equals the one with the lowest index stays ---
struct FloatMax {
  LANE static bool better(uint32_t x, uint32_t best) {
    return as_float(x) > as_float(best) || (is_nan(as_float(x)) && !is_nan(as_float(best)));
  }
};
struct FloatMin {
  LANE static bool better(uint32_t x, uint32_t best) {
    return as_float(x) < as_float(best) || (is_nan(as_float(x)) && !is_nan(as_float(best)));
  }
};
struct IntMax {
  LANE static bool better(uint32_t x, uint32_t best) { return as_int(x) > as_int(best); }
};
struct IntMin {
  LANE static bool better(uint32_t x, uint32_t best) { return as_int(x) < as_int(best); }
};

template <typename Order>
void arg_kernel(Lane* value, Lane* index, const Lane* x, int32_t first, int32_t step, int64_t n) {
  each_lane(n, [=](int64_t i) __attribute__((always_inline)) {
    const uint32_t here = static_cast<uint32_t>(first) + static_cast<uint32_t>(i) * static_cast<uint32_t>(step);
    const bool taken = Order::better(x[i], value[i]) || (!Order::better(value[i], x[i]) && here < index[i]);
    const uint32_t v = taken ? x[i] : value[i], at = taken ? here : index[i];
    value[i] = v;
    index[i] = at;
  });
}

// clang-format off
constexpr VectorKernels kKernels = {
    {Add_kernel, Sub_kernel, Mul_kernel, Div_kernel, Fma_kernel, Sqrt_kernel, Neg_kernel, Abs_kernel, Min_kernel, Max_kernel,
     Floor_kernel, Ceil_kernel, Round_kernel, Trunc_kernel, Rsqrt_kernel, Reciprocal_kernel,
     Exp_kernel, Exp2_kernel, Expm1_kernel, Log_kernel, Log2_kernel, Log10_kernel, Log1p_kernel, Sin_kernel, Cos_kernel, Tan_kernel,
     Tanh_kernel, Sinh_kernel, Cosh_kernel, Asin_kernel, Acos_kernel, Atan_kernel, Atan2_kernel, Erf_kernel, Erfc_kernel,
     Sigmoid_kernel, Pow_kernel, Fmod_kernel,
     LtF_kernel, LeF_kernel, EqF_kernel, NeF_kernel, LtI_kernel, LeI_kernel, EqI_kernel, NeI_kernel,
     IsNan_kernel, IsInf_kernel, SignBit_kernel, Select_kernel,
     AddI_kernel, SubI_kernel, MulI_kernel, DivI_kernel, ModI_kernel, TDivI_kernel, TModI_kernel, NegI_kernel, AbsI_kernel,
     MinI_kernel, MaxI_kernel, And_kernel, Or_kernel, Xor_kernel, Not_kernel, Shl_kernel, Shr_kernel,
     FloatToInt_kernel, IntToFloat_kernel, FloatToBool_kernel, IntToBool_kernel, BoolToFloat_kernel, RoundSen169_kernel, Copy_kernel},
    {load_Sen169, load_Word, load_Word, load_BoolSen169, nullptr, load_Int16, load_Int8, load_UInt8Word},
    {store_Sen169, store_Fp32, store_Word, store_BoolSen169, store_BoolSen169FromInt, store_Int16, store_Int8, store_UInt8Word},
#define FOLD_ROWS(sum, Format)                                                                                  \
  {sum,                         fold_rows<MulLane, Format>,  fold_rows<MaxLane, Format>,  fold_rows<MinLane, Format>,  \
   fold_rows<AddILane, Format>, fold_rows<MulILane, Format>, fold_rows<MaxILane, Format>, fold_rows<MinILane, Format>, \
   fold_rows<AndLane, Format>,  fold_rows<OrLane, Format>}
    FOLD_ROWS((fold_rows<AddLane, WordLane>), WordLane), FOLD_ROWS(sum_sen169_rows, Sen169Lane),
    {fold_lanes<AddLane>, fold_lanes<MulLane>, fold_lanes<MaxLane>, fold_lanes<MinLane>, fold_lanes<AddILane>, fold_lanes<MulILane>,
     fold_lanes<MaxILane>, fold_lanes<MinILane>, fold_lanes<AndLane>, fold_lanes<OrLane>},
    arg_kernel<FloatMax>, arg_kernel<FloatMin>, arg_kernel<IntMax>, arg_kernel<IntMin>};
// clang-format on

}  // namespace

extern const VectorKernels& ISA_NAME;
const VectorKernels& ISA_NAME = kKernels;

}  // namespace openspyre
