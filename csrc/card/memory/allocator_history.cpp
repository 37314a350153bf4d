// The allocator's history: switched on and off, and read together with what lies where.
#include "memory/allocator.h"

namespace openspyre {

void Allocator::record(const HistoryOptions& options, bool clear) {
  using Stacks = HistoryOptions::Stacks;
  Lock lock(mutex_);
  settle();
  if (!history_) history_ = std::make_unique<MemoryHistory>();
  history_->set(options, clear, statistics_.allocated_bytes.current);
  wants_stacks_ = options.stacks >= Stacks::Blocks;
  foreign_frames_ = options.foreign_frames;
  wants_free_stacks_ = options.trace && options.stacks == Stacks::All;
  wants_origins_ = options.blocks;
  if (!options.trace) return memory_.watch(nullptr);
  memory_.watch([this](bool come, Pages pages) {
    history_->note(come ? MemoryAction::Map : MemoryAction::Unmap, pages.address, pages.bytes, kPageStream);
  });
}

MemorySnapshot Allocator::snapshot() {
  using State = MemorySnapshot::State;
  Lock lock(mutex_);
  settle();
  MemorySnapshot snapshot;
  snapshot.held_bytes = static_cast<uint64_t>(statistics_.allocated_bytes.current);
  if (history_) {
    history_->note(MemoryAction::Snapshot, 0, 0, kNoStream);
    history_->fill(snapshot);
  }
  for (const Chunk* chunk = first_; chunk; chunk = chunk->after) {
    if (chunk->state == Chunk::State::Used || chunk->state == Chunk::State::Shared) {
      const State state = chunk->state == Chunk::State::Used ? State::Allocated : State::AwaitingFree;
      OriginPtr origin = history_ ? history_->origin_of(chunk->address) : nullptr;
      snapshot.pieces.push_back({chunk->address, chunk->bytes, chunk->requested, state, std::move(origin)});
      continue;
    }
    for (const Pages& run : memory_.committed_runs(chunk->address, chunk->bytes))
      snapshot.pieces.push_back({run.address, run.bytes, 0, State::Inactive, nullptr});
  }
  return snapshot;
}

}  // namespace openspyre
