// Three ways to move a piece: rows (host and sticks advance together), transposed (through square blocks), and
// scattered (any strides, or element by element where the view is irregular).
#include "dma_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dma_sticks.h"

namespace openspyre::dma {
namespace {

constexpr int64_t kScratchBytes = 16 << 10;         // stays in the first-level cache next to what is read and written
constexpr int64_t kFewestRows = 8, kMostRows = 64;  // of a block: enough neighbouring sticks for long writes

// Calls body(host, device) for every combination of the loops except those in `inner`.
template <typename Body>
bool around(const Piece& piece, std::span<const Axis* const> inner, Body&& body) {
  std::vector<const Axis*> loops;
  for (const Axis& axis : piece.axes) {
    if (std::find(inner.begin(), inner.end(), &axis) == inner.end()) loops.push_back(&axis);
  }
  std::vector<int64_t> index(loops.size(), 0);
  int64_t host = piece.host, device = piece.device;
  while (true) {
    if (!body(host, device)) return false;
    size_t level = loops.size();
    while (level > 0) {
      const Axis& axis = *loops[level - 1];
      host += axis.host;
      device += axis.device;
      if (++index[level - 1] < axis.count) break;
      host -= axis.count * axis.host;
      device -= axis.count * axis.device;
      index[--level] = 0;
    }
    if (level == 0) return true;
  }
}

// --- rows ---

// A stretch of a row that goes through scratch memory at once: some tiles of some runs.
struct Stretch {
  int64_t host, elements;  // relative to the row
  std::vector<Run> parts;
};

// Cuts a row into stretches of at most `limit` elements.
std::vector<Stretch> stretches_of(const std::vector<Run>& row, int64_t limit) {
  std::vector<Stretch> stretches;
  int64_t host = 0;
  const auto add = [&](const Run& part) {
    if (stretches.empty() || stretches.back().elements + part.elements() > limit) stretches.push_back({host, 0, {}});
    stretches.back().parts.push_back(part);
    stretches.back().elements += part.elements();
    host += part.elements();
  };
  for (const Run& run : row) {
    const int64_t lanes = std::min(run.lanes, limit), tiles = std::max<int64_t>(1, limit / run.lanes);
    for (int64_t tile = 0; tile < run.tiles; tile += tiles) {
      const int64_t device = run.device + tile * run.tile_stride;
      for (int64_t lane = 0; lane < run.lanes; lane += lanes) {
        add({std::min(lanes, run.lanes - lane), std::min(tiles, run.tiles - tile), device + lane, run.tile_stride});
      }
    }
  }
  return stretches;
}

class RowMover {
 public:
  RowMover(const Transfer& transfer, const Piece& piece)
      : t_(transfer), item_(transfer.device_itemsize), host_item_(transfer.host_itemsize) {
    const int64_t widest = std::max(item_, host_item_);
    // The loop along which the target is most contiguous: neighbouring sticks, or rows that follow on the host.
    const auto pitch = [&](const Axis& axis) { return t_.inbound ? axis.device : axis.host; };
    for (const Axis& axis : piece.axes) {
      if (axis.device != 0 && (rows_ == nullptr || pitch(axis) < pitch(*rows_))) rows_ = &axis;
    }
    if (rows_ != nullptr) row_ = *rows_;
    const int64_t fitting = std::clamp(kScratchBytes / (piece.row_elements() * widest), kFewestRows, kMostRows);
    block_rows_ = std::min(row_.count, fitting);
    stretches_ = stretches_of(piece.row, kScratchBytes / block_rows_ / widest);
  }
  const Axis* rows() const { return rows_; }

  bool move(int64_t host, int64_t device) {
    for (int64_t r = 0; r < row_.count; r += block_rows_) {
      const int64_t rows = std::min(block_rows_, row_.count - r);
      for (const Stretch& stretch : stretches_) {
        std::byte* host_at = t_.host + (host + r * row_.host + stretch.host) * host_item_;
        std::byte* device_at = t_.device + (device + r * row_.device) * item_;
        if (!(t_.inbound ? move_in(stretch, rows, host_at, device_at) : move_out(stretch, rows, host_at, device_at)))
          return false;
      }
    }
    return true;
  }

 private:
  // Rows that follow each other on the host are converted as one run.
  template <typename Body>
  bool each_run(const Stretch& stretch, int64_t rows, Body&& body) const {
    if (row_.host == stretch.elements) return body(int64_t{0}, rows * stretch.elements);
    for (int64_t r = 0; r < rows; ++r) {
      if (!body(r, stretch.elements)) return false;
    }
    return true;
  }

  bool move_in(const Stretch& stretch, int64_t rows, std::byte* host, std::byte* device) {
    const int64_t pitch = stretch.elements * item_;
    const bool fits = each_run(stretch, rows, [&](int64_t r, int64_t n) {
      const auto count = static_cast<size_t>(n);
      return t_.convert(host + r * row_.host * host_item_, scratch_.data() + r * pitch, count) == count;
    });
    if (fits)
      each_part(stretch, device, pitch, [&](const StickGrid& grid, const Run& part) {
        store_sticks(grid, part.tiles, rows, part.lanes * item_, t_.streaming);
      });
    return fits;
  }

  bool move_out(const Stretch& stretch, int64_t rows, std::byte* host, const std::byte* device) {
    const int64_t pitch = stretch.elements * item_;
    each_part(stretch, const_cast<std::byte*>(device), pitch,
              [&](const StickGrid& grid, const Run& part) { load_sticks(grid, part.tiles, rows, part.lanes * item_); });
    return each_run(stretch, rows, [&](int64_t r, int64_t n) {
      const auto count = static_cast<size_t>(n);
      std::byte* target = host + r * row_.host * host_item_;
      if (!t_.streaming) return t_.convert(scratch_.data() + r * pitch, target, count) == count;
      const bool fits = t_.convert(scratch_.data() + r * pitch, converted_.data(), count) == count;
      stream_bytes(converted_.data(), target, n * host_item_);
      return fits;
    });
  }

  template <typename Body>
  void each_part(const Stretch& stretch, std::byte* device, int64_t pitch, Body&& body) {
    std::byte* scratch = scratch_.data();
    for (const Run& part : stretch.parts) {
      body(StickGrid{device + part.device * item_, part.tile_stride * item_, row_.device * item_, scratch,
                     part.lanes * item_, pitch},
           part);
      scratch += part.elements() * item_;
    }
  }

  const Transfer& t_;
  const int64_t item_, host_item_;
  int64_t block_rows_;
  std::vector<Stretch> stretches_;
  const Axis* rows_ = nullptr;
  Axis row_{1, 0, 0, 0};
  alignas(64) std::array<std::byte, kScratchBytes> scratch_, converted_;
};

// --- transposed ---
constexpr int64_t kSquare = 64;

bool move_square(const Transfer& t, const Axis& lane, const Axis& unit, int64_t host, int64_t device, int64_t lanes,
                 int64_t units) {
  alignas(64) std::array<std::byte, kSquare * kSquare * 8> by_lane, by_unit;
  const int64_t item = t.device_itemsize;
  const auto convert_lanes = [&] {
    const auto run = static_cast<size_t>(units);
    for (int64_t i = 0; i < lanes; ++i) {
      std::byte* host_at = t.host + (host + i * lane.host) * t.host_itemsize;
      std::byte* scratch_at = by_lane.data() + i * kSquare * item;
      if ((t.inbound ? t.convert(host_at, scratch_at, run) : t.convert(scratch_at, host_at, run)) != run) return false;
    }
    return true;
  };
  const StickGrid grid{t.device + device * item, unit.device * item, 0, by_unit.data(), kSquare * item, 0};
  if (t.inbound) {
    if (!convert_lanes()) return false;
    transpose_square(by_lane.data(), by_unit.data(), lanes, units, kSquare, t.device_itemsize);
    store_sticks(grid, units, 1, lanes * item, t.streaming);
    return true;
  }
  load_sticks(grid, units, 1, lanes * item);
  transpose_square(by_unit.data(), by_lane.data(), units, lanes, kSquare, t.device_itemsize);
  return convert_lanes();
}

bool move_transposed(const Transfer& t, const Axis& lane, const Axis& unit, int64_t host, int64_t device) {
  for (int64_t i = 0; i < lane.count; i += kSquare) {
    for (int64_t j = 0; j < unit.count; j += kSquare) {
      if (!move_square(t, lane, unit, host + i * lane.host + j, device + i + j * unit.device,
                       std::min(kSquare, lane.count - i), std::min(kSquare, unit.count - j))) {
        return false;
      }
    }
  }
  return true;
}

// --- scattered ---
constexpr size_t kBatch = 256;

bool move_batch(const Transfer& t, std::span<const int64_t> host, std::span<const int64_t> device) {
  alignas(64) std::array<std::byte, kBatch * 8> gathered, converted;
  const size_t n = host.size();
  if (t.inbound) {
    gather(t.host, host, gathered.data(), t.host_itemsize);
    if (t.convert(gathered.data(), converted.data(), n) != n) return false;
    scatter(converted.data(), t.device, device, t.device_itemsize);
    return true;
  }
  gather(t.device, device, gathered.data(), t.device_itemsize);
  if (t.convert(gathered.data(), converted.data(), n) != n) return false;
  scatter(converted.data(), t.host, host, t.host_itemsize);
  return true;
}

bool move_scattered(const Transfer& t, const Piece& piece) {
  std::array<int64_t, kBatch> host_offsets, device_offsets;
  size_t filled = 0;
  const auto flush = [&] {
    const bool fits = filled == 0 || move_batch(t, {host_offsets.data(), filled}, {device_offsets.data(), filled});
    filled = 0;
    return fits;
  };
  // An irregular piece walks the buffer's host space and decodes every offset.
  Piece walked = piece;
  if (piece.irregular) {
    walked.device = piece.view;
    for (Axis& axis : walked.axes) axis.device = axis.view;
  }
  const Axis inner = walked.axes.empty() ? Axis{1, 0, 0, 0} : walked.axes.back();
  if (!walked.axes.empty()) walked.axes.pop_back();
  const bool fits = around(walked, {}, [&](int64_t host, int64_t device) {
    for (int64_t i = 0; i < inner.count; ++i) {
      host_offsets[filled] = host + i * inner.host;
      const int64_t at = device + i * inner.device;
      device_offsets[filled] = piece.irregular ? t.shape->device_offset(at) : at;
      if (++filled == kBatch && !flush()) return false;
    }
    return true;
  });
  return fits && flush();
}

const Axis* axis_with(const Piece& piece, int64_t Axis::* stride, int64_t value, const Axis* except = nullptr) {
  for (const Axis& axis : piece.axes) {
    if (axis.*stride == value && &axis != except) return &axis;
  }
  return nullptr;
}

}  // namespace

bool move(const Transfer& t, const Piece& piece) {
  if (!piece.row.empty()) {
    RowMover rows(t, piece);
    const std::array<const Axis*, 1> used{rows.rows()};
    return around(piece, used, [&](int64_t host, int64_t device) { return rows.move(host, device); });
  }
  const Axis* lane = axis_with(piece, &Axis::device, 1);
  const Axis* unit = axis_with(piece, &Axis::host, 1);
  if (!piece.irregular && lane != nullptr && unit != nullptr && unit->device > 0) {
    const std::array<const Axis*, 2> used{lane, unit};
    return around(piece, used,
                  [&](int64_t host, int64_t device) { return move_transposed(t, *lane, *unit, host, device); });
  }
  return move_scattered(t, piece);
}

}  // namespace openspyre::dma
