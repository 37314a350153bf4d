// Generated from openspyre/program and openspyre/spec/ops by csrc/generate.py (`make generate`): do not edit.
// clang-format off
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/names.h"

namespace openspyre {

constexpr int kMaxLoops = 10;
constexpr int kMaxOperands = 8;
constexpr int kMaxRegisters = 32;
constexpr size_t kMaxSources = 5;
constexpr int64_t kLaneUnit = 32;
constexpr int64_t kChunkLanes = 1024;
constexpr uint8_t kRowScalar = 128;
constexpr int kMaxRowRegisters = 24;
constexpr int kMaxRowScalars = 16;
constexpr size_t kMaxStageConstants = 64;

enum class OperandKind : uint8_t {
  Vector,
  Splat,
  Iota,
  Scalar,
  Strided,
};
constexpr int kOperandKindCount = 5;
template <>
struct Names<OperandKind> {
  static constexpr const char* of[] = {
      "vector", "splat", "iota", "scalar", "strided"};
};

enum class Space : uint8_t {
  Memory,
  Scratchpad,
};
constexpr int kSpaceCount = 2;
template <>
struct Names<Space> {
  static constexpr const char* of[] = {
      "memory", "scratchpad"};
};

enum class StepKind : uint8_t {
  Map,
  Reduce,
  Rows,
  Contract,
  Relayout,
  Gather,
  Scatter,
  Scan,
  Sort,
};
constexpr int kStepKindCount = 9;
template <>
struct Names<StepKind> {
  static constexpr const char* of[] = {
      "Map", "Reduce", "Rows", "Contract", "Relayout", "Gather", "Scatter", "Scan", "Sort"};
};

enum class Combine : uint8_t {
  Sum,
  Prod,
  Max,
  Min,
  Any,
  All,
  ArgMax,
  ArgMin,
};
constexpr int kCombineCount = 8;
template <>
struct Names<Combine> {
  static constexpr const char* of[] = {
      "sum", "prod", "max", "min", "any", "all", "arg_max", "arg_min"};
};

enum class RegisterType : uint8_t {
  Float,
  Int,
  Any,
};
constexpr int kRegisterTypeCount = 3;
template <>
struct Names<RegisterType> {
  static constexpr const char* of[] = {
      "fp32", "int32", "any"};
};

enum class LaneType : uint8_t {
  Float,
  Int,
  Bool,
};
constexpr int kLaneTypeCount = 3;
template <>
struct Names<LaneType> {
  static constexpr const char* of[] = {
      "float", "int", "bool"};
};

constexpr RegisterType kRegisterOfLane[] = {RegisterType::Float, RegisterType::Int, RegisterType::Int};

enum class Op : uint8_t {
  Add,
  Sub,
  Mul,
  Div,
  Min,
  Max,
  Pow,
  Fmod,
  Atan2,
  Fma,
  Sqrt,
  Neg,
  Abs,
  Floor,
  Ceil,
  Round,
  Trunc,
  Rsqrt,
  Reciprocal,
  Exp,
  Exp2,
  Expm1,
  Log,
  Log2,
  Log10,
  Log1p,
  Sin,
  Cos,
  Tan,
  Tanh,
  Sinh,
  Cosh,
  Asin,
  Acos,
  Atan,
  Erf,
  Erfc,
  Sigmoid,
  RoundSen169,
  LtF,
  LeF,
  EqF,
  NeF,
  LtI,
  LeI,
  EqI,
  NeI,
  IsNan,
  IsInf,
  SignBit,
  AddI,
  SubI,
  MulI,
  DivI,
  ModI,
  TDivI,
  TModI,
  MinI,
  MaxI,
  And,
  Or,
  Xor,
  Shl,
  Shr,
  MulHigh,
  NegI,
  AbsI,
  Not,
  FloatToBool,
  FloatToInt,
  IntToFloat,
  IntToBool,
  BoolToFloat,
  Philox,
  Normal,
  Select,
  Copy,
};
constexpr int kOpCount = 77;
template <>
struct Names<Op> {
  static constexpr const char* of[] = {
      "add", "sub", "mul", "div", "min", "max", "pow", "fmod", "atan2", "fma", "sqrt", "neg", "abs", "floor",
      "ceil", "round", "trunc", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
      "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "erf", "erfc", "sigmoid", "round_sen169",
      "lt_f", "le_f", "eq_f", "ne_f", "lt_i", "le_i", "eq_i", "ne_i", "is_nan", "is_inf", "sign_bit", "add_i",
      "sub_i", "mul_i", "div_i", "mod_i", "tdiv_i", "tmod_i", "min_i", "max_i", "and", "or", "xor", "shl", "shr",
      "mul_high", "neg_i", "abs_i", "not", "float_to_bool", "float_to_int", "int_to_float", "int_to_bool",
      "bool_to_float", "philox", "normal", "select", "copy"};
};

// Register types of operands and result: f fp32, i int32, * any (all alike).
constexpr const char* kSignatures[] = {
      "ff>f", "ff>f", "ff>f", "ff>f", "ff>f", "ff>f", "ff>f", "ff>f", "ff>f", "fff>f", "f>f", "f>f", "f>f", "f>f",
      "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f",
      "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "f>f", "ff>i", "ff>i", "ff>i", "ff>i", "ii>i",
      "ii>i", "ii>i", "ii>i", "f>i", "f>i", "f>i", "ii>i", "ii>i", "ii>i", "ii>i", "ii>i", "ii>i", "ii>i", "ii>i",
      "ii>i", "ii>i", "ii>i", "ii>i", "ii>i", "ii>i", "ii>i", "i>i", "i>i", "i>i", "f>i", "f>i", "i>f", "i>i",
      "i>f", "iiiii>i", "i>f", "i**>*", "*>*"};

#define OPENSPYRE_EACH_OP(X) \
  X(Add) X(Sub) X(Mul) X(Div) X(Min) X(Max) X(Pow) X(Fmod) X(Atan2) X(Fma) X(Sqrt) X(Neg) X(Abs) X(Floor) X(Ceil) \
  X(Round) X(Trunc) X(Rsqrt) X(Reciprocal) X(Exp) X(Exp2) X(Expm1) X(Log) X(Log2) X(Log10) X(Log1p) X(Sin) X(Cos) \
  X(Tan) X(Tanh) X(Sinh) X(Cosh) X(Asin) X(Acos) X(Atan) X(Erf) X(Erfc) X(Sigmoid) X(RoundSen169) X(LtF) X(LeF) \
  X(EqF) X(NeF) X(LtI) X(LeI) X(EqI) X(NeI) X(IsNan) X(IsInf) X(SignBit) X(AddI) X(SubI) X(MulI) X(DivI) X(ModI) \
  X(TDivI) X(TModI) X(MinI) X(MaxI) X(And) X(Or) X(Xor) X(Shl) X(Shr) X(MulHigh) X(NegI) X(AbsI) X(Not) \
  X(FloatToBool) X(FloatToInt) X(IntToFloat) X(IntToBool) X(BoolToFloat) X(Philox) X(Normal) X(Select) X(Copy)

}  // namespace openspyre
