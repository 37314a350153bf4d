// Moves rows: host and sticks advance together.
#pragma once

#include "dma/dma_kernels.h"

namespace openspyre::dma {

[[nodiscard]] bool move_rows(const Transfer& transfer, const Piece& piece);

}  // namespace openspyre::dma
