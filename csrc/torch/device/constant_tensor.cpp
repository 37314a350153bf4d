#include "device/constant_tensor.h"

#include <functional>
#include <unordered_map>

#include "counters/counters.h"
#include "device/device_block.h"
#include "dma/dma.h"
#include "memory/history.h"

namespace torch_spyre {
namespace {

// Constants in use, by a hash of their values; never freed, because plans may outlive static destruction.
struct ConstantTable {
  std::mutex mutex;
  std::unordered_multimap<size_t, std::weak_ptr<const ConstantTensor>> constants;
};
ConstantTable& constant_table() {
  static auto* instance = new ConstantTable;
  return *instance;
}

}  // namespace

ConstantTensor::ConstantTensor(openspyre::ShapePtr shape, std::string values)
    : shape_(std::move(shape)), values_(std::move(values)), blocks_(static_cast<size_t>(device_count())) {
  const size_t needed = shape_->host_elements() * openspyre::host_itemsize(shape_->dtype());
  if (values_.size() != needed) {
    openspyre::fail(openspyre::Fault::InvalidArgument, "a constant tensor has " + std::to_string(values_.size()) +
                                                           " bytes of values, it takes " + std::to_string(needed));
  }
}

ConstantTensor::~ConstantTensor() {
  const openspyre::WithoutStacks no_stacks;  // caches of plans drop it under their locks
  for (const auto& block : blocks_) {
    if (openspyre::Block* held = block.load()) free_block(held);
  }
}

openspyre::Address ConstantTensor::tiled_on(c10::DeviceIndex device) const {
  const std::lock_guard lock(mutex_);
  if (const openspyre::Block* block = blocks_[device].load()) return block->address;
  openspyre::Stream& stream = current_stream(device);
  openspyre::Card& card = stream.card();
  const openspyre::WithoutStacks no_stacks;
  OwnedBlock block(
      allocate_block(card, static_cast<size_t>(shape_->device_bytes()), stream.id(), "constant of a program"));
  const openspyre::LentWork lent([shape = shape_.get(), to = card.translate(block->address), from = values_.data()] {
    write_image(*shape, to, from);
  });
  count_copy(stream, openspyre::CopyWay::ToCard, values_.size());
  lent.wait(stream, stream.submit("tile a constant", lent.task()));
  blocks_[device].store(block.get(), std::memory_order_release);
  return block.release()->address;
}

ConstantTensorPtr constant_tensor(openspyre::ShapePtr shape, std::string values) {
  const size_t key = std::hash<std::string>{}(values) ^ shape->id();
  ConstantTable& table = constant_table();
  const std::lock_guard lock(table.mutex);
  std::erase_if(table.constants, [](const auto& entry) { return entry.second.expired(); });
  const auto [first, last] = table.constants.equal_range(key);
  for (auto entry = first; entry != last; ++entry) {
    const ConstantTensorPtr known = entry->second.lock();
    if (known && known->shape() == shape && known->values() == values) return known;
  }
  auto made = std::make_shared<const ConstantTensor>(std::move(shape), std::move(values));
  table.constants.emplace(key, made);
  return made;
}

}  // namespace torch_spyre
