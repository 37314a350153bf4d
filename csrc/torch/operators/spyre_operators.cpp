// torch.ops.spyre.*: the documented operators of the device, composed of aten's. torch.compile traces them as what they
// are composed of, and gradients are those of the parts.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace torch_spyre {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor softplus(const Tensor& x, double beta, double threshold) { return at::softplus(x, beta, threshold); }
Tensor gelu(const Tensor& x, c10::string_view approximate) { return at::gelu(x, approximate); }
Tensor silu(const Tensor& x) { return at::silu(x); }
Tensor logical_not(const Tensor& x) { return at::logical_not(x); }

Tensor clamp(const Tensor& x, const std::optional<at::Scalar>& min, const std::optional<at::Scalar>& max) {
  return at::clamp(x, min, max);
}

Tensor layer_norm(const Tensor& x, at::IntArrayRef shape, const MaybeTensor& weight, const MaybeTensor& bias,
                  double eps) {
  return at::layer_norm(x, shape, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, at::IntArrayRef shape, const MaybeTensor& weight, std::optional<double> eps) {
  return at::rms_norm(x, shape, weight, eps);
}

// --- a layer norm in hardware's three steps; statistics are fp32 (contract N4) ---------------------------------------

// [..., 2]: scale * sum(x), or 0 with a mean of zero, and scale * sum(x * x), along the last dim.
Tensor exx2(const Tensor& x, double scale, bool zero_mean) {
  const Tensor wide = x.to(at::kFloat);
  const Tensor square = wide.square().sum(-1) * scale;
  const Tensor mean = zero_mean ? at::zeros_like(square) : wide.sum(-1) * scale;
  return at::stack({mean, square}, -1);
}

// [..., 1]: 1 / sqrt(E[x^2] - E[x]^2 + eps) from what exx2 returns.
Tensor layernormscale(const Tensor& statistics, double eps) {
  const Tensor mean = statistics.narrow(-1, 0, 1), square = statistics.narrow(-1, 1, 1);
  return at::rsqrt(square - mean.square() + eps);
}

Tensor layernormnorm(const Tensor& x, const Tensor& statistics, const Tensor& scale, const MaybeTensor& weight,
                     const MaybeTensor& bias) {
  Tensor result = (x - statistics.narrow(-1, 0, 1)) * scale;
  if (weight) result = result * *weight;
  if (bias) result = result + *bias;
  return result.to(x.scalar_type());
}

// --- choices ---------------------------------------------------------------------------------------------------------

Tensor topkvalue(const Tensor& x, int64_t k, int64_t dim, bool largest) {
  return std::get<0>(at::topk(x, k, dim, largest));
}
Tensor topkindex(const Tensor& x, int64_t k, int64_t dim, bool largest) {
  return std::get<1>(at::topk(x, k, dim, largest));
}
std::tuple<Tensor, Tensor> max_dim(const Tensor& x, int64_t dim, bool keepdim) { return at::max(x, dim, keepdim); }
std::tuple<Tensor, Tensor> min_dim(const Tensor& x, int64_t dim, bool keepdim) { return at::min(x, dim, keepdim); }

// --- movement --------------------------------------------------------------------------------------------------------

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Device> device) {
  return at::empty(size, at::TensorOptions(dtype.value_or(at::kHalf)).device(device.value_or(at::kPrivateUse1)));
}

Tensor constant(const at::Scalar& value, std::optional<at::ScalarType> dtype, std::optional<at::Device> device) {
  return at::full({}, value, at::TensorOptions(dtype.value_or(at::kHalf)).device(device.value_or(at::kPrivateUse1)));
}

void copy_from_d2d(const Tensor& source, const Tensor& target) { target.copy_(source); }

Tensor box_of(const Tensor& whole, const Tensor& part, at::IntArrayRef dims, at::IntArrayRef offsets) {
  TORCH_CHECK_VALUE(dims.size() == offsets.size(), "spyre::overwrite: ", dims.size(), " dims but ", offsets.size(),
                    " offsets; each dim needs one");
  Tensor box = whole;
  for (size_t i = 0; i < dims.size(); ++i) box = box.narrow(dims[i], offsets[i], part.size(dims[i]));
  return box;
}

void overwrite(const Tensor& input, const Tensor& output, at::IntArrayRef dims, at::IntArrayRef offsets) {
  box_of(output, input, dims, offsets).copy_(input);
}

Tensor overwrite_f(const Tensor& input, const Tensor& output, at::IntArrayRef dims, at::IntArrayRef offsets) {
  Tensor result = output.clone();
  box_of(result, input, dims, offsets).copy_(input);
  return result;
}

Tensor restickify(const Tensor& x) { return x.clone(at::MemoryFormat::Contiguous); }
Tensor batched_matmul(const Tensor& x, const Tensor& y) { return at::matmul(x, y); }

// --- what the documents send over the host; here it stays on the card where it can -----------------------------------

Tensor unfold(const Tensor& x, at::IntArrayRef kernel_size, at::IntArrayRef dilation, at::IntArrayRef padding,
              at::IntArrayRef stride) {
  return at::im2col(x, kernel_size, dilation, padding, stride);
}
Tensor reshape_via_cpu(const Tensor& x, at::IntArrayRef size) { return x.reshape(size).clone(); }
Tensor to_dtype_cpu(const Tensor& x, at::ScalarType dtype) { return x.to(dtype); }

// --- 8-bit floats ----------------------------------------------------------------------------------------------------

constexpr double kLargestFp8 = 448.0;

Tensor qfp8ch(const Tensor& x) { return x.to(at::kFloat8_e4m3fn); }
Tensor quantize_fp8_with_scale(const Tensor& x, const Tensor& scale) {
  return qfp8ch(at::clamp(x * at::reciprocal(scale), -kLargestFp8, kLargestFp8));
}
Tensor dequantize_fp8_with_scale(const Tensor& x, const Tensor& scale) { return x.to(at::kHalf) * scale; }

// Weights have the order of other tensors here: their arrangement in hardware's two-dimensional sticks is not kept.
Tensor qfp8wt(const Tensor& weight) { return qfp8ch(weight); }
Tensor quantize_weight_fp8_with_scale(const Tensor& weight, const Tensor& scale) {
  return quantize_fp8_with_scale(weight, scale);
}

// Every 8-bit number and every product of two is exact in fp32, so this is a contraction as any other (contract N5);
// scales and bias follow in fp32, and the result is rounded once.
Tensor scaled_mm(const Tensor& a, const Tensor& b, const MaybeTensor& scale_a, const MaybeTensor& scale_b,
                 const MaybeTensor& bias, std::optional<at::ScalarType> out_dtype) {
  Tensor result = at::matmul(a.to(at::kFloat), b.to(at::kFloat));
  if (scale_a) result = result * scale_a->to(at::kFloat);
  if (scale_b) result = result * scale_b->to(at::kFloat);
  if (bias) result = result + bias->to(at::kFloat);
  return result.to(out_dtype.value_or(at::kHalf));
}

}  // namespace

// Kernels given with the definition are CompositeImplicitAutograd.
TORCH_LIBRARY_FRAGMENT(spyre, m) {
  m.def("softplus(Tensor x, float beta=1., float threshold=20.) -> Tensor", &softplus);
  m.def("gelu(Tensor x, str approximate='none') -> Tensor", &gelu);
  m.def("silu(Tensor x) -> Tensor", &silu);
  m.def("clamp(Tensor x, Scalar? min=None, Scalar? max=None) -> Tensor", &clamp);
  m.def("logical_not(Tensor x) -> Tensor", &logical_not);
  m.def(
      "layer_norm(Tensor x, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
      &layer_norm);
  m.def("rms_norm(Tensor x, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", &rms_norm);
  m.def("exx2(Tensor x, float scale, bool useZeroMean=False) -> Tensor", &exx2);
  m.def("layernormscale(Tensor x, float eps=1e-05) -> Tensor", &layernormscale);
  m.def("layernormnorm(Tensor x, Tensor mean, Tensor norm_mean, Tensor? weight=None, Tensor? bias=None) -> Tensor",
        &layernormnorm);
  m.def("topkvalue(Tensor x, int k, int dim=-1, bool largest=True) -> Tensor", &topkvalue);
  m.def("topkindex(Tensor x, int k, int dim=-1, bool largest=True) -> Tensor", &topkindex);
  m.def("max_dim_int64_fallback(Tensor x, int dim, bool keepdim=False) -> (Tensor, Tensor)", &max_dim);
  m.def("min_dim_int64_fallback(Tensor x, int dim, bool keepdim=False) -> (Tensor, Tensor)", &min_dim);
  m.def("empty(int[] size, ScalarType? dtype=None, Device? device=None) -> Tensor", &empty);
  m.def("constant(Scalar value, ScalarType? dtype=None, Device? device=None) -> Tensor", &constant);
  m.def("copy_from_d2d(Tensor src, Tensor(a!) dst) -> ()", &copy_from_d2d);
  m.def("overwrite(Tensor input, Tensor(a!) output, int[] dims, int[] offsets) -> ()", &overwrite);
  m.def("overwrite_f(Tensor input, Tensor output, int[] dims, int[] offsets) -> Tensor", &overwrite_f);
  m.def("restickify(Tensor x) -> Tensor", &restickify);
  m.def("batched_matmul(Tensor x, Tensor y) -> Tensor", &batched_matmul);
  m.def("unfold(Tensor x, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor",
        &unfold);
  m.def("reshape_via_cpu(Tensor x, int[] size) -> Tensor", &reshape_via_cpu);
  m.def("to_dtype_cpu(Tensor x, ScalarType dtype) -> Tensor", &to_dtype_cpu);
  m.def("qfp8ch(Tensor x) -> Tensor", &qfp8ch);
  m.def("quantize_fp8_with_scale(Tensor x, Tensor scale) -> Tensor", &quantize_fp8_with_scale);
  m.def("dequantize_fp8_with_scale(Tensor x, Tensor scale) -> Tensor", &dequantize_fp8_with_scale);
  m.def("qfp8wt(Tensor weight) -> Tensor", &qfp8wt);
  m.def("quantize_weight_fp8_with_scale(Tensor weight, Tensor scale) -> Tensor", &quantize_weight_fp8_with_scale);
  m.def(
      "scaled_mm(Tensor a, Tensor b, Tensor? scale_a=None, Tensor? scale_b=None, Tensor? bias=None, "
      "ScalarType? out_dtype=None) -> Tensor",
      &scaled_mm);
}

}  // namespace torch_spyre
