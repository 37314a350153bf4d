#include "memory/scratchpad.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "formats/byte_text.h"
#include "streams/card.h"

namespace openspyre {
namespace {

constexpr uint64_t kPageBytes = 4096;

}  // namespace

Scratchpads::Scratchpads(uint64_t bytes_per_core, bool shadowed)
    : bytes_per_core_(bytes_per_core), pitch_((bytes_per_core + kPageBytes - 1) / kPageBytes * kPageBytes) {
  const uint64_t bytes = pitch_ * kCardCores;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    fail(Fault::OutOfMemory,
         "cannot reserve " + byte_text(bytes) + " for the cores' scratchpads: " + std::strerror(errno));
  madvise(memory, bytes, MADV_DONTFORK);
  memory_ = static_cast<std::byte*>(memory);
  if (!shadowed) return;
  shadow_ = std::make_unique<Shadow>(memory_, bytes, 0);
  for (int core = 0; core < kCardCores; ++core) shadow_->hand_out(of(core), bytes_per_core_);
}

Scratchpads::~Scratchpads() { munmap(memory_, pitch_ * kCardCores); }

void Scratchpads::clear() {
  const std::unique_lock lock(mutex_);
  // Pages nobody has touched stay untouched: a card's scratchpads are 64 MB.
  madvise(memory_, pitch_ * kCardCores, MADV_DONTNEED);
  if (!shadow_) return;
  for (int core = 0; core < kCardCores; ++core) shadow_->set(of(core), bytes_per_core_, ByteState::Uninitialised);
}

}  // namespace openspyre
