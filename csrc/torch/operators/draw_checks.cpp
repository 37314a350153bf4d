#include "operators/draw_checks.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/all.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/eq.h>

#include <limits>
#include <map>

namespace torch_spyre {
namespace {

double real(const torch::jit::Stack& stack, size_t place) { return stack[place].toScalar().toDouble(); }

void normal(const torch::jit::Stack& stack, size_t first) {
  const double deviation = real(stack, first + 2);
  TORCH_CHECK(deviation >= 0.0, "normal expects std >= 0.0, but found std ", deviation);
}
void uniform(const torch::jit::Stack& stack, size_t first) {
  const c10::ScalarType type = c10::toRealValueType(stack[first].toTensor().scalar_type());  // of complex, both parts
  const double from = real(stack, first + 1), to = real(stack, first + 2);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "check_uniform_bounds", [&] {
    const auto low = static_cast<double>(std::numeric_limits<scalar_t>::lowest());
    const auto high = static_cast<double>(std::numeric_limits<scalar_t>::max());
    TORCH_CHECK(low <= from && from <= high, "from is out of bounds for ", type);
    TORCH_CHECK(low <= to && to <= high, "to is out of bounds for ", type);
    TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
    TORCH_CHECK(to - from <= high, "uniform_ expects to-from <= std::numeric_limits<", type,
                ">::max(), but found to=", to, " and from=", from, " which result in to-from to exceed the limit");
  });
}
void log_normal(const torch::jit::Stack& stack, size_t first) {
  const double deviation = real(stack, first + 2);
  TORCH_CHECK(deviation > 0.0, "log_normal_ expects std > 0.0, but found std=", deviation);
}
void cauchy(const torch::jit::Stack& stack, size_t first) {
  const double scale = real(stack, first + 2);
  TORCH_CHECK(scale > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", scale);
}
void exponential(const torch::jit::Stack& stack, size_t first) {
  const double rate = real(stack, first + 1);
  TORCH_CHECK(rate > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", rate);
}
void geometric(const torch::jit::Stack& stack, size_t first) {
  const double p = real(stack, first + 1);
  TORCH_CHECK(0.0 < p && p < 1.0, "geometric_ expects p to be in (0, 1), but got p=", p);
}
void bernoulli(const torch::jit::Stack& stack, size_t first) {
  const double p = real(stack, first + 1);
  TORCH_CHECK(0.0 <= p && p <= 1.0, "bernoulli_ expects p to be in [0, 1], but got p=", p);
}
// Looked at when the stream comes to them; NaN is no probability either.
void probabilities(const at::Tensor& p) {
  at::_assert_async(at::all(at::eq(at::clamp(p, 0, 1), p)),
                    "bernoulli expects all probabilities to be in [0, 1]; clamp them, or look for NaN");
}
void bernoulli_of(const torch::jit::Stack& stack, size_t first) { probabilities(stack[first].toTensor()); }
void bernoulli_by(const torch::jit::Stack& stack, size_t first) { probabilities(stack[first + 1].toTensor()); }
void dropout(const torch::jit::Stack& stack, size_t first) {
  const double p = real(stack, first + 1);
  TORCH_CHECK(0.0 <= p && p <= 1.0, "dropout probability has to be between 0 and 1, but got ", p);
}

void integers(const at::Tensor& target, int64_t from, int64_t to) {
  TORCH_CHECK(from < to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", to);
  if (!at::isIntegralType(target.scalar_type(), /*includeBool=*/false)) return;
  AT_DISPATCH_INTEGRAL_TYPES(target.scalar_type(), "random_", [&] {
    constexpr int64_t low = std::numeric_limits<scalar_t>::min(), high = std::numeric_limits<scalar_t>::max();
    TORCH_CHECK(low <= from && from <= high, "from is out of bounds for ", target.dtype());
    TORCH_CHECK(low <= to - 1 && to - 1 <= high, "to - 1 is out of bounds for ", target.dtype());
  });
}
void integers_from(const torch::jit::Stack& stack, size_t first) {
  if (stack[first + 2].isNone()) return;
  integers(stack[first].toTensor(), stack[first + 1].toInt(), stack[first + 2].toInt());
}
void integers_to(const torch::jit::Stack& stack, size_t first) {
  integers(stack[first].toTensor(), 0, stack[first + 1].toInt());
}

}  // namespace

DrawCheck draw_check(const std::string& op) {
  static const std::map<std::string, DrawCheck> checks = {
      {"normal_", normal},
      {"uniform_", uniform},
      {"uniform", uniform},
      {"log_normal_", log_normal},
      {"cauchy_", cauchy},
      {"exponential_", exponential},
      {"geometric_", geometric},
      {"bernoulli_.float", bernoulli},
      {"bernoulli.p", bernoulli},
      {"bernoulli", bernoulli_of},
      {"bernoulli.out", bernoulli_of},
      {"bernoulli_.Tensor", bernoulli_by},
      {"native_dropout", dropout},
      {"random_.from", integers_from},
      {"random_.to", integers_to},
  };
  const auto found = checks.find(op);
  return found == checks.end() ? nullptr : found->second;
}

}  // namespace torch_spyre
