// torch_spyre._torch: what the Python half needs of the C++ half; and what the C++ half needs of Python (errors,
// warnings, switches).
#include <torch/csrc/Event.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include <mutex>

#include "device/autograd_rest.h"
#include "device/generator.h"
#include "device/views.h"
#include "memory/history.h"
#include "operators/eager.h"
#include "operators/fallback.h"
#include "operators/graph_launch.h"
#include "profiler/trace.h"
#include "python/device_layout_keyword.h"
#include "python/python_half.h"
#include "python_interrupt.h"
#include "python_site.h"

namespace py = pybind11;

namespace torch_spyre {
namespace {

std::atomic<bool> configured{false};

}  // namespace

void ensure_configured() {
  if (configured.load(std::memory_order_acquire)) return;
  py::gil_scoped_acquire gil;
  if (configured.load(std::memory_order_acquire)) return;
  call_python(python().configure);
  configured.store(true, std::memory_order_release);
}

namespace {

const char* who_holds_it() {
  return openspyre::memory_recorded() ? " Who holds it: torch.spyre.memory_by_line(); for torch's memory viewer: "
                                        "torch.spyre.memory._dump_snapshot(\"memory.pickle\")."
                                      : " To see who holds it, call torch.spyre.memory._record_memory_history() first.";
}

}  // namespace

void rethrow(const openspyre::Error& error) {
  std::string told = error.what();
  if (error.kind == openspyre::Fault::OutOfMemory) told += who_holds_it();
  py::gil_scoped_acquire gil;
  call_python(python().raise, openspyre::name(error.kind), told);
  throw;  // the Python half always raises
}

void rethrow(const openspyre::Interrupted& interrupted) {
  py::gil_scoped_acquire gil;
  openspyre::restore_interrupt(interrupted);
  python_error python;
  python.persist();
  throw python;
}

void deliver_notices() {
  if (!openspyre::has_notices()) return;
  py::gil_scoped_acquire gil;
  with_python_errors([] { openspyre::warn_of_notices(); });
}

void announce_fallback(const std::string& what, const char* manner) {
  py::gil_scoped_acquire gil;
  call_python(python().announce, what, manner);
}

namespace {

openspyre::Layout make_layout(std::vector<int64_t> device_size, std::vector<int64_t> stride_map, int format,
                              int arrangement) {
  return {std::move(device_size), std::move(stride_map), static_cast<openspyre::DataFormat>(format),
          static_cast<openspyre::ElementArrangement>(arrangement)};
}

py::tuple layout_of(const at::Tensor& tensor) {
  openspyre::ShapePtr shape;
  {
    py::gil_scoped_release no_gil;
    const HeldBuffers held = hold_buffers();
    translated([&] { access_of(tensor); });
    shape = record_of(tensor).shape;
  }
  if (!shape || !is_supported(tensor.scalar_type())) return py::tuple();
  const openspyre::Layout& layout = shape->layout();
  return py::make_tuple(shape->id(), layout.device_size, layout.stride_map, static_cast<int>(layout.format),
                        static_cast<int>(layout.arrangement));
}

py::dict buffer_of(const at::Tensor& tensor) {
  openspyre::ShapePtr shape;
  openspyre::Address address = 0;
  size_t host_bytes = 0;
  {
    py::gil_scoped_release no_gil;
    const HeldBuffers held = hold_buffers();
    const BufferRecord& record = record_of(tensor);
    shape = record.shape;
    address = record.block ? record.block->address : 0;
    host_bytes = record.host_bytes;
  }
  py::dict answer;
  answer["address"] = address;
  answer["host_bytes"] = host_bytes;
  answer["device_bytes"] = shape ? shape->device_bytes() : static_cast<int64_t>(host_bytes);
  answer["dtype"] = shape ? openspyre::name(shape->dtype()) : "raw";
  answer["host_size"] = shape ? shape->host_size() : std::vector<int64_t>{};
  answer["host_stride"] = shape ? shape->host_stride() : std::vector<int64_t>{};
  return answer;
}

py::dict fallback_statistics() {
  py::dict answer;
  for (const auto& [op, count] : fallback_counts()) {
    py::dict row;
    row["calls"] = count.calls;
    row["bytes_to_host"] = count.bytes_to_host;
    row["bytes_to_device"] = count.bytes_to_device;
    answer[py::str(op)] = row;
  }
  return answer;
}

}  // namespace

PYBIND11_MODULE(_torch, m) {
  openspyre::set_site_source(&openspyre::python_site);
  openspyre::let_python_interrupt();
  m.def("connect", [](py::object configure, py::object raise, py::object announce, py::object compile,
                      py::object specialise, py::object planning) {
    python() = {std::move(configure), std::move(raise),      std::move(announce),
                std::move(compile),   std::move(specialise), std::move(planning)};
  });
  m.def("take_device_layout", &take_device_layout);
  m.def("takes_device_layout", &takes_device_layout);
  m.def("is_configured", [] { return configured.load(); });
  m.def("ensure_configured", &ensure_configured);
  m.def("let_autograd_rest", &let_autograd_rest, py::call_guard<py::gil_scoped_release>());
  m.def("device_count", [] { return translated([] { return device_count(); }); });
  m.def("current_device", [] { return translated([] { return static_cast<int>(resolve(std::nullopt)); }); });
  m.def("set_current_device",
        [](int index) { translated([&] { set_current_device(static_cast<c10::DeviceIndex>(index)); }); });
  m.def("set_default_device", [](int index) { set_default_device(static_cast<c10::DeviceIndex>(index)); });
  m.def("set_initial_seed", &set_initial_seed);
  m.def("default_generator", [](int index) {
    return py::reinterpret_steal<py::object>(THPGenerator_initDefaultGenerator(
        translated([&] { return default_generator(static_cast<c10::DeviceIndex>(index)); })));
  });
  m.def(
      "synchronize_all",
      [] {
        // A forked child has no work on the parent's cards to wait for: a profile of what it does itself can end.
        if (openspyre::in_bad_fork()) return;
        const TracedWait traced(TracedWork::Kind::Wait, "aiuDeviceSynchronize", 0, 0);
        translated([] { openspyre::synchronize_all(); });
        deliver_notices();
      },
      py::call_guard<py::gil_scoped_release>());

  // torch.Event.elapsed_time takes no subclass of torch.Event.
  m.def("elapsed_time", [](py::handle start, py::handle end) {
    if (!THPEvent_Check(start.ptr()) || !THPEvent_Check(end.ptr()))
      throw py::type_error("elapsed_time takes two events");
    return reinterpret_cast<THPEvent*>(start.ptr())->event.elapsedTime(reinterpret_cast<THPEvent*>(end.ptr())->event);
  });

  m.def("layout_of", &layout_of);
  m.def("retilings", &retilings);
  m.def("buffer_of", &buffer_of);
  m.def(
      "set_layout",
      [](const at::Tensor& tensor, std::vector<int64_t> device_size, std::vector<int64_t> stride_map, int format,
         int arrangement) {
        translated(
            [&] { retile(tensor, make_layout(std::move(device_size), std::move(stride_map), format, arrangement)); });
      },
      py::call_guard<py::gil_scoped_release>());
  m.def(
      "empty_with_layout",
      [](std::vector<int64_t> size, std::vector<int64_t> stride, at::ScalarType dtype, std::vector<int64_t> device_size,
         std::vector<int64_t> stride_map, int format, int arrangement, std::optional<at::Device> device) {
        return translated([&] {
          return empty_with_layout(size, stride, dtype,
                                   make_layout(std::move(device_size), std::move(stride_map), format, arrangement),
                                   device);
        });
      },
      py::call_guard<py::gil_scoped_release>());

  m.def("register_eager", [](const std::string& op, const std::map<std::string, py::object>& supplied_at_launch) {
    std::map<std::string, ScalarKey> keys;
    for (const auto& [name, key] : supplied_at_launch) {
      keys[name] = {true, py::cast<bool>(key.attr("by_sign")), py::cast<std::vector<double>>(key.attr("special"))};
    }
    return register_eager(op, keys);
  });
  m.def("eager_counts", [] {
    const EagerCounts counts = eager_counts();
    return py::make_tuple(counts.launches, counts.compilations, counts.programs);
  });
  m.def("limit_eager_plans", &limit_eager_plans);
  m.def("clear_eager_cache", &clear_eager_cache);
  bind_graphs(m);
  bind_copy_log(m);
  bind_memory_history(m);
  bind_observer(m);
  bind_profiler(m);
  bind_shown_launches(m);
  bind_raw_copy(m);

  m.def("get_downcast_warning", &downcast_warning);
  m.def("set_downcast_warning", &set_downcast_warning);
  m.def("fallback_statistics", &fallback_statistics);
  m.def("reset_fallback_statistics", &reset_fallback_counts);
  m.def("set_fallback_mode", [](const std::string& mode) {
    set_fallback_mode(mode == "error"    ? FallbackMode::Error
                      : mode == "silent" ? FallbackMode::Silent
                                         : FallbackMode::Warn);
  });
}

}  // namespace torch_spyre
