// The copies: checks, planning, division into tasks for the worker threads, errors.
#include "dma/dma.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "dma/dma_kernels.h"
#include "dma/dma_plan.h"
#include "dma/dma_sticks.h"
#include "error.h"
#include "formats/layout_text.h"
#include "sanitizer/sanitize_copy.h"
#include "sanitizer/sanitize_deeds.h"
#include "streams/card.h"
#include "streams/workers.h"

namespace openspyre {
namespace {

using dma::Axis;
using dma::Piece;
using dma::Run;
using dma::Transfer;

constexpr int64_t kTaskBytes = 256 << 10;    // both sides of a task fit the second-level cache
constexpr int64_t kParallelBytes = 1 << 20;  // below, waking workers costs more than it saves
// From here on the target would only push other data out of the cache. Below, whoever reads it next finds it there.
constexpr int64_t kStreamingBytes = 16 << 20;

// Elements staged at a time between two device layouts: what one thread has in its second-level cache, or enough for
// several to share.
int64_t stage_elements() { return (worker_threads() == 1 ? 64 : 256) << 10; }

int64_t count_elements(const std::vector<int64_t>& size) {
  int64_t elements = 1;
  for (int64_t n : size) elements *= n;
  return elements;
}

void check_sizes(const std::vector<int64_t>& source, const std::vector<int64_t>& target) {
  if (source != target) {
    fail(Fault::InvalidArgument, "cannot copy a tensor of size " + list_text(source) + " to one of size " +
                                     list_text(target) + "; expand or reshape one of them first");
  }
}

std::string element_text(DeviceElement element) {
  return std::string(name(element.dtype)) + " (" + name(element.format) + " on the card)";
}

[[noreturn]] void no_conversion(const std::string& source, const std::string& target) {
  fail(Fault::UnsupportedFormat,
       "no conversion from " + source + " to " + target + "; go over a type both sides have, such as float32");
}

DeviceElement element_of(const DeviceView& view) {
  const DeviceElement element = openspyre::element_of(view.shape, view.dtype);
  if (device_itemsize(element.format) != device_itemsize(view.shape->layout().format)) [[unlikely]]
    fail(Fault::UnsupportedFormat, "a buffer in " + std::string(name(view.shape->layout().format)) +
                                       " cannot be read as " + element_text(element) + ": elements of another width");
  return element;
}

// A long row, such as a 1-D tensor: by runs, and those by tiles, or by lanes if contiguous.
void divide_row(const Piece& piece, int64_t limit, std::vector<Piece>& tasks) {
  int64_t host = piece.host;
  for (const Run& run : piece.row) {
    const bool by_tiles = run.tiles > 1;
    const int64_t unit = by_tiles ? run.lanes : 1, count = by_tiles ? run.tiles : run.lanes;
    const int64_t length = std::max<int64_t>(1, limit / unit);
    for (int64_t first = 0; first < count; first += length) {
      const int64_t n = std::min(length, count - first);
      Piece part = piece;
      part.host = host + first * unit;
      part.device += first * (by_tiles ? run.tile_stride : 1);
      part.row = {by_tiles ? Run{run.lanes, n, run.device, run.tile_stride} : Run{n, 1, run.device, 0}};
      tasks.push_back(std::move(part));
    }
    host += run.elements();
  }
}

// The loop to cut: along it both sides advance least, so that a part lies close together on both.
Axis nearest(const Piece& piece, bool with_tiles) {
  const auto pitch = [&](const Axis& axis) { return std::max(axis.host, piece.irregular ? axis.view : axis.device); };
  std::vector<Axis> loops = piece.axes;
  if (with_tiles) loops.push_back({piece.row[0].tiles, piece.row[0].lanes, 0, piece.row[0].tile_stride});
  return *std::min_element(loops.begin(), loops.end(),
                           [&](const Axis& a, const Axis& b) { return pitch(a) < pitch(b); });
}

// Cuts a piece into tasks of about kTaskBytes.
void divide(const Piece& piece, int64_t itemsize, std::vector<Piece>& tasks) {
  const int64_t bytes = piece.elements() * itemsize;
  if (bytes <= kTaskBytes) {
    tasks.push_back(piece);
    return;
  }
  const bool tiled = piece.row.size() == 1 && piece.row[0].tiles > 1;
  if (piece.axes.empty() && !tiled) return divide_row(piece, kTaskBytes / itemsize, tasks);
  const Axis loop = nearest(piece, tiled);
  const auto axis = std::find(piece.axes.begin(), piece.axes.end(), loop);
  int64_t length = std::max<int64_t>(1, kTaskBytes / (bytes / loop.count));
  if (length > 64) length = length / 64 * 64;
  for (int64_t first = 0; first < loop.count; first += length) {
    Piece part = piece;
    part.host += first * loop.host;
    part.view += first * loop.view;
    part.device += first * loop.device;
    const int64_t count = std::min(length, loop.count - first);
    const auto position = part.axes.begin() + (axis - piece.axes.begin());
    if (axis == piece.axes.end()) {
      part.row[0].tiles = count;
    } else if (count > 1) {
      position->count = count;
    } else {
      part.axes.erase(position);
    }
    count > 1 ? tasks.push_back(std::move(part)) : divide(part, itemsize, tasks);
  }
}

bool run(Transfer transfer, const std::vector<Piece>& pieces) {
  int64_t elements = 0;
  for (const Piece& piece : pieces) elements += piece.elements();
  const int64_t bytes = elements * std::max(transfer.host_itemsize, transfer.device_itemsize);
  transfer.streaming = bytes >= kStreamingBytes;
  if (bytes < kParallelBytes) {
    return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) { return dma::move(transfer, piece); });
  }
  std::vector<Piece> tasks;
  for (const Piece& piece : pieces) divide(piece, transfer.host_itemsize, tasks);
  std::atomic<bool> fits = true;
  parallel_for(tasks.size(), [&](size_t i) {
    if (!dma::move(transfer, tasks[i])) fits = false;
    if (transfer.streaming) dma::finish_streaming();
  });
  return fits;
}

// Every element stands once for each combination of the replicated dims.
bool run_replicas(const Transfer& transfer, const std::vector<Piece>& pieces, std::span<const Digit> replicas) {
  if (replicas.empty()) return run(transfer, pieces);
  for (int64_t i = 0; i < replicas.front().count; ++i) {
    Transfer shifted = transfer;
    shifted.device += i * replicas.front().device_stride * transfer.device_itemsize;
    if (!run_replicas(shifted, pieces, replicas.subspan(1))) return false;
  }
  return true;
}

// A linear (host or staged) tensor against a view; elements are converted as told.
bool move_view(const DeviceView& view, std::byte* linear, int linear_itemsize, std::span<const int64_t> stride,
               const convert::Conversion& convert, bool inbound) {
  const std::vector<Piece> pieces =
      dma::plan(*view.shape, view.offset, dma::merged_axes(view.size, stride, view.stride));
  const Transfer transfer{
      view.shape.get(), linear,  view.memory, linear_itemsize, device_itemsize(view.shape->layout().format),
      convert,          inbound, false};
  return inbound ? run_replicas(transfer, pieces, view.shape->replicas()) : run(transfer, pieces);
}

std::vector<int64_t> dense_strides(std::span<const int64_t> size) {
  std::vector<int64_t> strides(size.size());
  int64_t stride = 1;
  for (size_t i = size.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= size[i];
  }
  return strides;
}

// Moves elements of this size without looking at them.
convert::Conversion keep_codes(int itemsize) {
  const DeviceElement element = itemsize == 1   ? DeviceElement{DType::Int8, DataFormat::SENINT8}
                                : itemsize == 2 ? DeviceElement{DType::Int16, DataFormat::SENINT16}
                                : itemsize == 4 ? DeviceElement{DType::Int32, DataFormat::IEEE_INT32}
                                                : DeviceElement{DType::Int64, DataFormat::IEEE_INT64};
  return convert::between(element, element);
}

// Only after a failure: looks for the first element, in index order, that the target cannot hold.
[[noreturn]] void report_value(const std::byte* linear, int itemsize, std::span<const int64_t> size,
                               std::span<const int64_t> stride, Convert convert, Convert to_int64,
                               const std::string& target) {
  std::vector<int64_t> index(size.size(), 0);
  std::array<std::byte, 8> ignored;
  while (true) {
    const std::byte* at = linear;
    for (size_t i = 0; i < size.size(); ++i) at += index[i] * stride[i] * itemsize;
    if (convert(at, ignored.data(), 1) == 0) {
      int64_t value = 0;
      to_int64(at, &value, 1);  // only integers can fail
      fail(Fault::ValueOutOfRange, "element " + list_text(index) + " is " + std::to_string(value) + ", which " +
                                       target + " cannot hold; clamp the values or use a floating type");
    }
    size_t dim = size.size();
    while (dim > 0 && ++index[dim - 1] == size[dim - 1]) index[--dim] = 0;
    if (dim == 0)
      fail(Fault::Internal, "a copy failed for a value that cannot be found again (was the source changed meanwhile?)");
  }
}

// --- card to card ---
struct Range {
  int64_t begin, end;  // host offsets
};

Range range_of(const DeviceView& view) {
  int64_t end = view.offset + 1;
  for (size_t i = 0; i < view.size.size(); ++i) end += (view.size[i] - 1) * view.stride[i];
  return {view.offset, end};
}

bool same_places(const DeviceView& a, const DeviceView& b) {
  return a.shape->id() == b.shape->id() && a.offset == b.offset && a.stride == b.stride;
}

bool covers_buffer(const DeviceView& view) {
  return view.offset == 0 && view.size == view.shape->host_size() && view.stride == view.shape->host_stride();
}

bool may_overlap(const DeviceView& a, const DeviceView& b) {
  if (a.memory + a.shape->device_bytes() <= b.memory || b.memory + b.shape->device_bytes() <= a.memory) return false;
  if (a.memory != b.memory || a.shape->id() != b.shape->id()) return true;
  const Range first = range_of(a), second = range_of(b);
  return first.begin < second.end && second.begin < first.end;
}

// Reads the source's codes into dense scratch memory and writes them, converted, to the target.
void stage(const DeviceView& source, const DeviceView& target, std::byte* scratch, const convert::Conversion& convert) {
  const int itemsize = device_itemsize(source.shape->layout().format);
  const std::vector<int64_t> strides = dense_strides(source.size);
  const convert::Conversion keep = convert::between(element_of(source), element_of(source));
  (void)move_view(source, scratch, itemsize, strides, keep, false);
  if (!move_view(target, scratch, itemsize, strides, convert, true)) {
    report_value(scratch, itemsize, source.size, strides, convert.run, to_host(element_of(source), DType::Int64),
                 element_text(element_of(target)));
  }
}

// Stages blocks that stay in the cache, cut along the outermost dims.
void stage_blocks(const DeviceView& source, const DeviceView& target, std::byte* scratch,
                  const convert::Conversion& convert, size_t dim) {
  const int64_t elements = count_elements(source.size);
  if (elements <= stage_elements()) return stage(source, target, scratch, convert);
  const int64_t count = source.size[dim];
  int64_t length = std::max<int64_t>(1, stage_elements() / (elements / count));
  if (length > 64) length = length / 64 * 64;
  for (int64_t first = 0; first < count; first += length) {
    DeviceView from = source, to = target;
    from.size[dim] = to.size[dim] = std::min(length, count - first);
    from.offset += first * source.stride[dim];
    to.offset += first * target.stride[dim];
    stage_blocks(from, to, scratch, convert, dim + 1);
  }
}

// Whole sticks, or halves that make one, go from layout to layout at once: where the source's lanes are contiguous and
// all alike, it is linear memory to the target. False: something else is better, or a value does not fit.
bool move_sticks(const DeviceView& source, const DeviceView& target, const convert::Conversion& convert) {
  const auto lanes_of = [](const DeviceView& view) { return elems_per_stick(view.shape->layout().format); };
  const auto in_sticks = [&](const std::vector<Piece>& pieces) {
    return pieces.size() == 1 && !pieces[0].irregular && pieces[0].row.size() == 1 &&
           pieces[0].row[0].lanes >= std::min(lanes_of(source), lanes_of(target));
  };
  const auto pieces =
      dma::plan(*source.shape, source.offset, dma::merged_axes(source.size, target.stride, source.stride));
  if (!in_sticks(pieces)) return false;
  const Run& run = pieces[0].row[0];
  DeviceView to = target;
  to.offset += pieces[0].host;
  std::vector<Axis> axes = pieces[0].axes;
  axes.push_back({run.tiles, run.lanes, 0, run.tile_stride});
  axes.push_back({run.lanes, 1, 0, 1});
  std::vector<int64_t> stride;
  to.size.clear();
  to.stride.clear();
  for (const Axis& axis : axes) {
    if (axis.host == 0) return false;  // places that are written again and again
    to.size.push_back(axis.count);
    to.stride.push_back(axis.host);
    stride.push_back(axis.device);
  }
  if (!in_sticks(dma::plan(*to.shape, to.offset, dma::merged_axes(to.size, stride, to.stride)))) return false;
  const int itemsize = device_itemsize(source.shape->layout().format);
  return move_view(to, source.memory + (pieces[0].device + run.device) * itemsize, itemsize, stride, convert, true);
}

void move_across(const DeviceView& source, const DeviceView& target, const convert::Conversion& convert, bool overlap) {
  if (same_places(source, target) && element_of(source) == element_of(target)) {
    if (source.memory == target.memory) return;
    if (covers_buffer(source)) {
      std::memcpy(target.memory, source.memory, static_cast<size_t>(source.shape->device_bytes()));
      return;
    }
  }
  if (!overlap && move_sticks(source, target, convert)) return;
  const int64_t elements = count_elements(source.size);
  const int64_t staged = overlap ? elements : std::min(elements, stage_elements());
  const int64_t itemsize = device_itemsize(source.shape->layout().format);
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(staged * itemsize));
  overlap ? stage(source, target, scratch.get(), convert) : stage_blocks(source, target, scratch.get(), convert, 0);
}

}  // namespace

DeviceElement element_of(const ShapePtr& shape, DType dtype) {
  return {dtype, dtype == shape->dtype() ? shape->layout().format : device_format(dtype)};
}

void copy_in(const HostView& source, const DeviceView& target) {
  check_sizes(source.size, target.size);
  const convert::Conversion convert = convert::to_device(source.dtype, element_of(target));
  if (convert.run == nullptr) no_conversion(name(source.dtype), element_text(element_of(target)));
  if (count_elements(target.size) == 0 || configuration().null) return;
  std::optional<sanitize::AtWork> at_work;
  if (configuration().sanitize) at_work.emplace();
  sanitize::copying_in(target);
  auto* data = static_cast<std::byte*>(source.data);
  const int itemsize = host_itemsize(source.dtype);
  if (!move_view(target, data, itemsize, source.stride, convert, true)) {
    report_value(data, itemsize, source.size, source.stride, convert.run,
                 to_device(source.dtype, {DType::Int64, DataFormat::IEEE_INT64}), element_text(element_of(target)));
  }
  sanitize::copied_in(target);
}

void copy_out(const DeviceView& source, const HostView& target) {
  check_sizes(source.size, target.size);
  const convert::Conversion convert = convert::to_host(element_of(source), target.dtype);
  if (convert.run == nullptr) no_conversion(element_text(element_of(source)), name(target.dtype));
  if (count_elements(source.size) == 0) return;
  sanitize::copying_out(source);
  if (!move_view(source, static_cast<std::byte*>(target.data), host_itemsize(target.dtype), target.stride, convert,
                 false)) {
    fail(Fault::Internal, "a value of " + element_text(element_of(source)) + " has no place in " + name(target.dtype));
  }
}

void copy_across(const DeviceView& source, const DeviceView& target) {
  check_sizes(source.size, target.size);
  const convert::Conversion convert = convert::between(element_of(source), element_of(target));
  if (convert.run == nullptr) no_conversion(element_text(element_of(source)), element_text(element_of(target)));
  if (count_elements(source.size) == 0 || configuration().null) return;
  const bool overlap = may_overlap(source, target);
  if (!configuration().sanitize) return move_across(source, target, convert, overlap);
  const sanitize::AtWork at_work;
  sanitize::copying_across(source, target);
  const auto act = [&] { move_across(source, target, convert, overlap); };
  overlap ? act() : sanitize::watch_copy(target, act);
}

void read_codes(const DeviceView& source, std::byte* dense) {
  const int itemsize = device_itemsize(source.shape->layout().format);
  (void)move_view(source, dense, itemsize, dense_strides(source.size), keep_codes(itemsize), false);
}

void write_codes(const std::byte* dense, const DeviceView& target) {
  const int itemsize = device_itemsize(target.shape->layout().format);
  (void)move_view(target, const_cast<std::byte*>(dense), itemsize, dense_strides(target.size), keep_codes(itemsize),
                  true);
}

void read_image(const BufferShape& shape, const std::byte* memory, void* image) {
  const ShapePtr borrowed(ShapePtr(), &shape);
  copy_out({borrowed, const_cast<std::byte*>(memory), shape.dtype(), 0, shape.host_size(), shape.host_stride()},
           {image, shape.dtype(), shape.host_size(), shape.host_stride()});
}

void write_image(const BufferShape& shape, std::byte* memory, const void* image) {
  const ShapePtr borrowed(ShapePtr(), &shape);
  copy_in({const_cast<void*>(image), shape.dtype(), shape.host_size(), shape.host_stride()},
          {borrowed, memory, shape.dtype(), 0, shape.host_size(), shape.host_stride()});
}

}  // namespace openspyre
