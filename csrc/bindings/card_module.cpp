// openspyre.card._card: the card for Python, without torch. Thin: openspyre/card/ makes it pleasant.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "counters/counters.h"
#include "dma/dma.h"
#include "formats/formats.h"
#include "formats/layout.h"
#include "images.h"
#include "memory/scratchpad.h"
#include "programs.h"
#include "python_interrupt.h"
#include "python_site.h"
#include "sanitizer/shadow.h"
#include "streams/card.h"
#include "streams/workers.h"

namespace py = pybind11;
using namespace openspyre;

namespace {

using Integers = std::vector<int64_t>;
using ReleaseGil = py::call_guard<py::gil_scoped_release>;

// --- errors ----------------------------------------------------------------------------------------------------------
void translate_error(std::exception_ptr pending) {
  try {
    std::rethrow_exception(pending);
  } catch (const Interrupted& interrupted) {
    restore_interrupt(interrupted);
  } catch (const Error& error) {
    const py::object catalogue = py::module_::import("openspyre.spec.errors").attr("by_fault");
    const py::object type = catalogue[name(error.kind)];
    PyErr_SetObject(type.ptr(), type(error.what()).ptr());
  }
}

// --- what Python holds -----------------------------------------------------------------------------------------------
// An allocation that ends with its Python object.
class Buffer {
 public:
  Buffer(Card& card, size_t bytes, int64_t stream) : block_(card.allocate(bytes, stream)) {}
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Block& block() const {
    if (!block_) fail(Fault::InvalidArgument, "this buffer has been released; allocate a new one");
    return *block_;
  }
  void release() noexcept {
    if (Block* block = std::exchange(block_, nullptr)) block->card->free(block);
  }

 private:
  Block* block_;
};

DType dtype_named(const std::string& text) {
  if (const auto found = named<DType>(text)) return *found;
  fail(Fault::UnsupportedFormat, "no tensor on the card has dtype '" + text + "'");
}

DataFormat format_of(int value) {
  if (value < 0 || value >= kDataFormatCount) {
    fail(Fault::UnsupportedFormat, "no DataFormats has the value " + std::to_string(value));
  }
  return static_cast<DataFormat>(value);
}

ElementArrangement arrangement_of(int value) {
  if (value < 0 || value >= kElementArrangementCount) {
    fail(Fault::InvalidLayout, "no ElementArrangement has the value " + std::to_string(value));
  }
  return static_cast<ElementArrangement>(value);
}

Layout make_layout(Integers device_size, Integers stride_map, int format, int arrangement) {
  return {std::move(device_size), std::move(stride_map), format_of(format), arrangement_of(arrangement)};
}

py::tuple layout_parts(const Layout& layout) {
  return py::make_tuple(layout.device_size, layout.stride_map, static_cast<int>(layout.format),
                        static_cast<int>(layout.arrangement));
}

// --- copies ----------------------------------------------------------------------------------------------------------
// Strides come in bytes from numpy; the caller guarantees whole elements and no negative ones.
HostView view_host(const py::array& array, DType dtype, void* data) {
  if (array.itemsize() != host_itemsize(dtype)) {
    fail(Fault::InvalidArgument, std::string("an array of ") + std::to_string(array.itemsize()) +
                                     "-byte elements does not hold the bits of " + name(dtype));
  }
  HostView view{data, dtype, {}, {}};
  for (py::ssize_t dim = 0; dim < array.ndim(); ++dim) {
    view.size.push_back(array.shape(dim));
    view.stride.push_back(array.strides(dim) / array.itemsize());
  }
  return view;
}

DeviceView view_device(const Buffer& buffer, const ShapePtr& shape) {
  const Block& block = buffer.block();
  if (static_cast<uint64_t>(shape->device_bytes()) > block.bytes) {
    fail(Fault::InvalidArgument, "a buffer of " + std::to_string(block.bytes) + " bytes is too small for " +
                                     shape->layout().str() + ", which takes " + std::to_string(shape->device_bytes()));
  }
  return {shape, block.card->translate(block.address), shape->dtype(), 0, shape->host_size(), shape->host_stride()};
}

template <typename Copy>
void run_on_stream(const Buffer& buffer, int64_t stream_id, CopyWay way, const char* what, size_t bytes, Copy copy) {
  py::gil_scoped_release unlocked;
  Stream& stream = buffer.block().card->stream(stream_id);
  count_copy(stream, way, bytes);
  const LentWork work(copy);
  work.wait(stream, stream.submit(what, work.task(), buffer.block().bytes > kLengthyCopyBytes));
}

void copy_array_in(const py::array& array, const std::string& dtype, const Buffer& buffer, const ShapePtr& shape,
                   int64_t stream) {
  // The DMA reads from a source view; its pointer type serves both directions.
  const HostView host = view_host(array, dtype_named(dtype), const_cast<void*>(array.data()));
  const DeviceView device = view_device(buffer, shape);
  run_on_stream(buffer, stream, CopyWay::ToCard, "copy to the card", static_cast<size_t>(array.nbytes()),
                [&] { copy_in(host, device); });
}

void copy_array_out(const Buffer& buffer, const ShapePtr& shape, py::array array, const std::string& dtype,
                    int64_t stream) {
  const HostView host = view_host(array, dtype_named(dtype), array.mutable_data());
  const DeviceView device = view_device(buffer, shape);
  run_on_stream(buffer, stream, CopyWay::FromCard, "copy from the card", static_cast<size_t>(array.nbytes()),
                [&] { copy_out(device, host); });
  warn_of_notices();
}

// The device bytes of a buffer as they lie there, padding included.
py::bytes read_memory(const Buffer& buffer) {
  const Block& block = buffer.block();
  {
    py::gil_scoped_release unlocked;
    block.card->synchronize();
  }
  return {reinterpret_cast<const char*>(block.card->translate(block.address)), block.requested};
}

void write_memory(const Buffer& buffer, const py::bytes& image) {
  const Block& block = buffer.block();
  const std::string_view bytes = image;
  if (bytes.size() > block.requested)
    fail(Fault::InvalidArgument,
         std::to_string(bytes.size()) + " bytes do not fit into a buffer of " + std::to_string(block.requested));
  py::gil_scoped_release unlocked;
  block.card->synchronize();
  std::byte* memory = block.card->translate(block.address);
  std::memcpy(memory, bytes.data(), bytes.size());
  if (Shadow* shadow = Shadow::of(memory)) shadow->set(memory, bytes.size(), ByteState::Initialised);
}

// --- conversions, for comparison with openspyre/spec/encodings.py ----------------------------------------------------
py::array_t<uint8_t> convert(Convert conversion, const py::array& source, int source_itemsize, int target_itemsize) {
  if (!conversion) fail(Fault::UnsupportedFormat, "there is no such conversion");
  if (source.itemsize() != source_itemsize || !(source.flags() & py::array::c_style)) {
    fail(Fault::InvalidArgument,
         "the source must be contiguous, with elements of " + std::to_string(source_itemsize) + " bytes");
  }
  const size_t count = static_cast<size_t>(source.size());
  py::array_t<uint8_t> target(static_cast<py::ssize_t>(count) * target_itemsize);
  const size_t done = conversion(source.data(), target.mutable_data(), count);
  if (done != count) fail(Fault::ValueOutOfRange, "the value at index " + std::to_string(done) + " does not fit");
  return target;
}

py::array_t<uint8_t> convert_to_device(const py::array& source, const std::string& host, const std::string& dtype,
                                       int format) {
  const DeviceElement element{dtype_named(dtype), format_of(format)};
  return convert(to_device(dtype_named(host), element), source, host_itemsize(dtype_named(host)),
                 device_itemsize(element.format));
}

py::array_t<uint8_t> convert_to_host(const py::array& source, const std::string& dtype, int format,
                                     const std::string& host) {
  const DeviceElement element{dtype_named(dtype), format_of(format)};
  return convert(to_host(element, dtype_named(host)), source, device_itemsize(element.format),
                 host_itemsize(dtype_named(host)));
}

// --- counters, as openspyre/spec/counters.py reads them --------------------------------------------------------------
py::bytes counters_image() {
  const Counters& now = counters();
  std::string image(sizeof now, '\0');
  const auto take = [&](const auto& part) {
    const auto* from = reinterpret_cast<const Count*>(&part);
    const auto at = static_cast<size_t>(reinterpret_cast<const char*>(&part) - reinterpret_cast<const char*>(&now));
    for (size_t word = 0; word < sizeof part / sizeof(Count); ++word) {
      const uint64_t value = from[word].load(std::memory_order_relaxed);
      std::memcpy(image.data() + at + word * sizeof value, &value, sizeof value);
    }
  };
  take(now.head);
  take(now.process);
  for (size_t card = 0; card < now.cards.size(); ++card)  // memory of cards that were never used stays untouched
    if (now.head.started.load() >> card & 1) take(now.cards[card]);
  return image;
}

void count_one(const std::string& name) {
  ProcessCounts& process = counters().process;
  if (name == "graph_compiles") return add(process.graph_compiles, 1);
  if (name == "text_cache_hits") return add(process.text_cache_hits, 1);
  if (name == "retiled_weights") return add(process.retiled_weights, 1);
  fail(Fault::InvalidArgument, "Python does not count '" + name + "'");
}

py::dict counter_dict(const MemoryStatistics::Counter& counter) {
  py::dict result;
  result["current"] = counter.current;
  result["peak"] = counter.peak;
  result["allocated"] = counter.allocated;
  result["freed"] = counter.freed;
  return result;
}

py::dict statistics_dict(const Card& card) {
  const MemoryStatistics statistics = card.memory_statistics();
  py::dict result;
  result["allocated_bytes"] = counter_dict(statistics.allocated_bytes);
  result["requested_bytes"] = counter_dict(statistics.requested_bytes);
  result["reserved_bytes"] = counter_dict(statistics.reserved_bytes);
  result["active_bytes"] = counter_dict(statistics.active_bytes);
  result["allocations"] = counter_dict(statistics.allocations);
  result["out_of_memory"] = statistics.out_of_memory;
  result["cache_flushes"] = statistics.cache_flushes;
  result["free_bytes"] = statistics.free_bytes;
  result["largest_free_block"] = statistics.largest_free_block;
  return result;
}

// --- the module ------------------------------------------------------------------------------------------------------
void bind_process(py::module_& m) {
  m.def(
      "configure",
      [](int cards, int threads, uint64_t memory_bytes, uint64_t host_reserve_bytes, double cache_watermark,
         bool sanitize, bool sanitize_strict, bool null, std::string isa, uint64_t core_span_bytes,
         uint64_t scratchpad_bytes) {
        configure({cards, threads, memory_bytes, host_reserve_bytes, cache_watermark, sanitize, sanitize_strict, null,
                   std::move(isa), core_span_bytes, scratchpad_bytes});
      },
      py::kw_only(), py::arg("cards"), py::arg("threads"), py::arg("memory_bytes"), py::arg("host_reserve_bytes"),
      py::arg("cache_watermark"), py::arg("sanitize"), py::arg("sanitize_strict"), py::arg("null"), py::arg("isa"),
      py::arg("core_span_bytes"), py::arg("scratchpad_bytes"));
  m.def("card_count", &card_count);
  m.def("card", &card, py::arg("index"), py::return_value_policy::reference, ReleaseGil());
  m.def("cards_started", &cards_started);
  m.def("in_bad_fork", &in_bad_fork);
  m.def("synchronize_all", &synchronize_all, ReleaseGil());
  m.def("worker_threads", &worker_threads);
  m.def("counters", &counters_image);
  m.def("count", &count_one, py::arg("name"));
  m.def("host_memory", [] {
    const HostMemory memory = host_memory();
    return std::pair(memory.total_bytes, memory.available_bytes);
  });
  m.def("build", [] {
    py::dict result;
    result["compiler"] = __VERSION__;
    result["cpp_standard"] = __cplusplus;
#ifdef NDEBUG
    result["assertions"] = false;
#else
    result["assertions"] = true;
#endif
    return result;
  });
}

void bind_card(py::module_& m) {
  py::class_<Card>(m, "Card")
      .def_property_readonly("index", &Card::index)
      .def_property_readonly("total_memory", &Card::total_memory)
      .def_property_readonly("base_address", &Card::base_address)
      .def_property_readonly("lost", &Card::lost)
      .def(
          "allocate",
          [](Card& card, size_t bytes, int64_t stream) { return std::make_unique<Buffer>(card, bytes, stream); },
          py::arg("size"), py::arg("stream") = kDefaultStream, ReleaseGil())
      .def("memory_statistics", &statistics_dict)
      .def("reset_peak_memory", &Card::reset_peak_memory)
      .def("reset_accumulated_memory", &Card::reset_accumulated_memory)
      .def("empty_cache", &Card::empty_cache, ReleaseGil())
      .def("stream", &Card::stream, py::arg("id") = kDefaultStream, py::return_value_policy::reference)
      .def("next_stream", &Card::next_stream, py::arg("high_priority") = false)
      .def("synchronize", &Card::synchronize, ReleaseGil())
      .def(
          "lose",
          [](Card& card, const std::string& why, std::optional<uint64_t> after) {
            card.lose(why, after.value_or(Card::kNow));
          },
          py::arg("why"), py::arg("after") = py::none(), ReleaseGil())
      .def("reset", &Card::reset, ReleaseGil())
      .def(
          "clear_scratchpads",
          [](Card& card) {
            card.synchronize();
            card.scratchpads().clear();
          },
          ReleaseGil());

  py::class_<Buffer>(m, "Buffer")
      .def_property_readonly("address", [](const Buffer& buffer) { return buffer.block().address; })
      .def_property_readonly("size_bytes", [](const Buffer& buffer) { return buffer.block().bytes; })
      .def_property_readonly("requested_bytes", [](const Buffer& buffer) { return buffer.block().requested; })
      .def("record_stream",
           [](Buffer& buffer, int64_t stream) { buffer.block().card->record_stream(&buffer.block(), stream); })
      .def("release", &Buffer::release)
      .def("read_memory", &read_memory)
      .def("write_memory", &write_memory, py::arg("image"));
}

void bind_streams(py::module_& m) {
  py::class_<Stream>(m, "Stream")
      .def_property_readonly("id", &Stream::id)
      .def_property_readonly("priority", &Stream::priority)
      .def_property_readonly("submitted", &Stream::submitted)
      .def_property_readonly("completed", &Stream::completed)
      .def("query", &Stream::query)
      .def("synchronize", &Stream::synchronize, ReleaseGil());

  py::class_<Event>(m, "Event")
      .def(py::init<bool>(), py::arg("timing") = false)
      .def_property_readonly("recorded", &Event::recorded)
      .def("record", &Event::record, ReleaseGil())
      .def("block", &Event::block, ReleaseGil())
      .def("query", &Event::query)
      .def("synchronize", &Event::synchronize, ReleaseGil())
      .def("elapsed_ms", &Event::elapsed_ms, py::arg("later"));
}

void bind_layouts(py::module_& m) {
  py::class_<BufferShape, std::shared_ptr<BufferShape>>(m, "BufferShape")
      .def_property_readonly("id", &BufferShape::id)
      .def_property_readonly("layout", [](const BufferShape& shape) { return layout_parts(shape.layout()); })
      .def_property_readonly("layout_text", [](const BufferShape& shape) { return shape.layout().str(); })
      .def_property_readonly("dtype", [](const BufferShape& shape) { return name(shape.dtype()); })
      .def_property_readonly("host_size", &BufferShape::host_size)
      .def_property_readonly("host_stride", &BufferShape::host_stride)
      .def_property_readonly("host_elements", &BufferShape::host_elements)
      .def_property_readonly("device_bytes", &BufferShape::device_bytes)
      .def("device_offset", &BufferShape::device_offset, py::arg("host_offset"));

  m.def(
      "tiled_layout",
      [](const Integers& host_size, const Integers& host_stride, int format, const Integers& dim_order,
         int arrangement) {
        return layout_parts(
            tiled_layout(host_size, host_stride, format_of(format), dim_order, arrangement_of(arrangement)));
      },
      py::arg("host_size"), py::arg("host_stride"), py::arg("format"), py::arg("dim_order"),
      py::arg("arrangement") = 0);
  m.def(
      "intern",
      [](const Integers& host_size, const Integers& host_stride, const std::string& dtype, Integers device_size,
         Integers stride_map, int format, int arrangement) {
        return std::const_pointer_cast<BufferShape>(
            intern(host_size, host_stride, dtype_named(dtype),
                   make_layout(std::move(device_size), std::move(stride_map), format, arrangement)));
      },
      py::arg("host_size"), py::arg("host_stride"), py::arg("dtype"), py::arg("device_size"), py::arg("stride_map"),
      py::arg("format"), py::arg("arrangement") = 0);
  m.def(
      "intern_default",
      [](const Integers& host_size, const Integers& host_stride, const std::string& dtype) {
        return std::const_pointer_cast<BufferShape>(intern_default(host_size, host_stride, dtype_named(dtype)));
      },
      py::arg("host_size"), py::arg("host_stride"), py::arg("dtype"));
}

void bind_copies(py::module_& m) {
  m.def("copy_in", &copy_array_in, py::arg("array"), py::arg("dtype"), py::arg("buffer"), py::arg("shape"),
        py::arg("stream") = kDefaultStream);
  m.def("copy_out", &copy_array_out, py::arg("buffer"), py::arg("shape"), py::arg("array"), py::arg("dtype"),
        py::arg("stream") = kDefaultStream);
  m.def("convert_to_device", &convert_to_device, py::arg("source"), py::arg("host"), py::arg("dtype"),
        py::arg("format"));
  m.def("convert_to_host", &convert_to_host, py::arg("source"), py::arg("dtype"), py::arg("format"), py::arg("host"));
}

}  // namespace

PYBIND11_MODULE(_card, m) {
  py::register_local_exception_translator(&translate_error);
  set_site_source(&python_site);
  let_python_interrupt();
  bind_process(m);
  bind_card(m);
  bind_streams(m);
  bind_layouts(m);
  bind_copies(m);
  bind_programs(m);
  bind_images(m);
}
