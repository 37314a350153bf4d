// Bytes of a whole buffer as the card has them, into host memory and back: no format is converted, no element rounded.
#include <cstring>

#include "counters/counters.h"
#include "device/record.h"
#include "device/runtime.h"
#include "python/python_half.h"
#include "sanitizer/sanitize_copy.h"

namespace torch_spyre {
namespace {

namespace py = pybind11;

// Python has checked that `tensor` is all of its buffer and that `host` has room.
void copy_raw(const at::Tensor& tensor, const at::Tensor& host, bool to_device, bool non_blocking) {
  const HeldBuffers held = hold_buffers();
  BufferRecord& record = record_of(tensor);
  const size_t bytes = record.shape ? static_cast<size_t>(record.shape->device_bytes()) : record.host_bytes;
  if (bytes == 0 || openspyre::configuration().null) return;
  openspyre::Stream& stream = current_stream(tensor.device().index());
  count_copy(stream, to_device ? openspyre::CopyWay::ToCard : openspyre::CopyWay::FromCard, bytes);
  auto* memory = record.memory();
  auto* there = static_cast<std::byte*>(host.data_ptr());
  const auto copy = [memory, there, bytes, to_device, keep = host.storage()] {
    std::memcpy(to_device ? memory : there, to_device ? there : memory, bytes);
    if (to_device) openspyre::sanitize::wrote_bytes(memory, bytes);
  };
  const openspyre::Ticket ticket = stream.submit("copy bytes", copy, bytes > openspyre::kLengthyCopyBytes);
  if (to_device) record.written_by(stream, ticket);
  if (!non_blocking) stream.wait(ticket);
}

}  // namespace

void bind_raw_copy(py::module_& m) {
  m.def(
      "copy_raw",
      [](const at::Tensor& tensor, const at::Tensor& host, bool to_device, bool non_blocking) {
        translated([&] { copy_raw(tensor, host, to_device, non_blocking); });
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace torch_spyre
