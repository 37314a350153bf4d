// Creating tensors and looking at them in other ways.
#pragma once

#include "device/record.h"

namespace torch_spyre {

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory);
at::Tensor empty_with_layout(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType dtype,
                             const openspyre::Layout& layout, std::optional<c10::Device> device);

// Grows a storage, keeping its contents as the host sees them.
void resize_bytes(const c10::Storage& storage, size_t bytes);

}  // namespace torch_spyre
