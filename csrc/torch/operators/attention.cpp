// Which way torch takes for scaled_dot_product_attention on the card: one program of its own where no gradient is asked
// for, torch's composition of matrix products and softmax otherwise.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>

#include <algorithm>

namespace at::native {
namespace {

bool is_plain(const Tensor& tensor) {
  const ScalarType dtype = tensor.scalar_type();
  const bool known = dtype == kHalf || dtype == kBFloat16 || dtype == kFloat;
  return known && !tensor.is_nested() && tensor.sym_numel() > 0 && (tensor.dim() == 3 || tensor.dim() == 4);
}

bool same_batch(const Tensor& a, const Tensor& b, bool grouped) {
  for (int64_t dim = 0; dim < a.dim() - (grouped ? 3 : 2); ++dim)
    if (a.sym_size(dim) != b.sym_size(dim)) return false;
  return true;
}

int64_t choose_attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                         double dropout, bool is_causal, std::optional<double>, bool enable_gqa) {
  const bool masked = mask.has_value() && mask->defined();
  const Tensor* operands[] = {&query, &key, &value};
  const bool learns = GradMode::is_enabled() && (query.requires_grad() || key.requires_grad() ||
                                                 value.requires_grad() || (masked && mask->requires_grad()));
  // Heads may share keys and values only where the caller says so; other broadcasts are left to torch.
  const bool grouped = enable_gqa && query.dim() == 4 && key.dim() == 4 && key.sym_size(1) > 0 &&
                       query.sym_size(1) % key.sym_size(1) == 0;
  const bool plain = std::all_of(std::begin(operands), std::end(operands), [](auto* t) { return is_plain(*t); }) &&
                     query.dim() == key.dim() && query.dim() == value.dim() && same_batch(query, key, grouped) &&
                     same_batch(key, value, false) && (!masked || (mask->device() == query.device() && !is_causal));
  const bool ours = globalContext().userEnabledOverrideableSDP() && plain && !learns && dropout == 0.0;
  return static_cast<int64_t>(ours ? SDPBackend::overrideable : SDPBackend::math);
}

}  // namespace

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)

}  // namespace at::native
