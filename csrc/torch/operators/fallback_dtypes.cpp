#include "operators/fallback_dtypes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_copy_from_and_resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <map>
#include <string_view>

#include "device/runtime.h"

namespace torch_spyre {
namespace {

using c10::ScalarType;
using Wider = std::map<ScalarType, ScalarType>;  // dtype of an operand -> what the CPU gets instead

// The dtype that a kernel of the CPU says it lacks: the words are AT_DISPATCH's and the Fourier transforms'. Truth
// values are no narrow integers: what torch refuses for them on the CPU it refuses on every device.
std::optional<ScalarType> lacking_dtype(const c10::Error& error) {
  const std::string_view text = error.what_without_backtrace();
  for (const std::string_view words : {"not implemented for '", "support tensors of type: ", "Unsupported dtype "}) {
    const size_t found = text.find(words);
    if (found == std::string_view::npos) continue;
    const std::string_view rest = text.substr(found + words.size());
    const std::string_view name = rest.substr(0, rest.find_first_of("'\n "));
    for (const ScalarType type : {ScalarType::Half, ScalarType::BFloat16, ScalarType::ComplexHalf, ScalarType::Byte,
                                  ScalarType::Char, ScalarType::Short, ScalarType::Int, ScalarType::Long})
      if (name == c10::toString(type)) return type;
  }
  return std::nullopt;
}

ScalarType next_wider(ScalarType type) {
  if (c10::isComplexType(type)) return ScalarType::ComplexFloat;
  if (c10::isFloatingType(type)) return ScalarType::Float;
  return type == ScalarType::Long ? ScalarType::Double : ScalarType::Long;
}

void widen(Wider& wider, ScalarType lacking) {
  wider[lacking] = next_wider(lacking);
  if (lacking == ScalarType::Half) wider[ScalarType::ComplexHalf] = ScalarType::ComplexFloat;  // some name the parts
  for (auto& [type, instead] : wider)
    if (instead == lacking) instead = next_wider(lacking);
}

template <typename Change>
c10::IValue changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return value.toTensor().defined() ? change(value.toTensor()) : value.toTensor();
  if (value.isTensorList()) {
    c10::List<at::Tensor> all;
    for (const at::Tensor& tensor : value.toTensorList()) all.push_back(tensor.defined() ? change(tensor) : tensor);
    return all;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> all;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList())
      all.push_back(tensor && tensor->defined() ? std::optional(change(*tensor)) : tensor);
    return all;
  }
  return value;
}

c10::IValue on_host(const c10::IValue& value, const Wider& wider) {
  if (value.isDevice()) return c10::Device(c10::kCPU);
  return changed(value, [&](const at::Tensor& tensor) {
    const auto instead = wider.find(tensor.scalar_type());
    const at::Tensor host = tensor.to(c10::kCPU);
    return instead == wider.end() ? host : host.to(instead->second);
  });
}

// The dtypes torch gives the operator's results, asked of its kernels without data; nothing if it has none.
std::vector<ScalarType> result_dtypes(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  torch::jit::Stack stack;
  for (const c10::IValue& value : arguments) {
    stack.push_back(
        value.isDevice() ? c10::IValue(c10::Device(c10::kMeta)) : changed(value, [](const at::Tensor& tensor) {
          return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
        }));
  }
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  } catch (const std::exception&) {  // no such kernel, or one that must see the data: then a result is what was widened
    return {};
  }
  std::vector<ScalarType> types;
  for (const c10::IValue& value : stack)
    types.push_back(value.isTensor() && value.toTensor().defined() ? value.toTensor().scalar_type()
                                                                   : ScalarType::Undefined);
  return types;
}

at::Tensor on_card(const at::Tensor& host, c10::Device device, ScalarType type) {
  at::Tensor result = at::empty_strided(host.sizes(), host.strides(), host.options().dtype(type).device(device));
  // Floats are rounded once, by the copy; integers have no rounding and are converted as the host does.
  return result.copy_(c10::isFloatingType(type) ? host : host.to(type));
}

ScalarType narrowed(ScalarType type, const Wider& wider) {
  for (const auto& [own, instead] : wider)
    if (instead == type) return own;
  return type;
}

void write_back(const at::Tensor& host, const at::Tensor& target) {
  at::_copy_from_and_resize(c10::isFloatingType(target.scalar_type()) ? host : host.to(target.scalar_type()), target);
}

void write_back(const c10::IValue& host, const c10::IValue& target) {
  if (target.isTensor()) return write_back(host.toTensor(), target.toTensor());
  if (!target.isTensorList()) return;
  const c10::List<at::Tensor> hosts = host.toTensorList(), targets = target.toTensorList();
  for (size_t i = 0; i < targets.size(); ++i) write_back(hosts[i], targets[i]);
}

void run_wider(const c10::OperatorHandle& op, torch::jit::Stack& stack, const Wider& wider) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size();
  const torch::jit::Stack given(stack.end() - static_cast<int64_t>(count), stack.end());
  c10::Device device(kSpyre);
  torch::jit::Stack host;
  for (const c10::IValue& value : given) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().device().type() == kSpyre)
      device = value.toTensor().device();
    host.push_back(on_host(value, wider));
  }
  const torch::jit::Stack operands = host;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &host);

  const std::vector<ScalarType> types = result_dtypes(op, given);
  torch::jit::drop(stack, count);
  const auto written = [&](size_t i) {
    const auto* alias = schema.arguments()[i].alias_info();
    return alias && alias->isWrite();
  };
  for (size_t i = 0; i < count; ++i)
    if (written(i)) write_back(operands[i], given[i]);
  for (size_t r = 0; r < host.size(); ++r) {
    const auto* alias = schema.returns()[r].alias_info();
    size_t same = count;
    for (size_t i = 0; alias && i < count && same == count; ++i)
      if (written(i) && *schema.arguments()[i].alias_info() == *alias) same = i;
    if (same < count) {
      stack.push_back(given[same]);
      continue;
    }
    stack.push_back(changed(host[r], [&](const at::Tensor& result) {
      const bool known = r < types.size() && types[r] != ScalarType::Undefined;
      return on_card(result, device, known ? types[r] : narrowed(result.scalar_type(), wider));
    }));
  }
}

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack& stack, bool wide) {
  const torch::jit::Stack given = stack;
  Wider wider;
  if (wide) wider = {{ScalarType::Half, ScalarType::Float}, {ScalarType::BFloat16, ScalarType::Float}};
  std::exception_ptr first;
  while (true) {
    try {
      if (wider.empty()) return at::native::cpu_fallback(op, &stack, /*error_on_views=*/true);
      return run_wider(op, stack, wider);
    } catch (const c10::Error& error) {
      if (!first) first = std::current_exception();
      const std::optional<ScalarType> lacking = lacking_dtype(error);
      if (!lacking || wider.contains(*lacking)) std::rethrow_exception(first);
      widen(wider, *lacking);
      stack = given;
    }
  }
}

}  // namespace torch_spyre
