// _assert_async: a value is looked at when the stream comes to it, and the next synchronisation raises the error.
#include <torch/library.h>

#include <string>

#include "device/record.h"

namespace torch_spyre {
namespace {

void assert_async_with(const at::Tensor& condition, c10::string_view message) {
  TORCH_CHECK(condition.numel() == 1, "Boolean value of Tensor with ", condition.numel(), " values is ambiguous");
  HeldBuffers held = hold_buffers();
  if (in_host_format(access_of(condition))) {  // a type that the card has no format for
    held.unlock();
    TORCH_CHECK(condition.item().toBool(), message);
    return;
  }
  if (openspyre::configuration().null) return;
  auto check = [from = device_view(condition), text = std::string(message)] {
    bool holds = false;
    const std::vector<int64_t> one(from.size.size(), 1);
    copy_out(from, openspyre::HostView{&holds, openspyre::DType::Bool, one, one});
    if (!holds) openspyre::fail(openspyre::Fault::ValueOutOfRange, text);
  };
  current_stream(condition.device().index()).submit("check of a condition", std::move(check));
}

void assert_async(const at::Tensor& condition) { assert_async_with(condition, "Expected Tensor with nonzero value"); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_assert_async", TORCH_FN(Translated<&assert_async>::call));
  m.impl("_assert_async.msg", TORCH_FN(Translated<&assert_async_with>::call));
}

}  // namespace torch_spyre
