// The kernels of one instruction set. Included by one source per set, which defines ISA_NAME; see CMakeLists.txt.
#include <algorithm>
#include <utility>

#include "kernels/functions_exp.h"
#include "kernels/functions_log.h"
#include "kernels/functions_random.h"
#include "kernels/functions_trig.h"
#include "kernels/functions_wide.h"
#include "kernels/lane_math.h"
#include "kernels/vector_kernels.h"
#include "kernels/vector_ops.h"

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

#define KERNEL(op_name, expression)                                                                     \
  struct op_name##Lane {                                                                                \
    LANE static Lane apply([[maybe_unused]] Lane a, [[maybe_unused]] Lane b, [[maybe_unused]] Lane c) { \
      return expression;                                                                                \
    }                                                                                                   \
  };                                                                                                    \
  void op_name##_kernel(Lane* target, const Lane* a, const Lane* b, const Lane* c, int64_t n) {         \
    map_lanes<op_name##Lane>(target, a, b, c, n);                                                       \
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

FLOAT(Fma, fma(AF, BF, CF))
FLOAT(Sqrt, __builtin_sqrtf(AF))
KERNEL(Abs, AU & 0x7FFFFFFFu)
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
INT(SignBit, is_nan(AF) ? 0u : AU >> 31)  // the sign of a NaN is no property of the program
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
INT(And, AU& BU)
INT(Or, AU | BU)
INT(Xor, AU ^ BU)
INT(Not, ~AU)
INT(Shl, BU > 31 ? 0u : AU << (BU & 31))
INT(Shr, AI >> (BU > 31 ? 31 : BU))
INT(MulHigh, (uint64_t{AU} * BU) >> 32)
INT(FloatToInt, float_to_int(AF))
FLOAT(IntToFloat, static_cast<float>(AI))
INT(FloatToBool, AF != 0.0f)
INT(IntToBool, AI != 0)
KERNEL(BoolToFloat, AU != 0 ? 0x3F800000u : 0u)
KERNEL(Copy, AU)

// --- functions ---
FLOAT(Exp2, exp2_lane(AF))
FLOAT(Expm1, expm1_lane(AF))
FLOAT(Log, log_lane(AF))
FLOAT(Log2, log2_lane(AF))
FLOAT(Log10, log10_lane(AF))
FLOAT(Log1p, log1p_lane(AF))
FLOAT(Sinh, sinh_lane(AF))
FLOAT(Cosh, cosh_lane(AF))
FLOAT(Asin, asin_lane(AF))
FLOAT(Acos, acos_lane(AF))
FLOAT(Atan, atan_lane(AF))
FLOAT(Atan2, atan2_lane(AF, BF))
FLOAT(Pow, pow_lane(AF, BF))
FLOAT(Normal, normal_lane(AU))

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
#define WITH_SLOW_LANES(op_name)                                                              \
  void op_name##_kernel(Lane* target, const Lane* a, const Lane* b, const Lane*, int64_t n) { \
    with_slow_lanes<op_name##Lane>(target, a, b, n);                                          \
  }
WITH_SLOW_LANES(Sin)
WITH_SLOW_LANES(Cos)
WITH_SLOW_LANES(Tan)
WITH_SLOW_LANES(Fmod)

// Entries come one by one from the cache: gathers of vectors are slower on most processors.
[[gnu::optimize("no-tree-vectorize")]] void look_up(Lane* target, const Lane* a, const Lane* table, int64_t n) {
#pragma GCC unroll 8
  for (int64_t i = 0; i < n; ++i) target[i] = table[a[i] >> 14];
}

// --- memory formats ---
#define LOAD(format, Storage, expression)                           \
  void load_##format(const void* source, Lane* target, int64_t n) { \
    const auto* from = static_cast<const Storage*>(source);         \
    each_lane(n, [=](int64_t i) __attribute__((always_inline)) {    \
      const Storage code = from[i];                                 \
      target[i] = static_cast<uint32_t>(expression);                \
    });                                                             \
  }
#define STORE(format, Storage, expression)                           \
  void store_##format(const Lane* source, void* target, int64_t n) { \
    auto* to = static_cast<Storage*>(target);                        \
    each_lane(n, [=](int64_t i) __attribute__((always_inline)) {     \
      const uint32_t bits = source[i];                               \
      to[i] = static_cast<Storage>(expression);                      \
    });                                                              \
  }
void load_Sen169(const void* source, Lane* target, int64_t n) {
  const auto* codes = static_cast<const uint16_t*>(source);
  for (int64_t i = 0; i < n; i += kPairLanes) {
    const FloatsPair pair = load_sen169(codes + i);
    store_vector(target + i, pair.first);
    store_vector(target + i + kVectorLanes, pair.second);
  }
}
void store_Sen169(const Lane* source, void* target, int64_t n) {
  auto* codes = static_cast<uint16_t*>(target);
  for (int64_t i = 0; i < n; i += kPairLanes)
    store_sen169({load_vector<Floats>(source + i), load_vector<Floats>(source + i + kVectorLanes)}, codes + i);
}
LOAD(Word, uint32_t, code)
LOAD(BoolSen169, uint16_t, (code & 0x7FFFu) != 0 ? 0x3F800000u : 0u)
LOAD(Int16, int16_t, static_cast<int32_t>(code))
LOAD(Int8, int8_t, static_cast<int32_t>(code))
LOAD(UInt8Word, uint32_t, code & 0xFFu)
// Below the first binade a code counts steps of the smallest number.
LOAD(Fp8E4M3, uint8_t,
     (code & 0x7Fu) == 0x7Fu
         ? 0x7FC00000u
         : ((code & 0x80u) << 24 | ((code & 0x7Fu) < 8 ? as_bits(static_cast<float>(code & 0x7F) * 0x1p-9f)
                                                       : ((code & 0x7Fu) << 20) + (120u << 23))))
LOAD(Fp8E5M2, uint8_t,
     code == 0x80u ? 0x7FC00000u
                   : ((code & 0x80u) << 24 | ((code & 0x7Fu) < 4 ? as_bits(static_cast<float>(code & 0x7F) * 0x1p-17f)
                                                                 : ((code & 0x7Fu) << 21) + (111u << 23))))
STORE(Fp32, uint32_t, (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : bits)
STORE(Word, uint32_t, bits)
STORE(BoolSen169, uint16_t, as_float(bits) != 0.0f ? 0x3E00u : 0u)
STORE(BoolSen169FromInt, uint16_t, bits != 0 ? 0x3E00u : 0u)
STORE(Int16, uint16_t, bits)
STORE(Int8, uint8_t, bits)
STORE(UInt8Word, uint32_t, bits & 0xFFu)

#include "kernels/vector_folds.inl"
#include "kernels/vector_phrases.inl"
#include "kernels/vector_random.inl"

#define VECTOR_KERNEL(op) constexpr MapKernel op##_kernel = map_vectors<op##Vector>;
VECTOR_KERNEL(Add)
VECTOR_KERNEL(Sub)
VECTOR_KERNEL(Mul)
VECTOR_KERNEL(Div)
VECTOR_KERNEL(Neg)
VECTOR_KERNEL(Min)
VECTOR_KERNEL(Max)
VECTOR_KERNEL(Exp)
VECTOR_KERNEL(Tanh)
VECTOR_KERNEL(Erf)
VECTOR_KERNEL(Erfc)
VECTOR_KERNEL(Sigmoid)
VECTOR_KERNEL(RoundSen169)
#undef VECTOR_KERNEL
constexpr MapKernel Philox_kernel = nullptr;

// clang-format off
constexpr VectorKernels kKernels = {
#define KERNEL_OF(op) op##_kernel,
    {OPENSPYRE_EACH_OP(KERNEL_OF)},
#undef KERNEL_OF
    philox_kernel,
    look_up,
    kUnitLanes,
    find_phrase,
    {load_Sen169, load_Word, load_Word, load_BoolSen169, nullptr, load_Int16, load_Int8, load_UInt8Word, load_Fp8E4M3, load_Fp8E5M2},
    {store_Sen169, store_Fp32, store_Word, store_BoolSen169, store_BoolSen169FromInt, store_Int16, store_Int8, store_UInt8Word, nullptr, nullptr},
#define FOLD_ROWS(sum, Format)                                                                                  \
  {sum,                         fold_rows<MulVector, Format>,  fold_rows<MaxVector, Format>,  fold_rows<MinVector, Format>,  \
   fold_rows<AddIVector, Format>, fold_rows<MulIVector, Format>, fold_rows<MaxIVector, Format>, fold_rows<MinIVector, Format>, \
   fold_rows<AndVector, Format>,  fold_rows<OrVector, Format>}
    FOLD_ROWS((fold_rows<AddVector, WordRows>), WordRows), FOLD_ROWS(sum_sen169_rows, Sen169Rows),
    {fold_lanes<AddVector>, fold_lanes<MulVector>, fold_lanes<MaxVector>, fold_lanes<MinVector>, fold_lanes<AddIVector>, fold_lanes<MulIVector>,
     fold_lanes<MaxIVector>, fold_lanes<MinIVector>, fold_lanes<AndVector>, fold_lanes<OrVector>},
    arg_kernel<FloatMax>, arg_kernel<FloatMin>, arg_kernel<IntMax>, arg_kernel<IntMin>};
// clang-format on

}  // namespace

extern const VectorKernels& ISA_NAME;
const VectorKernels& ISA_NAME = kKernels;

}  // namespace openspyre
