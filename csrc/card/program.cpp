// The opcodes of vector code, one row each, and what a program says about itself.
#include "program.h"

#include <algorithm>

#include "step_runner.h"

namespace openspyre {
namespace {

struct OpRow {
  Op op;
  const char* name;
  const char* signature;
};

constexpr OpRow kOps[] = {
    {Op::Add, "add", "ff>f"},
    {Op::Sub, "sub", "ff>f"},
    {Op::Mul, "mul", "ff>f"},
    {Op::Div, "div", "ff>f"},
    {Op::Fma, "fma", "fff>f"},
    {Op::Sqrt, "sqrt", "f>f"},
    {Op::Neg, "neg", "f>f"},
    {Op::Abs, "abs", "f>f"},
    {Op::Min, "min", "ff>f"},
    {Op::Max, "max", "ff>f"},
    {Op::Floor, "floor", "f>f"},
    {Op::Ceil, "ceil", "f>f"},
    {Op::Round, "round", "f>f"},
    {Op::Trunc, "trunc", "f>f"},
    {Op::Rsqrt, "rsqrt", "f>f"},
    {Op::Reciprocal, "reciprocal", "f>f"},
    {Op::Exp, "exp", "f>f"},
    {Op::Exp2, "exp2", "f>f"},
    {Op::Expm1, "expm1", "f>f"},
    {Op::Log, "log", "f>f"},
    {Op::Log2, "log2", "f>f"},
    {Op::Log10, "log10", "f>f"},
    {Op::Log1p, "log1p", "f>f"},
    {Op::Sin, "sin", "f>f"},
    {Op::Cos, "cos", "f>f"},
    {Op::Tan, "tan", "f>f"},
    {Op::Tanh, "tanh", "f>f"},
    {Op::Sinh, "sinh", "f>f"},
    {Op::Cosh, "cosh", "f>f"},
    {Op::Asin, "asin", "f>f"},
    {Op::Acos, "acos", "f>f"},
    {Op::Atan, "atan", "f>f"},
    {Op::Atan2, "atan2", "ff>f"},
    {Op::Erf, "erf", "f>f"},
    {Op::Erfc, "erfc", "f>f"},
    {Op::Sigmoid, "sigmoid", "f>f"},
    {Op::Pow, "pow", "ff>f"},
    {Op::Fmod, "fmod", "ff>f"},
    {Op::LtF, "lt_f", "ff>i"},
    {Op::LeF, "le_f", "ff>i"},
    {Op::EqF, "eq_f", "ff>i"},
    {Op::NeF, "ne_f", "ff>i"},
    {Op::LtI, "lt_i", "ii>i"},
    {Op::LeI, "le_i", "ii>i"},
    {Op::EqI, "eq_i", "ii>i"},
    {Op::NeI, "ne_i", "ii>i"},
    {Op::IsNan, "is_nan", "f>i"},
    {Op::IsInf, "is_inf", "f>i"},
    {Op::SignBit, "sign_bit", "f>i"},
    {Op::Select, "select", "i**>*"},
    {Op::AddI, "add_i", "ii>i"},
    {Op::SubI, "sub_i", "ii>i"},
    {Op::MulI, "mul_i", "ii>i"},
    {Op::DivI, "div_i", "ii>i"},
    {Op::ModI, "mod_i", "ii>i"},
    {Op::TDivI, "tdiv_i", "ii>i"},
    {Op::TModI, "tmod_i", "ii>i"},
    {Op::NegI, "neg_i", "i>i"},
    {Op::AbsI, "abs_i", "i>i"},
    {Op::MinI, "min_i", "ii>i"},
    {Op::MaxI, "max_i", "ii>i"},
    {Op::And, "and", "ii>i"},
    {Op::Or, "or", "ii>i"},
    {Op::Xor, "xor", "ii>i"},
    {Op::Not, "not", "i>i"},
    {Op::Shl, "shl", "ii>i"},
    {Op::Shr, "shr", "ii>i"},
    {Op::MulHigh, "mul_high", "ii>i"},
    {Op::FloatToInt, "float_to_int", "f>i"},
    {Op::IntToFloat, "int_to_float", "i>f"},
    {Op::FloatToBool, "float_to_bool", "f>i"},
    {Op::IntToBool, "int_to_bool", "i>i"},
    {Op::BoolToFloat, "bool_to_float", "i>f"},
    {Op::RoundSen169, "round_sen169", "f>f"},
    {Op::Philox, "philox", "iiiii>i"},
    {Op::Normal, "normal", "i>f"},
    {Op::Copy, "copy", "*>*"},
};

constexpr bool rows_in_order() {
  for (size_t i = 0; i < std::size(kOps); ++i)
    if (static_cast<size_t>(kOps[i].op) != i) return false;
  return std::size(kOps) == kOpCount;
}
static_assert(rows_in_order(), "one row per opcode, in the order of the enumeration");

const OpRow& row(Op op) {
  if (static_cast<int>(op) >= kOpCount)
    fail(Fault::InvalidArgument, "there is no opcode " + std::to_string(static_cast<int>(op)));
  return kOps[static_cast<size_t>(op)];
}

}  // namespace

const char* name(Op op) { return row(op).name; }
const char* signature(Op op) { return row(op).signature; }

int arity(Op op) {
  int operands = 0;
  for (const char* type = row(op).signature; *type != '>'; ++type) ++operands;
  return operands;
}

int Program::cores() const {
  int most = 1;
  for (const Step& step : steps) most = std::max(most, core_count(step));
  return most;
}

}  // namespace openspyre
