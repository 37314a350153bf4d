// Random shapes, strides and views for the DMA tests, with an oracle that places elements by the tiling rule itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "formats/layout.h"

namespace openspyre::testing {

using Sizes = std::vector<int64_t>;

struct Random {
  std::mt19937 engine;
  explicit Random(uint32_t seed) : engine(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(n)); }
  int64_t in(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
};

struct View {
  Sizes size, stride;
  int64_t offset = 0;
};

inline int64_t product(const Sizes& size) {
  return std::accumulate(size.begin(), size.end(), int64_t{1}, std::multiplies<>());
}

// Calls body(index) for every index, in row-major order.
template <typename Body>
void each_index(const Sizes& size, Body&& body) {
  if (product(size) == 0) return;
  Sizes index(size.size(), 0);
  while (true) {
    body(index);
    size_t dim = size.size();
    while (dim > 0 && ++index[dim - 1] == size[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

inline int64_t dot(const Sizes& index, const Sizes& stride) {
  return std::inner_product(index.begin(), index.end(), stride.begin(), int64_t{0});
}

inline int64_t span_of(const View& view) {
  int64_t last = view.offset;
  for (size_t i = 0; i < view.size.size(); ++i) last += (view.size[i] - 1) * view.stride[i];
  return last + 1;
}

inline Sizes random_sizes(Random& random, int64_t max_rank, int64_t max_elements) {
  Sizes size(static_cast<size_t>(random.below(max_rank + 1)));
  for (int64_t& n : size) n = random.chance(25) ? random.in(60, 200) : random.in(1, 9);
  while (product(size) > max_elements) {
    int64_t& largest = *std::max_element(size.begin(), size.end());
    largest = (largest + 1) / 2;
  }
  return size;
}

// Strides of a tensor whose dims lie in any order, now and then with gaps.
inline Sizes random_strides(Random& random, const Sizes& size, int gap_percent) {
  std::vector<size_t> order(size.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (random.chance(40)) std::shuffle(order.begin(), order.end(), random.engine);
  Sizes stride(size.size());
  int64_t next = random.chance(gap_percent / 2) ? 2 : 1;
  for (size_t i = order.size(); i-- > 0;) {
    stride[order[i]] = next;
    next *= size[order[i]];
    if (random.chance(gap_percent)) next += random.in(1, 5);
  }
  return stride;
}

inline void erase_dim(View& view, size_t dim) {
  view.size.erase(view.size.begin() + static_cast<int64_t>(dim));
  view.stride.erase(view.stride.begin() + static_cast<int64_t>(dim));
}

inline void slice(Random& random, View& view, size_t dim) {
  const int64_t n = view.size[dim], first = random.below(n), step = random.chance(60) ? 1 : random.in(1, 3);
  view.offset += first * view.stride[dim];
  view.size[dim] = random.in(1, (n - first + step - 1) / step);
  view.stride[dim] *= step;
}

inline void split(Random& random, View& view, size_t dim) {
  Sizes divisors;
  for (int64_t d = 1; d <= view.size[dim]; ++d) {
    if (view.size[dim] % d == 0) divisors.push_back(d);
  }
  const int64_t inner = divisors[static_cast<size_t>(random.below(static_cast<int64_t>(divisors.size())))];
  const auto at = static_cast<int64_t>(dim);
  view.size.insert(view.size.begin() + at, view.size[dim] / inner);
  view.stride.insert(view.stride.begin() + at, view.stride[dim] * inner);
  view.size[dim + 1] = inner;
}

inline void merge(View& view, size_t dim) {
  if (dim + 1 >= view.size.size() || view.stride[dim] != view.stride[dim + 1] * view.size[dim + 1]) return;
  view.size[dim + 1] *= view.size[dim];
  erase_dim(view, dim);
}

// Applies a few of torch's view operations. `may_repeat` allows expanded and overlapping (unfold-like) dims.
inline View random_view(Random& random, View view, bool may_repeat) {
  for (int64_t steps = random.below(5); steps > 0 && !view.size.empty(); --steps) {
    const auto dim = static_cast<size_t>(random.below(static_cast<int64_t>(view.size.size())));
    switch (random.below(may_repeat ? 7 : 5)) {
      case 0:
        slice(random, view, dim);
        break;
      case 1:
        std::swap(view.size[dim], view.size[0]), std::swap(view.stride[dim], view.stride[0]);
        break;
      case 2:
        split(random, view, dim);
        break;
      case 3:
        merge(view, dim);
        break;
      case 4:
        view.offset += random.below(view.size[dim]) * view.stride[dim];
        erase_dim(view, dim);
        break;
      case 5:
        view.size.push_back(random.in(1, 5));
        view.stride.push_back(0);
        break;
      default: {  // windows of `width`, one step apart
        const int64_t width = random.in(1, std::min<int64_t>(view.size[dim], 8));
        view.size[dim] -= width - 1;
        view.size.push_back(width);
        view.stride.push_back(view.stride[dim]);
      }
    }
  }
  return view;
}

// Where the tiling rule puts each host element: (host offset -> device element), straight from the definition.
inline std::vector<int64_t> place_by_rule(const View& host, const Layout& layout, const Sizes& dim_order) {
  std::vector<int64_t> places(static_cast<size_t>(product(host.size) ? span_of(host) : 0), -1);
  const bool sparse = dim_order.empty() || dim_order.back() == -1;
  const int64_t lanes = layout.device_size.back();
  const std::vector<int64_t>& device = layout.device_size;
  each_index(host.size, [&](const Sizes& index) {
    Sizes coordinates;
    for (size_t i = 1; i + 1 < dim_order.size(); ++i) coordinates.push_back(index[static_cast<size_t>(dim_order[i])]);
    const int64_t along = sparse ? 0 : index[static_cast<size_t>(dim_order.back())];
    coordinates.push_back(along / lanes);
    if (dim_order.size() > 1) coordinates.push_back(index[static_cast<size_t>(dim_order.front())]);
    coordinates.push_back(along % lanes);
    int64_t place = 0;
    for (size_t j = 0; j < device.size(); ++j) place = place * device[j] + coordinates[j];
    places[static_cast<size_t>(dot(index, host.stride))] = place;
  });
  return places;
}

// The same for explicit layouts, by enumerating device coordinates: of all that lead to a host offset, the one with the
// largest coordinates in the dims of largest stride holds the element (the others are padding).
inline std::vector<int64_t> place_by_search(const View& host, const Layout& layout) {
  std::vector<int64_t> places(static_cast<size_t>(span_of(host)), -1);
  std::vector<Sizes> best(places.size());
  std::vector<size_t> order(layout.device_size.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return layout.stride_map[a] > layout.stride_map[b]; });
  int64_t place = -1;
  each_index(layout.device_size, [&](const Sizes& coordinates) {
    ++place;
    int64_t offset = 0;
    Sizes key;
    for (size_t j : order) {
      if (layout.stride_map[j] <= 0 && coordinates[j] != 0) return;
      if (layout.stride_map[j] > 0) offset += coordinates[j] * layout.stride_map[j];
      key.push_back(coordinates[j]);
    }
    if (offset >= static_cast<int64_t>(places.size())) return;
    const auto at = static_cast<size_t>(offset);
    if (places[at] < 0 || key > best[at]) places[at] = place, best[at] = key;
  });
  return places;
}

}  // namespace openspyre::testing
