// isin: by comparing each with each where that is little work, else by searching the sorted tests. torch's kernel for
// large tests finds the distinct elements first, which only the host can count.
#include <ATen/ATen.h>
#include <ATen/ops/isin_meta_dispatch.h>
#include <torch/library.h>

namespace torch_spyre {
namespace {

using at::Scalar;
using at::Tensor;

constexpr int64_t kFewTests = 16;
constexpr int64_t kFewComparisons = int64_t{1} << 20;

Tensor meta_of(const Tensor& tensor) { return at::empty(tensor.sizes(), tensor.options().device(c10::kMeta)); }

Tensor compared(const Tensor& elements, const Tensor& tests) {
  if (tests.numel() == 1 && elements.dim() > 0) return at::eq(elements, tests.reshape({1}));
  return at::any(at::eq(elements.unsqueeze(-1), tests.flatten()), -1);
}

Tensor searched(const Tensor& elements, const Tensor& tests) {
  const c10::ScalarType type = at::result_type(elements.unsqueeze(-1), tests.flatten());
  const Tensor wanted = elements.to(type).flatten();
  const Tensor sorted = std::get<0>(at::sort(tests.to(type).flatten()));
  const Tensor place = at::searchsorted(sorted, wanted).clamp_max(sorted.numel() - 1);
  return at::eq(sorted.gather(0, place), wanted).view(elements.sizes());
}

Tensor isin(const Tensor& elements, const Tensor& tests, bool assume_unique, bool invert) {
  at::meta::isin(meta_of(elements), meta_of(tests), assume_unique, invert);  // torch's errors
  TORCH_CHECK(elements.device() == tests.device(),
              "aten::isin: Expected all tensors to be on the same device, but found at least two devices, ",
              elements.device(), " and ", tests.device(), "!");
  if (elements.numel() == 0 || tests.numel() == 0)
    return at::full_like(elements, invert, elements.options().dtype(at::kBool));
  const bool few = tests.numel() <= kFewTests || elements.numel() * tests.numel() <= kFewComparisons;
  const Tensor found = few ? compared(elements, tests) : searched(elements, tests);
  return invert ? found.logical_not() : found;
}

Tensor isin_number(const Tensor& elements, const Scalar& test, bool assume_unique, bool invert) {
  at::meta::isin(meta_of(elements), test, assume_unique, invert);
  return invert ? at::ne(elements, test) : at::eq(elements, test);
}

Tensor number_isin(const Scalar& element, const Tensor& tests, bool assume_unique, bool invert) {
  at::meta::isin(element, meta_of(tests), assume_unique, invert);
  if (tests.numel() == 0) return at::full({}, invert, tests.options().dtype(at::kBool));
  const Tensor found = at::any(at::eq(tests, element));
  return invert ? found.logical_not() : found;
}

template <auto compute, typename Elements, typename Tests>
Tensor& into(const Elements& elements, const Tests& tests, bool assume_unique, bool invert, Tensor& out) {
  const Tensor found = compute(elements, tests, assume_unique, invert);
  return out.resize_(found.sizes()).copy_(found);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("isin.Tensor_Tensor", TORCH_FN(isin));
  m.impl("isin.Tensor_Scalar", TORCH_FN(isin_number));
  m.impl("isin.Scalar_Tensor", TORCH_FN(number_isin));
  m.impl("isin.Tensor_Tensor_out", TORCH_FN((into<&isin, Tensor, Tensor>)));
  m.impl("isin.Tensor_Scalar_out", TORCH_FN((into<&isin_number, Tensor, Scalar>)));
  m.impl("isin.Scalar_Tensor_out", TORCH_FN((into<&number_isin, Scalar, Tensor>)));
}

}  // namespace torch_spyre
