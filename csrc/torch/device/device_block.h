// Blocks of a card as torch takes and returns them: its profiler, where it follows memory, is told of both.
#pragma once

#include <memory>

#include "device/runtime.h"

namespace torch_spyre {

// `purpose`: what the history says a block is for that is no tensor of the user's.
openspyre::Block* allocate_block(openspyre::Card& card, size_t bytes, int64_t stream, const char* purpose = nullptr);
void free_block(openspyre::Block* block) noexcept;

struct FreeBlock {
  void operator()(openspyre::Block* block) const noexcept { free_block(block); }
};
using OwnedBlock = std::unique_ptr<openspyre::Block, FreeBlock>;

// Called when a card is out of memory, before the error is raised: (device, requested, allocated, free bytes).
void tell_out_of_memory(int device, size_t requested, size_t allocated, size_t free);

}  // namespace torch_spyre
