// Rows in blocks: enough of them for long stretches of neighbouring sticks, few enough to stay in the cache. Hot pairs
// are converted from one side to the other at once, the others through scratch memory.
#include "dma/dma_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dma/dma_loops.h"
#include "dma/dma_sticks.h"

namespace openspyre::dma {
namespace {

constexpr int64_t kScratchBytes = 16 << 10;         // stays in the first-level cache next to what is read and written
constexpr int64_t kFewestRows = 8, kMostRows = 64;  // of a block: enough neighbouring sticks for long writes

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
      return t_.convert.run(host + r * row_.host * host_item_, scratch_.data() + r * pitch, count) == count;
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
      if (!t_.streaming) return t_.convert.run(scratch_.data() + r * pitch, target, count) == count;
      const bool fits = t_.convert.run(scratch_.data() + r * pitch, converted_.data(), count) == count;
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

// --- at once ---
// A block: `sticks` neighbours on the device times `rows` neighbours on the host. Both sides then see stretches that
// are long enough for their prefetchers, and partial lines meet again while they are in the cache.
class DirectMover {
 public:
  DirectMover(const Transfer& transfer, Piece piece) : t_(transfer), piece_(std::move(piece)) {
    loosen_tiles();
    sticks_ = take([](const Axis& axis) { return axis.device; });
    rows_ = take([](const Axis& axis) { return axis.host; });
    const int64_t row_bytes = piece_.row_elements() * std::max(t_.host_itemsize, t_.device_itemsize);
    most_sticks_ = std::min(sticks_.count, kMostSticks);
    most_rows_ = std::clamp<int64_t>(kBlockBytes / (most_sticks_ * row_bytes), 1, rows_.count);
  }

  void move() const {
    (void)around(piece_, {}, [&](int64_t host, int64_t device) {
      for (int64_t i = 0; i < sticks_.count; i += most_sticks_) {
        for (int64_t j = 0; j < rows_.count; j += most_rows_) {
          move_block(host + i * sticks_.host + j * rows_.host, device + i * sticks_.device + j * rows_.device,
                     std::min(most_sticks_, sticks_.count - i), std::min(most_rows_, rows_.count - j));
        }
      }
      return true;
    });
  }

 private:
  static constexpr int64_t kMostSticks = 32;
  static constexpr int64_t kBlockBytes = 32 << 10;  // of one side: both stay in the second-level cache

  // The tiles of a row that is one run are a loop like the others.
  void loosen_tiles() {
    if (piece_.row.size() != 1 || piece_.row[0].tiles == 1) return;
    Run& run = piece_.row[0];
    piece_.axes.push_back({run.tiles, run.lanes, 0, run.tile_stride});
    run.tiles = 1;
  }

  // Removes and returns the loop with the smallest stride.
  template <typename Stride>
  Axis take(Stride&& stride) {
    const auto first = std::min_element(piece_.axes.begin(), piece_.axes.end(),
                                        [&](const Axis& a, const Axis& b) { return stride(a) < stride(b); });
    if (first == piece_.axes.end()) return {1, 0, 0, 0};
    const Axis axis = *first;
    piece_.axes.erase(first);
    return axis;
  }

  void move_block(int64_t host, int64_t device, int64_t sticks, int64_t rows) const {
    for (const Run& run : piece_.row) {
      const convert::Grid::Loop inner = loop(sticks, sticks_.host, sticks_.device);
      const convert::Grid::Loop outer = loop(rows, rows_.host, rows_.device);
      if (run.tiles == 1) {
        move_grid(run.lanes, host, device + run.device, outer, inner);
      } else {
        const convert::Grid::Loop tiles = loop(run.tiles, run.lanes, run.tile_stride);
        for (int64_t r = 0; r < rows; ++r)
          move_grid(run.lanes, host + r * rows_.host, device + r * rows_.device + run.device, tiles, inner);
      }
      host += run.elements();
    }
  }

  convert::Grid::Loop loop(int64_t count, int64_t host, int64_t device) const {
    const int64_t host_bytes = host * t_.host_itemsize, device_bytes = device * t_.device_itemsize;
    if (t_.inbound) return {count, host_bytes, device_bytes};
    return {count, device_bytes, host_bytes};
  }

  void move_grid(int64_t lanes, int64_t host, int64_t device, convert::Grid::Loop outer,
                 convert::Grid::Loop inner) const {
    std::byte* host_at = t_.host + host * t_.host_itemsize;
    std::byte* device_at = t_.device + device * t_.device_itemsize;
    t_.convert.grid(
        {t_.inbound ? host_at : device_at, t_.inbound ? device_at : host_at, static_cast<size_t>(lanes), outer, inner},
        t_.streaming);
  }

  const Transfer& t_;
  Piece piece_;
  Axis sticks_, rows_;
  int64_t most_sticks_, most_rows_;
};

}  // namespace

bool move_rows(const Transfer& t, const Piece& piece) {
  if (t.convert.grid != nullptr) {
    DirectMover(t, piece).move();
    return true;
  }
  RowMover rows(t, piece);
  const std::array<const Axis*, 1> used{rows.rows()};
  return around(piece, used, [&](int64_t host, int64_t device) { return rows.move(host, device); });
}

}  // namespace openspyre::dma
