#include "device/record.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>

#include <cstring>
#include <memory>
#include <mutex>

#include "counters/counters.h"

namespace torch_spyre {

using openspyre::fail;
using openspyre::Fault;

namespace {

void delete_record(void* context) { delete static_cast<BufferRecord*>(context); }

c10::DataPtr adopt(std::unique_ptr<BufferRecord> record) {
  const c10::Device device(kSpyre, static_cast<c10::DeviceIndex>(record->card->index()));
  void* handle = record->block ? reinterpret_cast<void*>(record->block->address) : nullptr;
  return {handle, record.release(), &delete_record, device};
}

std::unique_ptr<BufferRecord> new_record(size_t device_bytes, size_t host_bytes, c10::DeviceIndex index) {
  auto record = std::make_unique<BufferRecord>();
  openspyre::Stream& stream = current_stream(index);
  record->card = &stream.card();
  record->host_bytes = host_bytes;
  if (device_bytes > 0) record->block = allocate_block(*record->card, device_bytes, stream.id());
  return record;
}

c10::DataPtr new_tiled(openspyre::ShapePtr shape, c10::DeviceIndex index) {
  const size_t host_bytes = shape->host_elements() * openspyre::host_itemsize(shape->dtype());
  auto record = new_record(shape->device_bytes(), host_bytes, index);
  record->shape = std::move(shape);
  return adopt(std::move(record));
}

std::shared_mutex& buffers_mutex() {
  static auto* instance = new std::shared_mutex;
  return *instance;
}

std::atomic<uint64_t> retiled{0};

c10::DeviceIndex index_of(const BufferRecord& record) { return static_cast<c10::DeviceIndex>(record.card->index()); }

// Work on two buffers of one card, in the order of its current stream; the host waits for it.
template <typename Work>
void run_on_stream(const char* name, BufferRecord& target, Work work) {
  openspyre::Stream& stream = current_stream(index_of(target));
  const openspyre::LentWork lent(std::move(work));  // the buffers may be gone when the wait was interrupted
  const openspyre::Ticket ticket = stream.submit(name, lent.task());
  target.written_by(stream, ticket);
  lent.wait(stream, ticket);
}

at::Tensor over(c10::Storage storage, at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType type) {
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  auto tensor =
      at::detail::make_tensor_base<c10::TensorImpl>(std::move(storage), keys, c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return tensor;
}

}  // namespace

c10::DataPtr new_raw(size_t host_bytes, c10::DeviceIndex index) {
  return adopt(new_record(host_bytes, host_bytes, index));
}

c10::Storage new_storage(openspyre::ShapePtr shape, c10::DeviceIndex index) {
  const size_t host_bytes = shape->host_elements() * openspyre::host_itemsize(shape->dtype());
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), host_bytes,
                                               new_tiled(std::move(shape), index), c10::GetAllocator(kSpyre),
                                               /*resizable=*/true);
}

at::Tensor new_tensor(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType type, openspyre::ShapePtr shape,
                      c10::DeviceIndex index) {
  return over(new_storage(std::move(shape), index), size, stride, type);
}

c10::Storage new_default_storage(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType type,
                                 c10::DeviceIndex index) {
  if (is_supported(type)) return new_storage(openspyre::intern_default(size, stride, dtype_of(type)), index);
  announce_foreign(type);
  const size_t bytes = at::detail::computeStorageNbytes(size, stride, c10::elementSize(type));
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, new_raw(bytes, index),
                                               c10::GetAllocator(kSpyre), /*resizable=*/true);
}

at::Tensor new_default_tensor(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType type,
                              c10::DeviceIndex index) {
  return over(new_default_storage(size, stride, type, index), size, stride, type);
}

BufferRecord& record_of(const c10::DataPtr& pointer) {
  if (pointer.get_deleter() != &delete_record) {
    fail(Fault::Internal,
         "a storage on spyre has no buffer record: it was made by something else than the spyre allocator");
  }
  return *static_cast<BufferRecord*>(pointer.get_context());
}

BufferRecord& record_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().type() == kSpyre, "expected a tensor on spyre, got one on ", tensor.device());
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.has_storage(), "this tensor has no storage on spyre (a sparse or fake tensor?)");
  return record_of(tensor.storage().data_ptr());
}

void use_on_stream(const c10::DataPtr& pointer, const c10::Stream& stream) {
  BufferRecord& record = record_of(pointer);
  if (record.block) record.card->record_stream(record.block, stream_of(stream).id());
}

void replace(const c10::Storage& storage, c10::DataPtr fresh) {
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(fresh));
}

void give_tiles(const c10::Storage& storage, c10::ScalarType type, at::IntArrayRef size, at::IntArrayRef stride,
                int64_t offset) {
  static std::mutex tiling;  // two threads may meet at the first use: the second one finds the tiles
  const std::lock_guard lock(tiling);
  BufferRecord& raw = record_of(storage.data_ptr());
  if (raw.shape) return;
  const openspyre::DType dtype = dtype_of(type);
  const auto elements = static_cast<int64_t>(raw.host_bytes / openspyre::host_itemsize(dtype));
  openspyre::ShapePtr shape = openspyre::intern_default(size, stride, dtype);
  if (offset != 0 || shape->host_elements() != elements || c10::multiply_integers(size) != elements) {
    const int64_t flat_size[] = {elements}, flat_stride[] = {1};
    shape = openspyre::intern_default(flat_size, flat_stride, dtype);
  }
  c10::DataPtr fresh = new_tiled(shape, index_of(raw));
  BufferRecord& tiled = record_of(fresh);
  tiled.host_bytes = raw.host_bytes;
  raw.wait_for_writer();
  if (tiled.block) {
    run_on_stream("tile a storage", tiled,
                  [shape, from = raw.memory(), to = tiled.memory()] { write_image(*shape, to, from); });
  }
  replace(storage, std::move(fresh));
}

HeldBuffers hold_buffers() { return HeldBuffers(buffers_mutex()); }

uint64_t retilings() { return retiled.load(std::memory_order_relaxed); }  // written and read under buffers_mutex

void retile(const at::Tensor& tensor, const openspyre::Layout& layout) {
  const std::unique_lock nobody_else(buffers_mutex());
  if (access_of(tensor) != Access::Tiled)
    fail(Fault::InvalidLayout, "only a typed tensor can be given a layout, not raw bytes");
  BufferRecord& before = record_of(tensor);
  const openspyre::ShapePtr old = before.shape;
  openspyre::ShapePtr shape = openspyre::intern(old->host_size(), old->host_stride(), old->dtype(), layout);
  if (shape == old) return;
  c10::DataPtr fresh = new_tiled(shape, index_of(before));
  BufferRecord& after = record_of(fresh);
  after.host_bytes = before.host_bytes;
  if (after.block && before.block) {
    openspyre::DeviceView source{old, before.memory(), old->dtype(), 0, old->host_size(), old->host_stride()};
    openspyre::DeviceView target{shape, after.memory(), old->dtype(), 0, old->host_size(), old->host_stride()};
    before.wait_for_writer();
    count_copy(current_stream(index_of(before)), openspyre::CopyWay::Within, before.host_bytes, true);
    run_on_stream("retile", after, [source, target] { copy_across(source, target); });
    // Launches of any stream may still read the old tiles.
    for (int64_t stream = 0; stream < openspyre::kStreamCount; ++stream)
      before.card->record_stream(before.block, stream);
  }
  replace(tensor.storage(), std::move(fresh));
  retiled.fetch_add(1, std::memory_order_relaxed);
}

namespace {
// D5: element types whose bits are the same on the host and on the card, so that one buffer can be read as either.
bool bits_agree(openspyre::DType a, openspyre::DType b) {
  using openspyre::DType;
  const auto family = [](DType type) {
    switch (type) {
      case DType::Float32:
      case DType::Int32:
        return 4;
      case DType::Int8:
      case DType::Float8E4M3FN:
      case DType::Float8E5M2FNUZ:
        return 1;
      default:
        return 0;
    }
  };
  return a == b || (family(a) != 0 && family(a) == family(b));
}

bool is_pair_of(c10::ScalarType type, openspyre::DType part) {
  return c10::isComplexType(type) && c10::toRealValueType(type) == scalar_type_of(part);
}
}  // namespace

Access access_of(const at::Tensor& tensor) {
  BufferRecord* record = &record_of(tensor);
  const c10::ScalarType type = tensor.scalar_type();
  const bool bytes = type == c10::ScalarType::Byte, foreign = !is_supported(type);
  if (!record->shape) {
    if (bytes || foreign) return Access::Raw;
    give_tiles(tensor.storage(), type, tensor.sizes(), tensor.strides(), tensor.storage_offset());
    return access_of(tensor);  // another thread may have given it tiles of another type
  }
  if (foreign) return is_pair_of(type, record->shape->dtype()) ? Access::Pairs : Access::Image;
  if (bits_agree(dtype_of(type), record->shape->dtype())) return Access::Tiled;
  if (bytes) return Access::Image;
  fail(Fault::UnsupportedFormat, std::string("a buffer of ") + openspyre::name(record->shape->dtype()) +
                                     " on spyre cannot be read as " + c10::toString(tensor.scalar_type()) +
                                     ": the card stores the two differently; go over the CPU: x.cpu().view(dtype)");
}

Elements::Elements(const at::Tensor& tensor)
    : type(tensor.scalar_type()),
      offset(tensor.storage_offset()),
      size(tensor.sizes().vec()),
      stride(tensor.strides().vec()) {
  if (!c10::isComplexType(type)) return;
  type = c10::toRealValueType(type);
  offset *= 2;
  for (int64_t& step : stride) step *= 2;
  size.push_back(2);
  stride.push_back(1);
}

openspyre::DeviceView device_view(const at::Tensor& tensor) {
  const BufferRecord& record = record_of(tensor);
  Elements elements(tensor);
  return {record.shape,    record.memory(),          dtype_of(elements.type),
          elements.offset, std::move(elements.size), std::move(elements.stride)};
}

}  // namespace torch_spyre
