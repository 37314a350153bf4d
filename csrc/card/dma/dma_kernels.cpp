// Four ways to move a piece: rows (host and sticks advance together), transposed (through square blocks), strided (any
// strides, bits as they are), and scattered (converted, or element by element where the view is irregular).
#include "dma/dma_kernels.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dma/dma_loops.h"
#include "dma/dma_rows.h"
#include "dma/dma_sticks.h"
#include "dma/transpose.h"

namespace openspyre::dma {
namespace {

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
      if ((t.inbound ? t.convert.run(host_at, scratch_at, run) : t.convert.run(scratch_at, host_at, run)) != run)
        return false;
    }
    return true;
  };
  const StickGrid grid{t.device + device * item, unit.device * item, 0, by_unit.data(), kSquare * item, 0};
  if (t.inbound) {
    if (!convert_lanes()) return false;
    transpose({by_lane.data(), kSquare * item, by_unit.data(), kSquare * item, lanes, units}, t.device_itemsize);
    store_sticks(grid, units, 1, lanes * item, t.streaming);
    return true;
  }
  load_sticks(grid, units, 1, lanes * item);
  transpose({by_unit.data(), kSquare * item, by_lane.data(), kSquare * item, units, lanes}, t.device_itemsize);
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

// --- strided ---
constexpr int64_t kShort = 8;  // loops of fewer passes are not worth the way through sticks or squares
constexpr int64_t kNear = 64;  // elements

// The piece's loops, those of its row among them. By decreasing stride of the target, so that its lines are written
// while they are in the cache; but what lies within a few lines on both sides comes last, and of that the longer loop.
std::vector<Axis> loops_of(const Piece& piece, bool inbound) {
  std::vector<Axis> loops = piece.axes;
  if (!piece.row.empty()) {
    const Run& run = piece.row[0];
    loops.push_back({run.tiles, run.lanes, 0, run.tile_stride});
    loops.push_back({run.lanes, 1, 0, 1});
  }
  std::erase_if(loops, [](const Axis& axis) { return axis.count == 1; });
  const auto pitch = [](const Axis& axis) { return std::max(axis.host, axis.device); };
  const auto rank = [&](const Axis& axis) {
    return std::pair(pitch(axis) <= kNear ? 0 : inbound ? axis.device : axis.host, pitch(axis));
  };
  std::stable_sort(loops.begin(), loops.end(), [&](const Axis& a, const Axis& b) { return rank(a) > rank(b); });
  const size_t n = loops.size();
  if (n > 1 && loops[n - 1].count < kShort && loops[n - 2].count > loops[n - 1].count)
    std::swap(loops[n - 1], loops[n - 2]);
  return loops;
}

template <typename Item>
void copy_plane(const Item* from, Item* to, const Axis& outer, const Axis& inner, bool inbound) {
  const int64_t from_step = inbound ? inner.host : inner.device, to_step = inbound ? inner.device : inner.host;
  for (int64_t i = 0; i < outer.count; ++i) {
    if (from_step == 0 && to_step == 1) {  // one element, expanded
      std::fill_n(to, inner.count, *from);
    } else {
      for (int64_t j = 0; j < inner.count; ++j) to[j * to_step] = from[j * from_step];
    }
    from += inbound ? outer.host : outer.device;
    to += inbound ? outer.device : outer.host;
  }
}

template <typename Item>
void move_strided(const Transfer& t, const Piece& piece) {
  Piece walked = piece;
  walked.axes = loops_of(piece, t.inbound);
  if (!piece.row.empty()) walked.device += piece.row[0].device;
  const auto taken = [&walked] {
    const Axis axis = walked.axes.empty() ? Axis{1, 0, 0, 0} : walked.axes.back();
    if (!walked.axes.empty()) walked.axes.pop_back();
    return axis;
  };
  const Axis inner = taken(), outer = taken();
  auto *host = reinterpret_cast<Item*>(t.host), *device = reinterpret_cast<Item*>(t.device);
  (void)around(walked, {}, [&](int64_t at_host, int64_t at_device) {
    copy_plane(t.inbound ? host + at_host : device + at_device, t.inbound ? device + at_device : host + at_host, outer,
               inner, t.inbound);
    return true;
  });
}

bool is_strided(const Transfer& t, const Piece& piece, const Axis* lane, const Axis* unit) {
  if (t.convert.copied_bytes == 0 || piece.irregular || piece.row.size() > 1) return false;
  if (!piece.row.empty()) return piece.row[0].lanes < kShort && !piece.axes.empty();
  if (lane == nullptr || unit == nullptr || unit->device <= 0) return true;
  return lane->count < kShort || unit->count < kShort;
}

void move_strided(const Transfer& t, const Piece& piece) {
  switch (t.device_itemsize) {
    case 1:
      return move_strided<uint8_t>(t, piece);
    case 2:
      return move_strided<uint16_t>(t, piece);
    case 4:
      return move_strided<uint32_t>(t, piece);
    default:
      return move_strided<uint64_t>(t, piece);
  }
}

// --- scattered ---
constexpr size_t kBatch = 256;

bool move_batch(const Transfer& t, std::span<const int64_t> host, std::span<const int64_t> device) {
  alignas(64) std::array<std::byte, kBatch * 8> gathered, converted;
  const size_t n = host.size();
  if (t.inbound) {
    gather(t.host, host, gathered.data(), t.host_itemsize);
    if (t.convert.run(gathered.data(), converted.data(), n) != n) return false;
    scatter(converted.data(), t.device, device, t.device_itemsize);
    return true;
  }
  gather(t.device, device, gathered.data(), t.device_itemsize);
  if (t.convert.run(gathered.data(), converted.data(), n) != n) return false;
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
  const Axis* lane = axis_with(piece, &Axis::device, 1);
  const Axis* unit = axis_with(piece, &Axis::host, 1);
  if (is_strided(t, piece, lane, unit)) {
    move_strided(t, piece);
    return true;
  }
  if (!piece.row.empty()) return move_rows(t, piece);
  if (!piece.irregular && lane != nullptr && unit != nullptr && unit->device > 0) {
    const std::array<const Axis*, 2> used{lane, unit};
    return around(piece, used,
                  [&](int64_t host, int64_t device) { return move_transposed(t, *lane, *unit, host, device); });
  }
  return move_scattered(t, piece);
}

}  // namespace openspyre::dma
