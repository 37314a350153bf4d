#include "dma/transpose.h"

#include "formats/square.h"

namespace openspyre {
namespace {

template <typename Item>
void transpose_items(const Transpose& block) {
  constexpr int64_t kItem = sizeof(Item), kSide = Square<sizeof(Item)>::kSide;
  const auto* from = reinterpret_cast<const Item*>(block.source);
  auto* to = reinterpret_cast<Item*>(block.target);
  const int64_t stride = block.source_pitch / kItem, to_stride = block.target_pitch / kItem;
  const int64_t whole_rows = block.rows / kSide * kSide, whole_columns = block.columns / kSide * kSide;
  for (int64_t c = 0; c < whole_columns; c += kSide)
    for (int64_t r = 0; r < whole_rows; r += kSide)
      turn_square(from + r * stride + c, stride, to + c * to_stride + r, to_stride);
  for (int64_t c = 0; c < block.columns; ++c)
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < block.rows; ++r)
      to[c * to_stride + r] = from[r * stride + c];
}

}  // namespace

void transpose(const Transpose& block, int itemsize) {
  switch (itemsize) {
    case 1:
      return transpose_items<uint8_t>(block);
    case 2:
      return transpose_items<uint16_t>(block);
    case 4:
      return transpose_items<uint32_t>(block);
    default:
      return transpose_items<uint64_t>(block);
  }
}

}  // namespace openspyre
