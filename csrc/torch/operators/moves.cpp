// clone, cat: elements go somewhere else and nothing is computed. The DMA takes sizes as data, so a cache that
// grows by a step at a time needs no program per length (D7). Shapes, dtypes and errors of cat are torch's.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/IListRef.h>
#include <ATen/ops/_copy_from.h>
#include <ATen/ops/cat_meta_dispatch.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "device/record.h"
#include "device/views.h"

namespace torch_spyre {
namespace {

at::Tensor as_meta(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
}

at::Tensor like_meta(const at::Tensor& meta, c10::Device device) {
  return empty_strided(meta.sizes(), meta.strides(), meta.scalar_type(), std::nullopt, device, std::nullopt);
}

void move(const at::Tensor& source, const at::Tensor& target) {
  if (source.numel() > 0) at::_copy_from(source, target, /*non_blocking=*/false);
}

// Where a copy has the sizes and strides of the whole buffer, it has its layout, too (D6).
bool is_whole_buffer(const at::Tensor& self) {
  const openspyre::ShapePtr& shape = record_of(self).shape;
  return shape && is_supported(self.scalar_type()) && self.storage_offset() == 0 &&
         self.sizes() == at::IntArrayRef(shape->host_size()) &&
         self.strides() == at::IntArrayRef(shape->host_stride()) && shape->dtype() == dtype_of(self.scalar_type());
}

at::Tensor clone(const at::Tensor& self, std::optional<c10::MemoryFormat> format) {
  const bool kept = format.value_or(c10::MemoryFormat::Preserve) == c10::MemoryFormat::Preserve ||
                    (*format == c10::MemoryFormat::Contiguous && self.is_contiguous());
  at::Tensor result;
  if (kept && self.is_non_overlapping_and_dense() && is_whole_buffer(self)) {
    result = new_tensor(self.sizes(), self.strides(), self.scalar_type(), record_of(self).shape, self.device().index());
  } else {
    result = like_meta(as_meta(self).clone(format), self.device());
  }
  move(self, result);
  return result;
}

void check_devices(const at::ITensorListRef& tensors, c10::Device device) {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.device() == device,
                "aten::cat: Expected all tensors to be on the same device, but found at least two devices, ", device,
                " and ", tensor.device(), "! Move the other one with .to('", device, "')");
  }
}

std::vector<at::Tensor> as_metas(const at::ITensorListRef& tensors) {
  std::vector<at::Tensor> metas;
  for (const at::Tensor& tensor : tensors) metas.push_back(as_meta(tensor));
  return metas;
}

void fill_with_pieces(const at::ITensorListRef& tensors, int64_t dim, const at::Tensor& result) {
  int64_t place = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;  // an empty vector fits everywhere, by torch's tradition
    const int64_t size = tensor.size(dim);
    move(tensor, result.narrow(dim, place, size));
    place += size;
  }
}

at::Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  const c10::Device device = tensors.front().device();
  check_devices(tensors, device);
  at::Tensor result = like_meta(at::meta::cat(as_metas(tensors), dim), device);
  fill_with_pieces(tensors, dim, result);
  return result;
}

at::Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, at::Tensor& out) {
  check_devices(tensors, out.device());
  at::Tensor meta = as_meta(out);
  at::meta::cat_out(meta, as_metas(tensors), dim);
  if (out.sizes() != meta.sizes()) out.resize_(meta.sizes());
  at::assert_no_internal_overlap(out);
  for (const at::Tensor& tensor : tensors) at::assert_no_overlap(out, tensor);
  fill_with_pieces(tensors, dim, out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("clone", TORCH_FN(Translated<&clone>::call));
  m.impl("cat", TORCH_FN(Translated<&cat>::call));
  m.impl("cat.out", TORCH_FN(Translated<&cat_out>::call));
}

}  // namespace torch_spyre
