#include "device/views.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include "sanitizer/sanitize_copy.h"

namespace torch_spyre {

using openspyre::fail;
using openspyre::Fault;

namespace {

c10::ScalarType checked(std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                        std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == c10::kStrided, "spyre holds strided tensors only, not ",
                              *layout, "; keep a sparse tensor on the CPU");
  TORCH_CHECK_VALUE(!pin_memory.value_or(false), "only host memory can be pinned, not a tensor on spyre");
  return c10::dtype_or_default(dtype);
}

using Strides = c10::SmallVector<int64_t, 8>;

// A memory format is a statement about strides, and strides are the host's: the tiles do not know of it.
void put_strides(c10::MemoryFormat format, at::IntArrayRef size, Strides& stride) {
  const bool flat = format == c10::MemoryFormat::ChannelsLast, deep = format == c10::MemoryFormat::ChannelsLast3d;
  TORCH_CHECK(!flat || size.size() == 4, "required rank 4 tensor to use channels_last format");
  TORCH_CHECK(!deep || size.size() == 5, "required rank 5 tensor to use channels_last_3d format");
  if (flat || deep) {
    const auto strides = flat ? c10::get_channels_last_strides_2d(size) : c10::get_channels_last_strides_3d(size);
    stride.assign(strides.begin(), strides.end());
    return;
  }
  stride.resize(size.size());
  int64_t step = 1;
  for (size_t dim = size.size(); dim-- > 0;) {
    stride[dim] = step;
    step *= std::max<int64_t>(size[dim], 1);
  }
}

at::Tensor empty(at::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> memory_format) {
  const OperatorAtWork at_work("aten::empty");
  const c10::ScalarType type = checked(dtype, layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  Strides stride;
  put_strides(memory_format.value_or(c10::MemoryFormat::Contiguous), size, stride);
  return new_default_tensor(size, stride, type, resolve(device));
}

}  // namespace

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  const OperatorAtWork at_work("aten::empty_strided");
  const c10::ScalarType type = checked(dtype, layout, pin_memory);
  at::native::checkAsStridedArgs<int64_t>(size, stride, 0);
  at::detail::check_size_nonnegative(size);
  return new_default_tensor(size, stride, type, resolve(device));
}

at::Tensor empty_with_layout(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType dtype,
                             const openspyre::Layout& layout, std::optional<c10::Device> device) {
  at::detail::check_size_nonnegative(size);
  return new_tensor(size, stride, dtype, openspyre::intern(size, stride, dtype_of(dtype), layout), resolve(device));
}

namespace {

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

[[noreturn]] void refuse_view(const at::Tensor& self, c10::ScalarType type, const char* why) {
  fail(Fault::UnsupportedFormat, std::string("view(dtype) on spyre from ") + c10::toString(self.scalar_type()) +
                                     " to " + c10::toString(type) + ": " + why +
                                     "; go over the CPU: x.cpu().view(dtype).to('spyre')");
}

bool is_pair(c10::ScalarType complex, c10::ScalarType part) {
  return c10::isComplexType(complex) && c10::toRealValueType(complex) == part;
}

// Complex numbers whose parts are looked at lie from then on as a flat run of the parts, in the card's format.
void tile_parts(const at::Tensor& self) {
  const c10::ScalarType part = c10::toRealValueType(self.scalar_type());
  BufferRecord& record = record_of(self);
  if (record.shape || !record.block || !is_supported(part)) return;
  give_tiles(self.storage(), part, {static_cast<int64_t>(record.host_bytes / c10::elementSize(part))}, {1}, 0);
}

at::Tensor view_dtype(const at::Tensor& self, c10::ScalarType type) {
  const c10::ScalarType own = self.scalar_type();
  if (own == type) return at::native::view(self, self.sizes());
  if (is_pair(own, type)) tile_parts(self);
  const bool foreign = !is_supported(own) && !is_supported(type);
  if (foreign || is_pair(own, type) || is_pair(type, own)) return at::native::view_dtype(self, type);
  if (!is_supported(own) || !is_supported(type)) refuse_view(self, type, "the card has no format for one of them");
  access_of(self);  // a RAW buffer becomes typed, so that the check below means something
  at::Tensor other = at::native::view(self, self.sizes());
  if (static_cast<size_t>(self.element_size()) != c10::elementSize(type))
    refuse_view(self, type, "the element sizes differ and a stick would hold another number of elements");
  other.unsafeGetTensorImpl()->set_storage_and_dtype(other.storage(), c10::scalarTypeToTypeMeta(type));
  if (access_of(other) != Access::Tiled) refuse_view(self, type, "the card stores the two differently");
  return other;
}

at::Tensor view_as_real(const at::Tensor& self) {
  if (c10::isComplexType(self.scalar_type())) tile_parts(self);
  return at::native::view_as_real(self);
}

// --- set_ and resize_ ------------------------------------------------------------------------------------------------

void set_geometry(const at::Tensor& self, at::IntArrayRef size, std::optional<at::IntArrayRef> stride, int64_t offset) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride) {
    impl->set_sizes_and_strides(size, *stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
}

int64_t bytes_needed(const at::Tensor& self) {
  return static_cast<int64_t>(
      at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.element_size(), self.storage_offset()));
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  set_geometry(self, size, stride.data() ? std::optional(stride) : std::nullopt, offset);
  const int64_t needed = bytes_needed(self);
  if (self.numel() > 0 && needed > static_cast<int64_t>(self.storage().nbytes())) resize_bytes(self.storage(), needed);
  if (self.numel() == 0) return self;
  try {
    access_of(self);  // the first typed use gives a RAW storage its tiles
  } catch (const openspyre::Error& error) {
    // The numbers may be still to come: torch.load of the old format does so. Whoever reads them gets the error.
    if (error.kind != Fault::ValueOutOfRange) throw;
  }
  return self;
}

at::Tensor& set_source_storage(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.element_size());
  return set_storage(self, std::move(source), 0, {elements}, {});
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  const int64_t size[] = {0}, stride[] = {1};
  at::Storage storage = new_default_storage(size, stride, self.scalar_type(), self.device().index());
  return set_storage(self, std::move(storage), 0, {0}, {});
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<c10::MemoryFormat> memory_format) {
  TORCH_CHECK(memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format ", *memory_format);
  at::detail::check_size_nonnegative(size);
  if (self.sizes() == size && !memory_format) return self;
  const Strides before(self.sizes().begin(), self.sizes().end());
  const Strides before_stride(self.strides().begin(), self.strides().end());
  Strides stride;
  put_strides(memory_format.value_or(c10::MemoryFormat::Contiguous), size, stride);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  const auto needed = static_cast<size_t>(bytes_needed(self));
  if (self.numel() == 0 || needed <= self.storage().nbytes()) return self;
  try {
    if (self.storage_offset() == 0 && self.storage().nbytes() == 0) {
      // Nothing to keep: the usual out= case gets the layout of its new shape.
      const at::Storage fresh = new_default_storage(size, self.strides(), self.scalar_type(), self.device().index());
      c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
      storage->set_data_ptr_noswap(fresh.unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr(nullptr, self.device())));
      storage->set_nbytes(needed);
    } else {
      resize_bytes(self.storage(), needed);
    }
  } catch (...) {
    self.unsafeGetTensorImpl()->set_sizes_and_strides(before, before_stride);
    throw;
  }
  return self;
}

}  // namespace

void resize_bytes(const c10::Storage& storage, size_t bytes) {
  BufferRecord& before = record_of(storage.data_ptr());
  const openspyre::ShapePtr shape = before.shape;
  const auto index = static_cast<c10::DeviceIndex>(before.card->index());
  c10::DataPtr raw = new_raw(bytes, index);
  BufferRecord& after = record_of(raw);
  before.wait_for_writer();
  const size_t kept = std::min(bytes, before.host_bytes);
  if (kept > 0 && !openspyre::configuration().null) {
    const openspyre::sanitize::AllowUninitialisedReads moved_not_read;
    std::vector<std::byte> image(before.host_bytes);
    if (shape) {
      openspyre::read_image(*shape, before.memory(), image.data());
    } else {
      std::memcpy(image.data(), before.memory(), before.host_bytes);
    }
    std::memcpy(after.memory(), image.data(), kept);
  }
  replace(storage, std::move(raw));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  // A typed buffer stays typed, as one flat run: torch grows a storage in host order.
  if (shape && bytes > 0) give_tiles(storage, scalar_type_of(shape->dtype()), {static_cast<int64_t>(bytes)}, {1}, 0);
}

// Only to refuse sparse tensors in our own words: torch would speak of a missing operator.
void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, c10::toString(op.operator_name()),
                              ": spyre holds strided tensors only, not sparse ones; keep a sparse tensor on the CPU");
}
// A parameter stays the same object when its module moves (`p.data = p.data.to("spyre")`). torch's own rule leaves out
// PrivateUse1; ours are plain TensorImpls, which may take over each other's storage and metadata.
bool may_take_over(const at::Tensor& self, const at::Tensor& from) {
  if (self.device().type() != kSpyre && from.device().type() != kSpyre)  // on their way to or from Meta
    return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
  const auto is_plain = [](const at::Tensor& tensor) {
    const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    return typeid(impl) == typeid(at::TensorImpl) && tensor.layout() == at::kStrided && !tensor.is_quantized();
  };
  return is_plain(self) && is_plain(from);
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>()); }

// nn.TransformerEncoder asks this before it packs a padded batch into a nested tensor, which the card does not hold:
// the answer "no" takes the ordinary way, with the mask.
bool left_aligned(const at::Tensor&, const at::Tensor&) { return false; }

at::Tensor refuse_nested(const at::Tensor& self, const at::Tensor&, bool) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "spyre holds strided tensors only, not nested ones (", self.sizes(),
                              "); make the nn.TransformerEncoder with enable_nested_tensor=False or mask_check=True");
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(left_aligned));
  m.impl("_nested_tensor_from_mask", TORCH_FN(refuse_nested));
  m.impl("empty.memory_format", TORCH_FN(Translated<&empty>::call));
  m.impl("empty_strided", TORCH_FN(Translated<&empty_strided>::call));
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("view.dtype", TORCH_FN(Translated<&view_dtype>::call));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("view_as_real", TORCH_FN(Translated<&view_as_real>::call));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("set_", TORCH_FN(Translated<&set_nothing>::call));
  m.impl("set_.source_Storage", TORCH_FN(Translated<&set_source_storage>::call));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(Translated<&set_storage>::call));
  m.impl("set_.source_Tensor", TORCH_FN(Translated<&set_source_tensor>::call));
  m.impl("resize_", TORCH_FN(Translated<&resize>::call));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(may_take_over));
}

// Meta goes before PrivateUse1: a model made on meta and given memory on the card keeps its ties as well.
TORCH_LIBRARY_IMPL(aten, Meta, m) { m.impl("_has_compatible_shallow_copy_type", TORCH_FN(may_take_over)); }

}  // namespace torch_spyre
