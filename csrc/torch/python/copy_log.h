// Copies between host and card, told to Python while its log wants them (TORCH_SPYRE_DEBUG): one load when it does not.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>

namespace torch_spyre {

extern std::atomic<bool> copies_are_logged;
void log_copy(const at::Tensor& source, const at::Tensor& target);

// Without buffers held: Python asks for layouts.
inline void tell_copy(const at::Tensor& source, const at::Tensor& target) {
  if (copies_are_logged.load(std::memory_order_relaxed)) [[unlikely]]
    log_copy(source, target);
}

}  // namespace torch_spyre
