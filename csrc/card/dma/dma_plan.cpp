// Walks the ladder of a buffer's digits, from the largest step to the smallest. At each rung the loops either move this
// digit by a constant or stay below it; a single loop that carries into the digit is cut into head, whole periods and
// tail.
#include "dma/dma_plan.h"

#include <algorithm>
#include <string>

#include "error.h"
#include "formats/layout_text.h"

namespace openspyre::dma {
namespace {

constexpr int64_t kMostUnrolled = 16;  // passes of a loop that are done as pieces of their own
constexpr size_t kMostPieces = 256;    // beyond, decoding elements costs less than planning

struct Rung {
  int64_t step;  // in host elements
  int64_t device_stride;
  int64_t limit;  // at a group's first rung: offsets from here up lie in a gap or outside; otherwise 0
};

std::vector<Rung> ladder_of(const BufferShape& shape) {
  std::vector<Rung> ladder;
  for (const Group& group : shape.groups()) {
    int64_t limit = group.extent * group.base_stride;
    for (const Digit& digit : group.digits) {
      ladder.push_back({digit.step * group.base_stride, digit.device_stride, limit});
      limit = 0;
    }
  }
  return ladder;
}

// A piece on its way down: `rests` are what the rungs above left of each axis' view stride, `rest` of the offset.
struct Walk {
  Piece piece;
  std::vector<int64_t> rests;
  int64_t rest;
};

class Cutter {
 public:
  Cutter(const BufferShape& shape, std::vector<Piece>& pieces)
      : shape_(shape), ladder_(ladder_of(shape)), pieces_(pieces) {}

  void descend(Walk walk, size_t level) {
    for (; level < ladder_.size(); ++level) {
      const Rung& rung = ladder_[level];
      if (rung.limit != 0 && reach(walk, 0) >= rung.limit) reject(walk);
      if (reach(walk, rung.step) >= rung.step) return cut(std::move(walk), level);
      settle(walk, rung);
    }
    if (reach(walk, 0) != 0) reject(walk);
    pieces_.push_back(std::move(walk.piece));
  }

  [[noreturn]] void reject(const Walk& walk) const {
    std::vector<int64_t> size, stride;
    for (const Axis& axis : walk.piece.axes) {
      size.push_back(axis.count);
      stride.push_back(axis.view);
    }
    fail(Fault::InvalidArgument, "a view of size " + list_text(size) + ", strides " + list_text(stride) + ", offset " +
                                     std::to_string(walk.piece.view) + " leaves its buffer of size " +
                                     list_text(shape_.host_size()) + ", strides " + list_text(shape_.host_stride()));
  }

 private:
  // The furthest element's offset, each part of it modulo `step` (0: as it is).
  static int64_t reach(const Walk& walk, int64_t step) {
    int64_t sum = step ? walk.rest % step : walk.rest;
    for (size_t i = 0; i < walk.rests.size(); ++i) {
      sum += (walk.piece.axes[i].count - 1) * (step ? walk.rests[i] % step : walk.rests[i]);
    }
    return sum;
  }

  static void settle(Walk& walk, const Rung& rung) {
    for (size_t i = 0; i < walk.rests.size(); ++i) {
      walk.piece.axes[i].device += walk.rests[i] / rung.step * rung.device_stride;
      walk.rests[i] %= rung.step;
    }
    walk.piece.device += walk.rest / rung.step * rung.device_stride;
    walk.rest %= rung.step;
  }

  void cut(Walk walk, size_t level) {
    const int64_t step = ladder_[level].step;
    const size_t axis = steadiest(walk, step);
    if (axis == walk.rests.size()) return unroll(std::move(walk), level);
    const int64_t count = walk.piece.axes[axis].count;
    const int64_t stride = walk.rests[axis];
    const int64_t period = step / stride;
    const int64_t start = walk.rest % step;
    const int64_t head = start < stride ? 0 : std::min(count, (step - start + stride - 1) / stride);
    const int64_t periods = (count - head) / period;
    const int64_t tail = count - head - periods * period;
    if (head) descend(part(walk, axis, 0, head, 1), level);
    if (periods) descend(part(walk, axis, head, period, periods), level);
    if (tail) descend(part(walk, axis, count - tail, tail, 1), level);
  }

  // The loop that carries into the digit while all others stay within one of its steps; the number of loops: none does.
  static size_t steadiest(const Walk& walk, int64_t step) {
    for (size_t i = 0; i < walk.rests.size(); ++i) {
      const int64_t stride = walk.rests[i];
      if (walk.piece.axes[i].count == 1 || stride == 0 || stride > step || step % stride != 0) continue;
      int64_t others = walk.rest % stride;
      for (size_t j = 0; j < walk.rests.size(); ++j)
        if (j != i) others += (walk.piece.axes[j].count - 1) * (walk.rests[j] % step);
      if (others < stride) return i;
    }
    return walk.rests.size();
  }

  // Loops that meet, as those of windows that share elements, are told apart by doing the shortest of them in pieces.
  void unroll(Walk walk, size_t level) {
    const int64_t step = ladder_[level].step;
    size_t shortest = walk.rests.size(), carrying = 0;
    for (size_t i = 0; i < walk.rests.size(); ++i) {
      const int64_t count = walk.piece.axes[i].count;
      if (count == 1 || walk.rests[i] % step == 0) continue;
      ++carrying;
      if (shortest == walk.rests.size() || count < walk.piece.axes[shortest].count) shortest = i;
    }
    if (carrying < 2 || walk.piece.axes[shortest].count > kMostUnrolled || pieces_.size() > kMostPieces) {
      walk.piece.irregular = true;
      pieces_.push_back(std::move(walk.piece));
      return;
    }
    for (int64_t i = 0; i < walk.piece.axes[shortest].count; ++i) descend(part(walk, shortest, i, 1, 1), level);
  }

  // Indices [first, first + inner * outer) of an axis, as a loop of `outer` around one of `inner`.
  static Walk part(const Walk& walk, size_t axis, int64_t first, int64_t inner, int64_t outer) {
    Walk result = walk;
    const Axis whole = walk.piece.axes[axis];
    result.piece.host += first * whole.host;
    result.piece.view += first * whole.view;
    result.piece.device += first * whole.device;
    result.rest += first * walk.rests[axis];
    result.piece.axes[axis].count = inner;
    if (outer > 1) {
      result.piece.axes.push_back({outer, whole.host * inner, whole.view * inner, whole.device * inner});
      result.rests.push_back(walk.rests[axis] * inner);
    }
    return result;
  }

  const BufferShape& shape_;
  const std::vector<Rung> ladder_;
  std::vector<Piece>& pieces_;
};

// Drops loops of one step, orders the rest by decreasing host stride, and joins neighbours that continue each other.
void tidy(std::vector<Axis>& axes, bool by_device) {
  std::erase_if(axes, [](const Axis& axis) { return axis.count == 1; });
  const auto side = [by_device](const Axis& axis) { return by_device ? axis.device : axis.view; };
  std::sort(axes.begin(), axes.end(),
            [&](const Axis& a, const Axis& b) { return a.host != b.host ? a.host > b.host : side(a) > side(b); });
  for (size_t i = axes.size(); i-- > 1;) {
    const Axis inner = axes[i];
    Axis& outer = axes[i - 1];
    if (outer.host == inner.host * inner.count && side(outer) == side(inner) * inner.count) {
      outer = {outer.count * inner.count, inner.host, inner.view, inner.device};
      axes.erase(axes.begin() + static_cast<int64_t>(i));
    }
  }
}

// Takes the loops that are contiguous on both sides out of the axes: the lanes, and tiles that continue them.
void extract_row(Piece& piece) {
  const auto take = [&piece](auto&& matches) {
    const auto found = std::find_if(piece.axes.begin(), piece.axes.end(), matches);
    if (found == piece.axes.end()) return Axis{1, 0, 0, 0};
    const Axis axis = *found;
    piece.axes.erase(found);
    return axis;
  };
  const bool contiguous = std::any_of(piece.axes.begin(), piece.axes.end(),
                                      [](const Axis& axis) { return axis.host == 1 && axis.device == 1; });
  if (!contiguous && std::any_of(piece.axes.begin(), piece.axes.end(), [](const Axis& axis) { return axis.host == 1; }))
    return;
  const int64_t lanes =
      contiguous ? take([](const Axis& axis) { return axis.host == 1 && axis.device == 1; }).count : 1;
  const Axis tile = contiguous ? take([lanes](const Axis& axis) { return axis.host == lanes; }) : Axis{1, 0, 0, 0};
  piece.row.push_back({lanes, tile.count, 0, tile.device});
}

bool same_loops(const Piece& a, const Piece& b) {
  return std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(), [](const Axis& x, const Axis& y) {
    return x.count == y.count && x.host == y.host && x.device == y.device;
  });
}

// Head, whole sticks and tail of the same rows become one piece, so that each row is read once.
void join_rows(std::vector<Piece>& pieces) {
  for (size_t i = 1; i < pieces.size();) {
    Piece& before = pieces[i - 1];
    const Piece& piece = pieces[i];
    const bool follows = !before.row.empty() && !piece.row.empty() && piece.host == before.host + before.row_elements();
    if (!follows || !same_loops(before, piece)) {
      ++i;
      continue;
    }
    for (Run run : piece.row) {
      run.device += piece.device - before.device;
      before.row.push_back(run);
    }
    pieces.erase(pieces.begin() + static_cast<int64_t>(i));
  }
}

}  // namespace

int64_t Piece::row_elements() const {
  int64_t elements = 0;
  for (const Run& run : row) elements += run.elements();
  return elements;
}

int64_t Piece::elements() const {
  int64_t elements = row.empty() ? 1 : row_elements();
  for (const Axis& axis : axes) elements *= axis.count;
  return elements;
}

std::vector<Axis> merged_axes(std::span<const int64_t> size, std::span<const int64_t> host_stride,
                              std::span<const int64_t> view_stride) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < size.size(); ++i) axes.push_back({size[i], host_stride[i], view_stride[i], 0});
  tidy(axes, false);
  return axes;
}

std::vector<Piece> plan(const BufferShape& shape, int64_t view_offset, std::vector<Axis> axes) {
  std::vector<Piece> pieces;
  Walk walk{{std::move(axes), {}, 0, view_offset, 0, false}, {}, view_offset};
  bool forwards = view_offset >= 0;
  for (const Axis& axis : walk.piece.axes) {
    forwards = forwards && axis.view >= 0;
    walk.rests.push_back(axis.view);
  }
  Cutter cutter(shape, pieces);
  if (!forwards) cutter.reject(walk);  // digits of what is negative would lie before the buffer
  cutter.descend(std::move(walk), 0);
  for (Piece& piece : pieces) {
    if (piece.irregular) continue;
    tidy(piece.axes, true);
    extract_row(piece);
  }
  join_rows(pieces);
  return pieces;
}

}  // namespace openspyre::dma
