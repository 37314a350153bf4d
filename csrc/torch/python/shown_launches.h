// Launches shown to Python before and after they run, while somebody saves them (torch.spyre.save_launches): one load
// where nobody does. A launch that is shown is waited for.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "device/runtime.h"

namespace torch_spyre {

extern std::atomic<bool> launches_are_shown;

struct ShownArgument {
  openspyre::Address address;
  size_t bytes;  // of the block it begins
  int64_t offset, host_offset;
};

// Between the two calls Python holds what it saw before the launch, by a number.
int64_t show_launch(const char* name, uint64_t program, openspyre::Stream& stream,
                    const std::vector<ShownArgument>& arguments, std::span<const uint32_t> scalars);
void wait_shown(int64_t shown, openspyre::Stream& stream, openspyre::Ticket ticket);

}  // namespace torch_spyre
