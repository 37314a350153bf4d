// Operators that torch puts together of others, and whose own lines refuse 16-bit floats before a kernel is asked: fft
// wants CUDA for them, ctc_loss makes a tensor of lengths that the host cannot make. They take float32 instead.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/to.h>
#include <torch/library.h>

namespace torch_spyre {
namespace {

using c10::ScalarType;

at::Tensor narrowed(const at::Tensor& result, ScalarType type) {
  if (result.scalar_type() == ScalarType::Float) return result.to(type);
  if (result.scalar_type() == ScalarType::ComplexFloat) return result.to(c10::toComplexType(type));
  return result;
}

void run_in_float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::optional<ScalarType> narrow;
  const size_t first = stack->size() - op.schema().arguments().size();
  for (size_t i = first; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const ScalarType type = value.toTensor().scalar_type();
    if (type != ScalarType::Half && type != ScalarType::BFloat16) continue;
    narrow = type;
    value = value.toTensor().to(ScalarType::Float);
  }
  // torch's own lines stand in the table of every device that has none of its own: the CPU's will do.
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (size_t i = stack->size() - op.schema().returns().size(); narrow && i < stack->size(); ++i)
    (*stack)[i] = narrowed((*stack)[i].toTensor(), *narrow);
}

void register_all(torch::Library& m) {
  for (const char* name :
       {"fft_fft",   "fft_ifft",   "fft_rfft",   "fft_irfft",  "fft_hfft",         "fft_ihfft",      "fft_fft2",
        "fft_ifft2", "fft_rfft2",  "fft_irfft2", "fft_hfft2",  "fft_ihfft2",       "fft_fftn",       "fft_ifftn",
        "fft_rfftn", "fft_irfftn", "fft_hfftn",  "fft_ihfftn", "ctc_loss.IntList", "ctc_loss.Tensor"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_in_float32>());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { register_all(m); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { register_all(m); }

}  // namespace torch_spyre
