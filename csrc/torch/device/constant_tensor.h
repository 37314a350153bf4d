// Constant tensors of programs: values that the compiler knew, on a card from the first launch there on.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/runtime.h"
#include "formats/layout.h"

namespace torch_spyre {

class ConstantTensor {
 public:
  // `values`: what the host would store, gaps included.
  ConstantTensor(openspyre::ShapePtr shape, std::string values);
  ~ConstantTensor();  // launches hold their plan, and so their constants, until they have run

  // Where it lies on a card; tiled there at the first call, which waits for that.
  openspyre::Address on(c10::DeviceIndex device) const {
    const openspyre::Block* block = blocks_[device].load(std::memory_order_acquire);
    return block ? block->address : tiled_on(device);
  }

  const openspyre::ShapePtr& shape() const { return shape_; }
  const std::string& values() const { return values_; }

 private:
  openspyre::Address tiled_on(c10::DeviceIndex device) const;

  openspyre::ShapePtr shape_;
  std::string values_;
  mutable std::mutex mutex_;
  mutable std::vector<std::atomic<openspyre::Block*>> blocks_;  // per card
};
using ConstantTensorPtr = std::shared_ptr<const ConstantTensor>;

// Equal ones are one, whichever programs they belong to, as long as any of these is kept.
ConstantTensorPtr constant_tensor(openspyre::ShapePtr shape, std::string values);

}  // namespace torch_spyre
