// Rows of A in groups that share a pass over B. Included by the loops that are compiled once per instruction set.
#pragma once

#include <cstdint>

#define CONTRACT_INLINE [[gnu::always_inline]] inline

namespace openspyre::contract {
namespace {

// visit.operator()<R>(first row) for groups of R rows: nearly equal heights, none above `most`.
template <int most, typename Visit>
CONTRACT_INLINE void visit_group(int64_t rows, int64_t first, Visit& visit) {
  if (rows == most)
    visit.template operator()<most>(first);
  else if constexpr (most > 1)
    visit_group<most - 1>(rows, first, visit);
}

template <int most, typename Visit>
CONTRACT_INLINE void visit_groups(int64_t rows, Visit visit) {
  const int64_t groups = (rows + most - 1) / most, base = rows / groups, larger = rows % groups;
  for (int64_t g = 0, row = 0; g < groups; ++g) {
    const int64_t height = base + (g < larger);
    visit_group<most>(height, row, visit);
    row += height;
  }
}

}  // namespace
}  // namespace openspyre::contract
