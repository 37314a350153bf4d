// Three ways to move a piece: rows (host and sticks advance together), transposed (through square blocks), and
// scattered (any strides, or element by element where the view is irregular).
#include "dma_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dma_sticks.h"

namespace openspyre::dma {
namespace {

constexpr size_t kScratchBytes = 16 << 10;  // stays in the first-level cache next to what is read and written
constexpr int64_t kRowsPerBlock = 8;

// Calls body(host, device) for every combination of the loops except those in `inner`.
template <typename Body>
bool around(const Piece& piece, std::span<const Axis* const> inner, Body&& body) {
  std::array<const Axis*, 64> loops;
  std::array<int64_t, 64> index{};
  size_t depth = 0;
  for (const Axis& axis : piece.axes) {
    if (std::find(inner.begin(), inner.end(), &axis) == inner.end()) loops[depth++] = &axis;
  }
  int64_t host = piece.host, device = piece.device;
  while (true) {
    if (!body(host, device)) return false;
    size_t level = depth;
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
struct Rows {
  Axis lane{1, 1, 1, 1};  // both sides contiguous
  Axis tile{1, 0, 0, 0};  // continues the lanes on the host
  Axis row{1, 0, 0, 0};   // neighbouring sticks
};

bool move_run(const Transfer& t, int64_t host, int64_t device, int64_t n) {
  std::byte* host_at = t.host + host * t.host_itemsize;
  std::byte* device_at = t.device + device * t.device_itemsize;
  const auto count = static_cast<size_t>(n);
  return (t.inbound ? t.convert(host_at, device_at, count) : t.convert(device_at, host_at, count)) == count;
}

// A block of rows and tiles goes through scratch memory in device format.
bool move_block(const Transfer& t, const Rows& rows, int64_t host, int64_t device, int64_t row_count,
                int64_t tile_count) {
  alignas(64) std::array<std::byte, kScratchBytes> scratch;
  const int64_t lane_bytes = rows.lane.count * t.device_itemsize;
  const auto run = static_cast<size_t>(rows.lane.count * tile_count);
  const int64_t pitch = lane_bytes * tile_count;
  const auto convert_rows = [&] {
    for (int64_t r = 0; r < row_count; ++r) {
      std::byte* host_at = t.host + (host + r * rows.row.host) * t.host_itemsize;
      std::byte* scratch_at = scratch.data() + r * pitch;
      if ((t.inbound ? t.convert(host_at, scratch_at, run) : t.convert(scratch_at, host_at, run)) != run) return false;
    }
    return true;
  };
  const StickGrid grid{t.device + device * t.device_itemsize,
                       rows.tile.device * t.device_itemsize,
                       rows.row.device * t.device_itemsize,
                       scratch.data(),
                       lane_bytes,
                       pitch};
  if (t.inbound) {
    if (!convert_rows()) return false;
    store_sticks(grid, tile_count, row_count, lane_bytes, t.streaming);
    return true;
  }
  load_sticks(grid, tile_count, row_count, lane_bytes);
  return convert_rows();
}

bool move_rows(const Transfer& t, const Rows& rows, int64_t host, int64_t device) {
  const int64_t lane_bytes = rows.lane.count * t.device_itemsize;
  if (lane_bytes * kRowsPerBlock > static_cast<int64_t>(kScratchBytes)) {
    for (int64_t r = 0; r < rows.row.count; ++r) {
      for (int64_t i = 0; i < rows.tile.count; ++i) {
        if (!move_run(t, host + r * rows.row.host + i * rows.tile.host,
                      device + r * rows.row.device + i * rows.tile.device, rows.lane.count)) {
          return false;
        }
      }
    }
    return true;
  }
  const int64_t tiles = std::max<int64_t>(1, static_cast<int64_t>(kScratchBytes) / (lane_bytes * kRowsPerBlock));
  for (int64_t r = 0; r < rows.row.count; r += kRowsPerBlock) {
    for (int64_t i = 0; i < rows.tile.count; i += tiles) {
      if (!move_block(t, rows, host + r * rows.row.host + i * rows.tile.host,
                      device + r * rows.row.device + i * rows.tile.device, std::min(kRowsPerBlock, rows.row.count - r),
                      std::min(tiles, rows.tile.count - i))) {
        return false;
      }
    }
  }
  return true;
}

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

bool move_by_rows(const Transfer& t, const Piece& piece, const Axis* lane) {
  Rows rows;
  std::array<const Axis*, 3> used{};
  size_t count = 0;
  if (lane != nullptr) {
    rows.lane = *lane;
    used[count++] = lane;
  }
  if (const Axis* tile = axis_with(piece, &Axis::host, rows.lane.count, lane)) {
    rows.tile = *tile;
    used[count++] = tile;
  }
  const Axis* row = nullptr;
  for (const Axis& axis : piece.axes) {
    const bool taken = std::find(used.begin(), used.begin() + count, &axis) != used.begin() + count;
    if (!taken && axis.device != 0 && (row == nullptr || axis.device < row->device)) row = &axis;
  }
  if (row != nullptr) {
    rows.row = *row;
    used[count++] = row;
  }
  return around(piece, {used.data(), count},
                [&](int64_t host, int64_t device) { return move_rows(t, rows, host, device); });
}

}  // namespace

bool move(const Transfer& t, const Piece& piece) {
  if (piece.irregular || piece.axes.size() > 60) return move_scattered(t, piece);
  const Axis* lane = axis_with(piece, &Axis::device, 1);
  if ((lane != nullptr && lane->host == 1) || piece.axes.empty()) return move_by_rows(t, piece, lane);
  const Axis* unit = axis_with(piece, &Axis::host, 1);
  if (lane != nullptr && unit != nullptr && lane->count > 1 && unit->device > 0) {
    const std::array<const Axis*, 2> used{lane, unit};
    return around(piece, used,
                  [&](int64_t host, int64_t device) { return move_transposed(t, *lane, *unit, host, device); });
  }
  return move_scattered(t, piece);
}

}  // namespace openspyre::dma
