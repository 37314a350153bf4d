// The buffer record (D1): what a storage on the card is. It hangs on the storage's DataPtr, so every view, alias and
// plain TensorImpl that torch makes over that storage finds it; there is nothing to copy and nothing to lose.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <atomic>
#include <shared_mutex>

#include "device/device_block.h"
#include "dma/dma.h"

namespace torch_spyre {

struct BufferRecord {
  openspyre::Card* card = nullptr;
  openspyre::Block* block = nullptr;  // nullptr while the buffer has no bytes
  openspyre::ShapePtr shape;          // nullptr: RAW, the bytes as the host has them (D4)
  size_t host_bytes = 0;

  // Last task that writes this buffer; readers on the host wait for it and for nothing else (D9).
  std::atomic<openspyre::Stream*> writer{nullptr};
  std::atomic<openspyre::Ticket> write_ticket{0};

  BufferRecord() = default;
  BufferRecord(const BufferRecord&) = delete;
  BufferRecord& operator=(const BufferRecord&) = delete;
  ~BufferRecord() {
    if (block) free_block(block);
  }

  std::byte* memory() const { return block ? card->translate(block->address) : nullptr; }
  void written_by(openspyre::Stream& stream, openspyre::Ticket ticket) {
    writer.store(&stream, std::memory_order_relaxed);
    write_ticket.store(ticket, std::memory_order_release);
  }
  void wait_for_writer() {
    const openspyre::Ticket ticket = write_ticket.load(std::memory_order_acquire);
    if (openspyre::Stream* stream = writer.load(std::memory_order_relaxed)) stream->wait(ticket);
  }
};

// New buffers on a card, allocated on its current stream.
c10::DataPtr new_raw(size_t host_bytes, c10::DeviceIndex index);
c10::Storage new_storage(openspyre::ShapePtr shape, c10::DeviceIndex index);
at::Tensor new_tensor(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType type, openspyre::ShapePtr shape,
                      c10::DeviceIndex index);

// In the default layout of its dtype; a dtype that the card has no format for lies there as the host's bytes.
c10::Storage new_default_storage(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType type,
                                 c10::DeviceIndex index);
at::Tensor new_default_tensor(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType type,
                              c10::DeviceIndex index);

BufferRecord& record_of(const c10::DataPtr& pointer);  // Internal error if it is not ours
BufferRecord& record_of(const at::Tensor& tensor);

// The buffer is used by `stream` as well: it is not reused before that stream has passed the free (record_stream).
void use_on_stream(const c10::DataPtr& pointer, const c10::Stream& stream);

// Replaces what a storage holds; the old buffer is freed in stream order. All aliases see the new one.
void replace(const c10::Storage& storage, c10::DataPtr fresh);

// A RAW buffer gets its tiles: as `size` and `stride` if they cover it densely, else as one flat run. Contents stay.
void give_tiles(const c10::Storage& storage, c10::ScalarType type, at::IntArrayRef size, at::IntArrayRef stride,
                int64_t offset);

// Whoever makes addresses of tensors holds the buffers until its task is submitted: a graph's first launch may re-tile
// a weight that other threads compute with, and waits for them.
using HeldBuffers = std::shared_lock<std::shared_mutex>;
HeldBuffers hold_buffers();

// Moves the contents into another layout (set_spyre_tensor_layout). The caller must not hold the buffers.
void retile(const at::Tensor& tensor, const openspyre::Layout& layout);

// How often that has happened. A layout that is the same before and after may have been another in between.
uint64_t retilings();

// How a tensor reaches its buffer.
enum class Access {
  Tiled,  // its elements are the buffer's elements
  Raw,    // the host's bytes of a RAW buffer
  Pairs,  // complex numbers: two of the buffer's elements each
  Image,  // a tiled buffer as the host would store it
};
Access access_of(const at::Tensor& tensor);  // gives tiles to a RAW buffer at the first use in a format of the card
inline bool in_host_format(Access access) { return access == Access::Raw || access == Access::Image; }

// A tensor's elements as the DMA sees them: complex numbers are pairs of their parts.
struct Elements {
  c10::ScalarType type;
  int64_t offset;
  std::vector<int64_t> size, stride;
  explicit Elements(const at::Tensor& tensor);
};
openspyre::DeviceView device_view(const at::Tensor& tensor);  // Tiled and Pairs

}  // namespace torch_spyre
