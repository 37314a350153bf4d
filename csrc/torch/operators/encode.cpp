#include <bit>
#include <cmath>
#include <limits>

#include "operators/launch.h"

namespace torch_spyre {
namespace {

using Encoding = ScalarPlan::Encoding;
using Rule = ScalarPlan::Rule;

struct Range {
  const char* name;
  int64_t low, high;
};

// Of the dtype a number is used in. int64 lives in the card's int32 (N8).
Range range_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::Int8:
      return {"int8", -128, 127};
    case Encoding::UInt8:
      return {"uint8", 0, 255};
    case Encoding::Int16:
      return {"int16", -32768, 32767};
    case Encoding::Int32:
      return {"int32", -2147483648LL, 2147483647};
    default:
      return {"the card's int32", -2147483648LL, 2147483647};
  }
}

// N8: a number from the host that no element can hold is an error, as in torch; so are infinities and NaN.
[[noreturn]] void refuse(const std::string& number, const Range& range) {
  openspyre::fail(openspyre::Fault::ValueOutOfRange,
                  "the number " + number + " does not fit " + range.name + " (" + std::to_string(range.low) + " to " +
                      std::to_string(range.high) + "); move the tensor with .cpu() to use it");
}

// Only what is cut to narrower integers may be outside: the fraction goes first.
int64_t whole_of(double number, Encoding encoding, Rule rule) {
  const Range range = range_of(rule == Rule::Checked ? encoding : Encoding::Int64);
  const double kept = rule == Rule::Checked && encoding != Encoding::Int64 ? number : std::trunc(number);
  if (!(kept >= static_cast<double>(range.low) && kept <= static_cast<double>(range.high)))
    refuse(std::to_string(number), range);
  return static_cast<int64_t>(number);
}

int64_t checked(int64_t number, Encoding encoding, Rule rule) {
  if (rule == Rule::Ends) number = ends_of_int32(number);
  const Range range = range_of(encoding);
  // torch takes -x for an unsigned number where it takes x
  const int64_t low = encoding == Encoding::UInt8 ? -range.high : range.low;
  if ((rule == Rule::Checked || encoding == Encoding::Int64) && (number < low || number > range.high))
    refuse(std::to_string(number), range);
  return number;
}

// Python's integers from 2^63 on.
bool is_beyond_int64(const c10::Scalar& number) {
  return number.type() == c10::ScalarType::UInt64 && number.toUInt64() >> 63 != 0;
}

int64_t beyond_int64(uint64_t number, Encoding encoding, Rule rule) {
  if (rule == Rule::Checked || encoding == Encoding::Int64) refuse(std::to_string(number), range_of(encoding));
  return static_cast<int64_t>(number);
}

int32_t cut(int64_t number, Encoding encoding) {
  switch (encoding) {
    case Encoding::Int8:
      return static_cast<int8_t>(number);
    case Encoding::UInt8:
      return static_cast<uint8_t>(number);
    case Encoding::Int16:
      return static_cast<int16_t>(number);
    default:
      return static_cast<int32_t>(number);
  }
}

uint32_t integer_word(const c10::Scalar& number, Encoding encoding, Rule rule) {
  const int64_t whole = number.isFloatingPoint()  ? whole_of(number.toDouble(), encoding, rule)
                        : is_beyond_int64(number) ? beyond_int64(number.toUInt64(), encoding, rule)
                                                  : checked(number.toLong(), encoding, rule);
  const int32_t word = cut(whole, encoding);
  TORCH_CHECK(rule != Rule::Divisor || word != 0, "ZeroDivisionError");  // torch's own word
  return static_cast<uint32_t>(word);
}

}  // namespace

uint32_t encode(const c10::Scalar& number, const ScalarPlan& plan) {
  switch (plan.encoding) {
    case Encoding::Float:
      return std::bit_cast<uint32_t>(
          static_cast<float>(number.toDouble()));  // beyond float32: infinity, as torch has it
    case Encoding::Sen169:                         // on the format's grid
      return std::bit_cast<uint32_t>(
          openspyre::sen169_to_float(openspyre::sen169_from_float(static_cast<float>(number.toDouble()))));
    case Encoding::IntBelow:
      return static_cast<uint32_t>(number.isFloatingPoint()
                                       ? whole_of(std::trunc(number.toDouble()) - 1, Encoding::Int64, Rule::Cut)
                                       : checked(number.toLong() - 1, Encoding::Int64, Rule::Cut));
    case Encoding::Int8:
    case Encoding::UInt8:
    case Encoding::Int16:
    case Encoding::Int32:
    case Encoding::Int64:
      return integer_word(number, plan.encoding, plan.rule);
    default:  // drawn: see LaunchDraws
      break;
  }
  return 0;
}

}  // namespace torch_spyre
