// The table of buffer shapes: equal shapes share one object and one id.
#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "error.h"
#include "formats/layout.h"
#include "formats/layout_groups.h"
#include "formats/layout_text.h"

namespace openspyre {
namespace {

using Sizes = std::span<const int64_t>;

constexpr size_t kTableLimit = 8192;

struct Hash {
  uint64_t state = 0x9E3779B97F4A7C15ull;
  void add(uint64_t value) {
    state = (state ^ value) * 0xFF51AFD7ED558CCDull;
    state ^= state >> 32;
  }
  void add(Sizes values) {
    add(values.size());
    for (int64_t value : values) add(static_cast<uint64_t>(value));
  }
};

uint64_t hash_of(Sizes size, Sizes stride, DType dtype) {
  Hash hash;
  hash.add(static_cast<uint64_t>(dtype));
  hash.add(size);
  hash.add(stride);
  return hash.state;
}

uint64_t hash_of(Sizes size, Sizes stride, DType dtype, const Layout& layout) {
  Hash hash{hash_of(size, stride, dtype)};
  hash.add(static_cast<uint64_t>(layout.format) << 8 | static_cast<uint64_t>(layout.arrangement));
  hash.add(layout.device_size);
  hash.add(layout.stride_map);
  return hash.state;
}

struct AlreadyHashed {
  size_t operator()(uint64_t hash) const { return hash; }
};

std::string described(Sizes size, Sizes stride, const Layout& layout) {
  return layout.str() + " does not fit a tensor of size " + list_text(size) + ", strides " + list_text(stride) + ": ";
}

[[noreturn]] void misfit(Sizes size, Sizes stride, const Layout& layout, const std::string& what) {
  fail(Fault::InvalidLayout, described(size, stride, layout) + what);
}

// Whether all offsets, and with them all of the layout's arithmetic, stay far from overflowing.
bool countable(Sizes size, Sizes stride, const Layout& layout) {
  constexpr __int128 kMost = __int128{1} << 62;
  __int128 reach = 0, bytes = kStickBytes;
  for (size_t i = 0; i < size.size(); ++i) reach = std::min(kMost, reach + static_cast<__int128>(size[i]) * stride[i]);
  for (const int64_t count : layout.device_size) bytes = std::min(kMost, bytes * std::max<int64_t>(1, count));
  return reach < kMost && bytes < kMost;
}

void check_layout(Sizes size, Sizes stride, DType dtype, const Layout& layout) {
  const auto reject = [&](const std::string& what) { misfit(size, stride, layout, what); };
  const auto below = [](Sizes values, int64_t limit) {
    return std::any_of(values.begin(), values.end(), [limit](int64_t value) { return value < limit; });
  };
  if (size.size() != stride.size() || below(size, 0) || below(stride, 0)) {
    reject("size and strides need one non-negative entry per dimension each");
  }
  if (to_device(dtype, {dtype, layout.format}) == nullptr) {
    fail(Fault::UnsupportedFormat, std::string("a tensor of ") + name(dtype) + " cannot be held in " +
                                       name(layout.format) + "; its default format is " + name(device_format(dtype)));
  }
  if (layout.device_size.empty() || layout.device_size.size() != layout.stride_map.size()) {
    reject("device_size and stride_map need the same number of entries, at least one");
  }
  if (layout.device_size.back() != elems_per_stick(layout.format)) {
    reject("the last device dim is the stick and must be " + std::to_string(elems_per_stick(layout.format)));
  }
  const bool empty = std::find(size.begin(), size.end(), 0) != size.end();
  if (below(layout.device_size, empty ? 0 : 1)) reject("device sizes must be positive");
  if (below(layout.stride_map, -1)) reject("strides in the map cannot be below -1");
  if (!countable(size, stride, layout)) reject("it has more elements than 62 bits can count");
}

// Each stride at least the next smaller one times its size: the dims can be told apart by division.
bool nests(Sizes size, Sizes stride) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] > 1) dims.emplace_back(stride[i], size[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t needed = 1;
  for (const auto& [dim_stride, dim_size] : dims) {
    if (dim_stride < needed) return false;
    needed = dim_stride * dim_size;
  }
  return true;
}

struct Folded {
  std::vector<int64_t> size, stride;
};

// Dense neighbours are merged, outermost first, until the rank is one a layout can tile.
Folded merge_dims(Sizes size, Sizes stride) {
  Folded folded;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 1) continue;
    folded.size.push_back(size[i]);
    folded.stride.push_back(stride[i]);
  }
  for (size_t i = 0; i + 1 < folded.size.size() && folded.size.size() > kMaxRank;) {
    if (folded.stride[i] == folded.stride[i + 1] * folded.size[i + 1]) {
      folded.size[i + 1] *= folded.size[i];
      folded.size.erase(folded.size.begin() + static_cast<int64_t>(i));
      folded.stride.erase(folded.stride.begin() + static_cast<int64_t>(i));
    } else {
      ++i;
    }
  }
  return folded;
}

Folded fold(Sizes size, Sizes stride) {
  Folded folded{{size.begin(), size.end()}, {stride.begin(), stride.end()}};
  const int64_t elements = count_host_elements(size, stride);
  if (elements != 0 && !nests(size, stride)) return {{elements}, {1}};
  if (size.size() <= kMaxRank) return folded;
  if (elements == 0) return {{0}, {1}};
  folded = merge_dims(size, stride);
  return folded.size.size() <= kMaxRank ? folded : Folded{{elements}, {1}};
}

}  // namespace

struct ShapeTable {
  struct Request {
    std::vector<int64_t> size, stride;
    DType dtype;
    ShapePtr shape;
  };
  std::shared_mutex mutex;
  std::unordered_multimap<uint64_t, ShapePtr, AlreadyHashed> shapes;   // by size, stride, dtype and layout
  std::unordered_multimap<uint64_t, Request, AlreadyHashed> defaults;  // by size, stride and dtype, as asked for
  uint64_t next_id = 1;
  size_t sweep_at = kTableLimit;

  static ShapeTable& instance() {
    static ShapeTable* table = new ShapeTable;  // outlives every buffer
    return *table;
  }

  ShapePtr find(uint64_t hash, Sizes size, Sizes stride, DType dtype, const Layout& layout) const {
    const auto [begin, end] = shapes.equal_range(hash);
    for (auto entry = begin; entry != end; ++entry) {
      const BufferShape& shape = *entry->second;
      if (shape.dtype_ == dtype && std::ranges::equal(shape.host_size_, size) &&
          std::ranges::equal(shape.host_stride_, stride) && shape.layout_ == layout) {
        return entry->second;
      }
    }
    return nullptr;
  }

  ShapePtr find_default(uint64_t hash, Sizes size, Sizes stride, DType dtype) const {
    const auto [begin, end] = defaults.equal_range(hash);
    for (auto entry = begin; entry != end; ++entry) {
      const Request& request = entry->second;
      if (request.dtype == dtype && std::ranges::equal(request.size, size) &&
          std::ranges::equal(request.stride, stride)) {
        return request.shape;
      }
    }
    return nullptr;
  }

  static std::shared_ptr<BufferShape> make(Sizes size, Sizes stride, DType dtype, const Layout& layout) {
    check_layout(size, stride, dtype, layout);
    std::shared_ptr<BufferShape> shape(new BufferShape);
    shape->layout_ = layout;
    shape->dtype_ = dtype;
    shape->host_size_.assign(size.begin(), size.end());
    shape->host_stride_.assign(stride.begin(), stride.end());
    shape->host_elements_ = count_host_elements(size, stride);
    shape->device_bytes_ = layout.device_bytes();
    if (shape->host_elements_ == 0) return shape;
    std::optional<std::vector<Group>> groups = find_groups(size, stride, layout);
    if (!groups)
      misfit(size, stride, layout,
             "some elements have no place; derive the layout from size and strides, or enlarge it");
    shape->groups_ = std::move(*groups);
    const std::vector<int64_t> strides = device_strides(layout);
    for (size_t j = 0; j < strides.size(); ++j) {
      if (layout.stride_map[j] == 0 && layout.device_size[j] > 1) {
        shape->replicas_.push_back({0, layout.device_size[j], strides[j]});
      }
    }
    return shape;
  }

  // The caller holds the lock exclusively.
  ShapePtr insert(uint64_t hash, std::shared_ptr<BufferShape> shape) {
    if (ShapePtr existing = find(hash, shape->host_size_, shape->host_stride_, shape->dtype_, shape->layout_))
      return existing;
    if (shapes.size() >= sweep_at) sweep();
    shape->id_ = next_id++;
    return shapes.emplace(hash, std::move(shape))->second;
  }

  void sweep() {
    defaults.clear();  // only a way to shapes; those in use are found again
    std::erase_if(shapes, [](const auto& entry) { return entry.second.use_count() == 1; });
    sweep_at = std::max(kTableLimit, 2 * shapes.size());
  }
};

int64_t BufferShape::device_offset(int64_t host_offset) const {
  int64_t rest = host_offset, offset = 0;
  bool inside = host_offset >= 0 && host_elements_ > 0;
  for (const Group& group : groups_) {
    if (!inside) break;
    const int64_t x = rest / group.base_stride;
    rest %= group.base_stride;
    inside = x < group.extent;
    offset += inside ? group.device_offset(x) : 0;
  }
  if (!inside || rest != 0) {
    fail(Fault::InvalidArgument, "host offset " + std::to_string(host_offset) +
                                     " is not an element of a buffer of size " + list_text(host_size_) + ", strides " +
                                     list_text(host_stride_) + " (" + std::to_string(host_elements_) +
                                     " host elements, gaps not counted)");
  }
  return offset;
}

ShapePtr intern(Sizes host_size, Sizes host_stride, DType dtype, const Layout& layout) {
  ShapeTable& table = ShapeTable::instance();
  const uint64_t hash = hash_of(host_size, host_stride, dtype, layout);
  {
    std::shared_lock lock(table.mutex);
    if (ShapePtr shape = table.find(hash, host_size, host_stride, dtype, layout)) return shape;
  }
  std::shared_ptr<BufferShape> made = ShapeTable::make(host_size, host_stride, dtype, layout);
  std::unique_lock lock(table.mutex);
  return table.insert(hash, std::move(made));
}

ShapePtr intern_default(Sizes host_size, Sizes host_stride, DType dtype) {
  ShapeTable& table = ShapeTable::instance();
  const uint64_t hash = hash_of(host_size, host_stride, dtype);
  {
    std::shared_lock lock(table.mutex);
    if (ShapePtr shape = table.find_default(hash, host_size, host_stride, dtype)) return shape;
  }
  const Folded folded = fold(host_size, host_stride);
  std::vector<int64_t> order(folded.size.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const ShapePtr shape =
      intern(folded.size, folded.stride, dtype, tiled_layout(folded.size, folded.stride, device_format(dtype), order));
  std::unique_lock lock(table.mutex);
  if (ShapePtr existing = table.find_default(hash, host_size, host_stride, dtype)) return existing;
  if (table.defaults.size() >= kTableLimit) table.sweep();
  table.defaults.emplace(
      hash, ShapeTable::Request{
                {host_size.begin(), host_size.end()}, {host_stride.begin(), host_stride.end()}, dtype, shape});
  return shape;
}

size_t interned_shapes() {
  ShapeTable& table = ShapeTable::instance();
  std::shared_lock lock(table.mutex);
  return table.shapes.size();
}

void clear_unused_shapes() {
  ShapeTable& table = ShapeTable::instance();
  std::unique_lock lock(table.mutex);
  table.sweep();
}

}  // namespace openspyre
