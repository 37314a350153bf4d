// Copies between host and card and within the card: _copy_from, item().
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_copy_from.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <cstring>

#include "counters/counters.h"
#include "device/host_memory_pinned.h"
#include "device/observer.h"
#include "device/record.h"
#include "operators/fallback.h"
#include "profiler/trace.h"
#include "python/copy_log.h"
#include "sanitizer/sanitize_copy.h"

namespace torch_spyre {
namespace {

using openspyre::DeviceView;
using openspyre::HostView;

HostView host_view(const at::Tensor& tensor) {
  const Elements elements(tensor);
  return {tensor.data_ptr(), dtype_of(elements.type), elements.size, elements.stride};
}

// A CPU tensor over memory that outlives it: a RAW buffer, or the image of a tiled one.
at::Tensor host_bytes_of(std::byte* memory, const at::Tensor& like) {
  return at::from_blob(memory + like.storage_offset() * static_cast<int64_t>(like.element_size()), like.sizes(),
                       like.strides(), at::TensorOptions(like.scalar_type()));
}

// --- host formats (D4): what torch.save, torch.load and deepcopy see, and dtypes that the card has no format for
// ------

struct Image {
  std::vector<std::byte> bytes;
  explicit Image(const BufferRecord& record) : bytes(record.host_bytes) {
    openspyre::read_image(*record.shape, record.memory(), bytes.data());
  }
};

void settle(BufferRecord& record) {
  record.wait_for_writer();
  current_stream(static_cast<c10::DeviceIndex>(record.card->index())).synchronize();
}

at::Tensor read_bytes(const at::Tensor& source) {
  BufferRecord& record = record_of(source);
  settle(record);
  if (!record.shape) return host_bytes_of(record.memory(), source).clone();
  Image image(record);
  return host_bytes_of(image.bytes.data(), source).clone();
}

void write_bytes(const at::Tensor& source, const at::Tensor& target) {
  BufferRecord& record = record_of(target);
  settle(record);
  if (openspyre::configuration().null) return;
  if (!record.shape) {
    host_bytes_of(record.memory(), target).copy_(source);
    openspyre::sanitize::wrote_bytes(record.memory(), record.host_bytes);
    return;
  }
  const openspyre::sanitize::AllowUninitialisedReads around_what_is_written;
  Image image(record);
  host_bytes_of(image.bytes.data(), target).copy_(source);
  openspyre::write_image(*record.shape, record.memory(), image.bytes.data());
}

bool is_whole_storage(const at::Tensor& bytes) {
  return bytes.storage_offset() == 0 && bytes.is_contiguous() && bytes.nbytes() == bytes.storage().nbytes();
}

// A whole tiled buffer copied into untyped memory keeps its tiles: this is how deepcopy keeps a layout.
bool clone_buffer(const at::Tensor& source, const at::Tensor& target) {
  BufferRecord& from = record_of(source);
  const BufferRecord& to = record_of(target);
  if (!from.shape || to.shape || from.card != to.card || from.host_bytes != to.host_bytes ||
      source.scalar_type() != target.scalar_type() || !is_whole_storage(source) || !is_whole_storage(target)) {
    return false;
  }
  settle(from);
  at::Storage fresh = new_storage(from.shape, source.device().index());
  if (!openspyre::configuration().null) {
    std::byte* copy = record_of(fresh.data_ptr()).memory();
    std::memcpy(copy, from.memory(), from.shape->device_bytes());
    openspyre::sanitize::copied_bytes(from.memory(), copy, from.shape->device_bytes());
  }
  replace(target.storage(), fresh.unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr(nullptr, target.device())));
  return true;
}

// --- elements
// ---------------------------------------------------------------------------------------------------------

// A copy as traces tell it; null where nobody traces.
TracedWorkPtr traced_copy(TracedWork::Kind kind, const at::Tensor& source, const at::Tensor& target) {
  if (!is_traced()) [[likely]]
    return nullptr;
  using enum TracedWork::Kind;
  const char* name = kind == CopyToCard ? "Memcpy (HtoD)" : kind == CopyFromCard ? "Memcpy (DtoH)" : "Memcpy (DtoD)";
  const at::Tensor& on_card = kind == CopyFromCard ? source : target;
  const openspyre::Stream& stream = current_stream(on_card.device().index());
  TracedWorkPtr work = trace_call(kind, name, stream.card().index(), stream.id());
  work->bytes = static_cast<int64_t>(on_card.nbytes());
  return work;
}

void submit_copy(const char* name, BufferRecord& target, openspyre::Task work) {
  openspyre::Stream& stream = current_stream(static_cast<c10::DeviceIndex>(target.card->index()));
  target.written_by(stream, stream.submit(name, std::move(work), target.host_bytes > openspyre::kLengthyCopyBytes));
}

// The source is lent: once the caller has left, its owner may change it.
void copy_and_wait(const char* name, BufferRecord& target, openspyre::Task copy) {
  openspyre::Stream& stream = current_stream(static_cast<c10::DeviceIndex>(target.card->index()));
  const openspyre::LentWork work(std::move(copy));
  const openspyre::Ticket ticket = stream.submit(name, work.task(), target.host_bytes > openspyre::kLengthyCopyBytes);
  target.written_by(stream, ticket);
  work.wait(stream, ticket);
}

// The dim of a tensor that runs along the sticks; -1: none of them alone.
int64_t stick_dim(const at::Tensor& tensor) {
  const openspyre::ShapePtr& shape = record_of(tensor).shape;
  if (!shape) return -1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    if (tensor.size(dim) > 1 && tensor.stride(dim) == shape->layout().stride_map.back()) return dim;
  return -1;
}

void observe(Observed::What what, const at::Tensor& source, const at::Tensor& target) {
  using enum Observed::What;
  const at::Tensor& moved = what == CopyFromCard ? source : target;
  const auto bytes = static_cast<int64_t>(moved.nbytes());
  const bool turned = what == CopyWithin && stick_dim(source) != stick_dim(target);
  count_copy(current_stream(moved.device().index()),
             what == CopyToCard     ? openspyre::CopyWay::ToCard
             : what == CopyFromCard ? openspyre::CopyWay::FromCard
                                    : openspyre::CopyWay::Within,
             static_cast<uint64_t>(bytes), turned);
  if (!is_observed()) [[likely]]
    return;
  const char* name = what == CopyToCard ? "to the card" : what == CopyFromCard ? "from the card" : "within the card";
  tell({what, name, nullptr, what == CopyToCard ? 0 : bytes, what == CopyToCard ? bytes : 0, turned});
}

void host_to_device(at::Tensor source, const at::Tensor& target, bool non_blocking) {
  if (target.scalar_type() == c10::ScalarType::Long && downcast_warning()) {
    TORCH_WARN_ONCE(
        "int64 lives on spyre as int32: values beyond it raise an error when they are copied there "
        "(TORCH_SPYRE_DOWNCAST_WARN=0 or torch.spyre.set_downcast_warning(False) hides this)");
  }
  if (!is_supported(source.scalar_type()) || !is_supported(target.scalar_type()))
    source = source.to(target.scalar_type());  // float64 and the like
  tell_copy(source, target);
  observe(Observed::What::CopyToCard, source, target);
  constexpr auto whole = c10::ScalarType::Long;
  if (source.dim() == 0 && source.scalar_type() == whole && target.scalar_type() == whole)
    source = at::scalar_tensor(ends_of_int32(*source.const_data_ptr<int64_t>()), source.options());
  // Pageable memory may change as soon as we return: it is staged.
  if (non_blocking && !is_pinned(source.data_ptr())) source = source.clone();
  const HeldBuffers held = hold_buffers();
  if (in_host_format(access_of(target))) return write_bytes(source, target);
  const TracedWorkPtr traced = traced_copy(TracedWork::Kind::CopyToCard, source, target);
  auto copy = [from = host_view(source), to = device_view(target), keep = source.storage()] { copy_in(from, to); };
  (non_blocking ? submit_copy : copy_and_wait)("copy host to device", record_of(target),
                                               traced_task(std::move(copy), traced));
  returned(traced);
}

void device_to_host(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  const bool foreign = !is_supported(source.scalar_type()) || !is_supported(target.scalar_type());
  if (foreign && source.scalar_type() != target.scalar_type()) {  // exact from what the card holds
    at::Tensor same = at::empty(source.sizes(), at::TensorOptions(source.scalar_type()));
    device_to_host(source, same, false);
    target.copy_(same);
    return;
  }
  tell_copy(source, target);
  observe(Observed::What::CopyFromCard, source, target);
  const HeldBuffers held = hold_buffers();
  if (in_host_format(access_of(source))) {
    target.copy_(read_bytes(source));
    return;
  }
  BufferRecord& record = record_of(source);
  const TracedWorkPtr traced = traced_copy(TracedWork::Kind::CopyFromCard, source, target);
  if (non_blocking && is_pinned(target.data_ptr())) {
    openspyre::Stream& stream = current_stream(source.device().index());
    auto copy = [from = device_view(source), to = host_view(target), keep = target.storage()] { copy_out(from, to); };
    stream.submit("copy device to host", traced_task(std::move(copy), traced));
  } else {
    record.wait_for_writer();
    const TracedRun run(traced.get());
    copy_out(device_view(source), host_view(target));
  }
  returned(traced);
}

void device_to_device(const at::Tensor& source, const at::Tensor& target) {
  HeldBuffers held = hold_buffers();
  if (clone_buffer(source, target)) return observe(Observed::What::CopyWithin, source, target);
  const Access from = access_of(source), to = access_of(target);
  if (from != to || in_host_format(from)) {
    held.unlock();
    at::Tensor host = at::empty(source.sizes(), at::TensorOptions(source.scalar_type()));
    device_to_host(source, host, false);
    host_to_device(host, target, false);
    return;
  }
  observe(Observed::What::CopyWithin, source, target);
  const bool same_card = source.device() == target.device();
  if (!same_card) record_of(source).wait_for_writer();
  const TracedWorkPtr traced = traced_copy(TracedWork::Kind::CopyWithin, source, target);
  auto copy = [from = device_view(source), to = device_view(target)] { copy_across(from, to); };
  (same_card ? submit_copy : copy_and_wait)("copy device to device", record_of(target),
                                            traced_task(std::move(copy), traced));
  returned(traced);
}

bool is_marked(const at::Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }

// The same memory without torch's marks of a conjugation or a negation still to be done.
at::Tensor unmarked(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.is_conj() ? at::_conj(tensor) : tensor;
  return plain.is_neg() ? at::_neg_view(plain) : plain;
}

// What a marked tensor means, done on the host. Both operations are their own inverse, so it serves sources and
// targets.
at::Tensor with_marks_done(at::Tensor host, const at::Tensor& marked) {
  if (marked.is_conj()) host = at::conj_physical(host);
  return marked.is_neg() ? at::neg(host) : host;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking);

void copy_marked(const at::Tensor& source, const at::Tensor& target) {
  at::Tensor host = at::empty(source.sizes(), at::TensorOptions(source.scalar_type()));
  if (source.is_cpu()) {
    host.copy_(source);
  } else {
    copy_from(unmarked(source), host, false);
    host = with_marks_done(host, source);
  }
  if (target.is_cpu()) {
    target.copy_(host);
  } else {
    copy_from(with_marks_done(host.to(target.scalar_type()), target), unmarked(target), false);
  }
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  const at::Tensor source = self.sizes() == target.sizes() ? self : self.expand(target.sizes());
  if (target.numel() == 0) return target;
  at::assert_no_internal_overlap(target);
  const bool from_card = source.device().type() == kSpyre, to_card = target.device().type() == kSpyre;
  TORCH_CHECK((from_card || source.is_cpu()) && (to_card || target.is_cpu()), "cannot copy from ", source.device(),
              " to ", target.device(), " directly: go over the CPU");
  if (is_marked(source) || is_marked(target)) {
    copy_marked(source, target);
  } else if (from_card && to_card) {
    if (!source.is_same(target)) device_to_device(source, target);
  } else if (to_card) {
    host_to_device(source, target, non_blocking);
  } else {
    device_to_host(source, target, non_blocking);
  }
  deliver_notices();
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (self.sizes() != target.sizes()) target.resize_(self.sizes());
  return copy_from(self, target, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  at::Tensor host = at::empty(self.sizes(), at::TensorOptions(self.scalar_type()));
  device_to_host(self, host, false);
  deliver_notices();
  return host.item();
}

void record_stream(at::Tensor& self, at::Stream stream) { use_on_stream(self.storage().data_ptr(), stream); }

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return self.storage().is_alias_of(other.storage()) && self.storage_offset() == other.storage_offset() &&
         self.sizes() == other.sizes() && self.strides() == other.strides();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(Translated<&copy_from>::call));
  m.impl("_copy_from_and_resize", TORCH_FN(Translated<&copy_from_and_resize>::call));
  m.impl("_local_scalar_dense", TORCH_FN(Translated<&local_scalar_dense>::call));
  m.impl("record_stream", TORCH_FN(Translated<&record_stream>::call));
  m.impl("is_set_to", TORCH_FN(Translated<&is_set_to>::call));
}

// A copy does what its operands are marked with itself; torch would clone a marked one first, which is a copy again.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace torch_spyre
