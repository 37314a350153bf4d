// The process-wide set of cards. Cards start on first use and are never destroyed: tensors may be freed after main()
// has ended.
#include "streams/card.h"

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "counters/counters.h"
#include "formats/byte_text.h"
#include "kernels/isa.h"
#include "memory/allocator.h"
#include "memory/fork.h"
#include "memory/memory.h"
#include "memory/scratchpad.h"
#include "streams/executors.h"
#include "streams/workers.h"

namespace openspyre {
namespace {

void empty_other_caches(int index);

class SoftwareCard final : public Card {
 public:
  SoftwareCard(int index, const Configuration& configuration)
      : index_(index),
        memory_(index, configuration.memory_bytes, configuration.host_reserve_bytes, !configuration.null,
                configuration.sanitize && !configuration.null),
        executors_(*this, counters().cards[static_cast<size_t>(index)], std::max(2, worker_threads())),
        allocator_(this, index, memory_, allocator_streams(), configuration) {
    handles_ = memory_.base();
    handle_bytes_ = memory_.bytes();
    backing_ = memory_.translate(handles_);
  }

  int index() const override { return index_; }

  Block* allocate(size_t bytes, int64_t stream, const char* purpose) override {
    refuse_after_fork();
    check_stream(stream);
    executors_.refuse_if_lost();
    return allocator_.allocate(bytes, stream, purpose);
  }
  void free(Block* block) noexcept override {
    if (!forked_child.load(std::memory_order_relaxed)) allocator_.free(block);
  }
  void record_stream(Block* block, int64_t stream) override {
    refuse_after_fork();
    check_stream(stream);
    allocator_.record_stream(block, stream);
  }
  void empty_cache() override {
    refuse_after_fork();
    allocator_.empty_cache();
  }
  MemoryStatistics memory_statistics() const override {
    refuse_after_fork();
    return allocator_.statistics();
  }
  MemoryStatistics memory_counters() const override {
    refuse_after_fork();
    return allocator_.counters();
  }
  void record_memory(const HistoryOptions& options, bool clear) override {
    refuse_after_fork();
    allocator_.record(options, clear);
  }
  MemorySnapshot memory_snapshot() override {
    refuse_after_fork();
    return allocator_.snapshot();
  }
  void reset_peak_memory() override {
    refuse_after_fork();
    allocator_.reset_peak();
  }
  void reset_accumulated_memory() override {
    refuse_after_fork();
    allocator_.reset_accumulated();
  }
  uint64_t total_memory() const override { return memory_.bytes(); }
  Address base_address() const override { return memory_.base(); }
  Shadow* settled_shadow() override {
    if (memory_.shadow()) allocator_.settle_frees();
    return memory_.shadow();
  }
  Scratchpads& scratchpads() override {
    std::call_once(scratchpads_made_, [this] {
      scratchpads_ = std::make_unique<Scratchpads>(configuration().scratchpad_bytes, memory_.shadow() != nullptr);
    });
    return *scratchpads_;
  }

  Stream& stream(int64_t id) override {
    refuse_after_fork();
    check_stream(id);
    return executors_.stream(id);
  }
  int64_t next_stream(bool high_priority) override {
    refuse_after_fork();
    auto& turn = turns_[high_priority];
    const int64_t place = static_cast<int64_t>(turn.fetch_add(1, std::memory_order_relaxed) % kStreamsPerPool);
    return 1 + place + (high_priority ? kStreamsPerPool : 0);
  }
  void synchronize() override {
    refuse_after_fork();
    executors_.wait_all();
  }

  void lose(const std::string& why, uint64_t after) override {
    refuse_after_fork();
    after == kNow ? executors_.lose(why) : executors_.lose_after(after, why);
  }
  bool lost() const override { return executors_.lost(); }
  void reset() override {
    refuse_after_fork();
    executors_.reset();
  }

  void shut_down() { executors_.shut_down(); }
  void close_translation() { handle_bytes_ = 0; }

 private:
  void check_stream(int64_t id) const {
    if (id < 0 || id >= kStreamCount) [[unlikely]]
      fail(Fault::InvalidDevice, "spyre:" + std::to_string(index_) + " has no stream " + std::to_string(id) +
                                     "; its streams are 0 to " + std::to_string(kStreamCount - 1));
  }

  Allocator::Streams allocator_streams() {
    Allocator::Streams streams;
    for (int64_t id = 0; id < kStreamCount; ++id) streams.progress[static_cast<size_t>(id)] = &executors_.progress(id);
    streams.relieve = [this](bool host_is_short) {
      if (!Executors::inside_task()) executors_.wait_all_quietly();
      if (host_is_short) empty_other_caches(index_);
    };
    return streams;
  }

  const int index_;
  DeviceMemory memory_;
  Executors executors_;
  mutable Allocator allocator_;
  std::once_flag scratchpads_made_;
  std::unique_ptr<Scratchpads> scratchpads_;
  std::array<std::atomic<uint64_t>, 2> turns_{};
};

std::mutex setup_mutex;
Configuration current_configuration;
std::array<std::atomic<SoftwareCard*>, kMaxCards> started_cards{};
std::atomic<bool> any_started{false};
HistoryOptions current_history;  // under setup_mutex
std::atomic<bool> history_recorded{false};

void empty_other_caches(int index) {
  for (int other = 0; other < kMaxCards; ++other)
    if (SoftwareCard* started = started_cards[static_cast<size_t>(other)].load(); started && other != index)
      started->empty_cache();
}

void stop_at_exit() {
  if (forked_child) return;
  for (auto& card : started_cards)
    if (SoftwareCard* started = card.load()) started->shut_down();
}

SoftwareCard& start_card(int index) {
  std::lock_guard lock(setup_mutex);
  auto& place = started_cards[static_cast<size_t>(index)];
  if (SoftwareCard* started = place.load()) return *started;
  publish_counters(current_configuration.cards);
  auto* card = new SoftwareCard(index, current_configuration);
  note_started(index, card->total_memory());
  if (current_history.blocks) card->record_memory(current_history, false);
  watch_forks();
  if (!any_started.exchange(true)) std::atexit(stop_at_exit);
  place.store(card, std::memory_order_release);
  return *card;
}

void check(bool valid, const std::string& what, const std::string& value, const std::string& accepted) {
  if (!valid) fail(Fault::InvalidArgument, "configuration: " + what + " is " + value + ", accepted is " + accepted);
}

}  // namespace

void configure(const Configuration& wanted) {
  refuse_after_fork();
  std::lock_guard lock(setup_mutex);
  if (any_started)
    fail(Fault::InvalidArgument,
         "cannot change the configuration: a card is already in use; configure before first use");
  check(wanted.cards >= 0 && wanted.cards <= kMaxCards, "cards", std::to_string(wanted.cards),
        "0 to " + std::to_string(kMaxCards));
  check(wanted.threads >= 0 && wanted.threads <= 1024, "threads", std::to_string(wanted.threads), "0 to 1024");
  check(wanted.memory_bytes >= kRegionBytes && wanted.memory_bytes <= (1ull << 44), "memory_bytes",
        std::to_string(wanted.memory_bytes), "2 MiB to 16 TiB");
  check(wanted.cache_watermark >= 0 && wanted.cache_watermark <= 1, "cache_watermark",
        std::to_string(wanted.cache_watermark), "0 to 1");
  check(wanted.core_span_bytes >= kStickBytes, "core_span_bytes", std::to_string(wanted.core_span_bytes),
        "128 or more");
  check(wanted.scratchpad_bytes >= kStickBytes && wanted.scratchpad_bytes <= (1ull << 30), "scratchpad_bytes",
        std::to_string(wanted.scratchpad_bytes), "128 bytes to 1 GiB");
  check(isa_limit(wanted.isa).has_value(), "isa", '"' + wanted.isa + '"', "baseline, avx2, avx512 or empty");
  current_configuration = wanted;
}

const Configuration& configuration() { return current_configuration; }
int card_count() { return current_configuration.cards; }
bool cards_started() { return any_started.load(std::memory_order_acquire); }

Card& card(int index) {
  refuse_after_fork();
  if (index < 0 || index >= card_count())
    fail(Fault::InvalidDevice,
         "there is no spyre:" + std::to_string(index) + ": " +
             (card_count() == 0   ? "no cards are visible"
              : card_count() == 1 ? "the only card is spyre:0"
                                  : "the cards are spyre:0 to spyre:" + std::to_string(card_count() - 1)) +
             "; OPENSPYRE_CARDS sets how many there are");
  SoftwareCard* started = started_cards[static_cast<size_t>(index)].load(std::memory_order_acquire);
  return started ? *started : start_card(index);
}

Card* started_card(int index) {
  refuse_after_fork();
  return index < 0 || index >= kMaxCards ? nullptr : started_cards[static_cast<size_t>(index)].load();
}

void record_memory(const HistoryOptions& options, bool clear) {
  refuse_after_fork();
  std::lock_guard lock(setup_mutex);
  current_history = options;
  history_recorded.store(options.blocks, std::memory_order_relaxed);
  for (auto& card : started_cards)
    if (SoftwareCard* started = card.load()) started->record_memory(options, clear);
}

bool memory_recorded() { return history_recorded.load(std::memory_order_relaxed); }

void synchronize_all() {
  refuse_after_fork();
  for (auto& card : started_cards)
    if (SoftwareCard* started = card.load(std::memory_order_acquire)) started->synchronize();
}

void close_translation_after_fork() {
  for (auto& card : started_cards)
    if (SoftwareCard* started = card.load(std::memory_order_relaxed)) started->close_translation();
}

void Card::fail_translation(Address address) const {
  refuse_after_fork();
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  fail(Fault::InvalidArgument, std::string(text) + " is not an address of spyre:" + std::to_string(index()) +
                                   ", whose " + byte_text(handle_bytes_) + " start elsewhere");
}

}  // namespace openspyre
