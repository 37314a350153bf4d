// The opcodes that hot loops are made of, on vectors of lanes: alone, fused with each other, and as folds.
#pragma once

#include "kernels/exp_vectors.h"
#include "kernels/lane_vectors.h"
#include "kernels/vector_kernels.h"

namespace openspyre {
namespace {

#define VECTOR_OP(op_name, LaneType, expression)                                                                \
  struct op_name##Vector {                                                                                      \
    using Lanes = LaneType;                                                                                     \
    LANE static LaneType apply([[maybe_unused]] LaneType a, [[maybe_unused]] LaneType b) { return expression; } \
  };
VECTOR_OP(Add, Floats, a + b)
VECTOR_OP(Sub, Floats, a - b)
VECTOR_OP(SubFrom, Floats, b - a)
VECTOR_OP(Mul, Floats, a* b)
VECTOR_OP(Square, Floats, a* a)
VECTOR_OP(Div, Floats, a / b)
VECTOR_OP(DivInto, Floats, b / a)
VECTOR_OP(Neg, Floats, (Floats)((Ints)a ^ INT32_MIN))
VECTOR_OP(Max, Floats, or_nan_of(greater_or_second(a, b), a))
VECTOR_OP(Min, Floats, or_nan_of(lesser_or_second(a, b), a))
VECTOR_OP(Exp, Floats, exp_of(a))
VECTOR_OP(Sigmoid, Floats, sigmoid_of(a))
VECTOR_OP(Tanh, Floats, tanh_of(a))
VECTOR_OP(Erf, Floats, erf_of(a))
VECTOR_OP(Erfc, Floats, erfc_of(a))
VECTOR_OP(RoundSen169, Floats, rounded_to_sen169(a))
VECTOR_OP(RoundForExp, Floats, rounded_for_exp(a))
VECTOR_OP(SigmoidFraction, Floats, sigmoid_fraction(a))
VECTOR_OP(RoundFraction, Floats, fraction_to_sen169(a))
VECTOR_OP(AddI, Words, a + b)
VECTOR_OP(MulI, Words, a* b)
VECTOR_OP(MaxI, Ints, a > b ? a : b)
VECTOR_OP(MinI, Ints, a < b ? a : b)
VECTOR_OP(And, Words, a& b)
VECTOR_OP(Or, Words, a | b)
#undef VECTOR_OP

template <typename Function>
void map_vectors(Lane* target, const Lane* a, const Lane* b, const Lane*, int64_t n) {
  using Vector = typename Function::Lanes;
  for (int64_t i = 0; i < n; i += kVectorLanes)
    store_vector(target + i, Function::apply(load_vector<Vector>(a + i), load_vector<Vector>(b + i)));
}

}  // namespace
}  // namespace openspyre
