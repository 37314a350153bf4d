// Before Python ends, torch's autograd threads must be at rest. A thread that has answered a backward pass still drops
// the pass's objects; if Python is ending by then, asking for its lock ends the thread in the middle of a destructor,
// and the process aborts. A further pass without Python objects comes after all that, in the order of the thread.
#include "device/autograd_rest.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <atomic>

#include "device/runtime.h"

namespace torch_spyre {
namespace {

std::atomic<uint64_t> devices_of_threads{0};  // a bit per device that a thread other than the first has chosen

}  // namespace

void device_chosen(c10::DeviceIndex index) {
  if (index < 0 || index >= 64 || getpid() == gettid()) return;
  const uint64_t bit = 1ull << index;
  if (!(devices_of_threads.load(std::memory_order_relaxed) & bit)) devices_of_threads.fetch_or(bit);
}

void let_autograd_rest() {
  const uint64_t devices = devices_of_threads.load();
  for (c10::DeviceIndex index = 0; index < 64; ++index) {
    if (!(devices >> index & 1)) continue;
    const auto options = at::TensorOptions(at::kFloat).device(c10::Device(kSpyre, index));
    const at::Tensor leaf = at::empty({1}, options).requires_grad_(true);
    torch::autograd::grad({leaf.view({1, 1})}, {leaf}, {at::empty({1, 1}, options)});
  }
}

}  // namespace torch_spyre
