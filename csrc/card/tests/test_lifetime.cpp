// Start, fork and end of a process that uses cards. Every scenario runs in a process of its own; this one never uses a
// card.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "child_process.h"
#include "streams/card.h"
#include "streams/workers.h"

using namespace openspyre;

namespace {

void small_cards() {
  Configuration configuration;
  configuration.cards = 2;
  configuration.threads = 2;
  configuration.memory_bytes = 1ull << 30;
  configure(configuration);
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// What `scenario` does in a fork of the calling process, as exit status.
int in_fork(const std::function<void()>& scenario) { return check::run_in_child(scenario); }

struct FreedLate {
  Block* block = nullptr;
  ~FreedLate() {
    if (block) block->card->free(block);
  }
} freed_late;

}  // namespace

TEST(nothing_starts_before_first_use) {
  CHECK_EQ(check::run_in_child([] {
             small_cards();
             CHECK_EQ(card_count(), 2);
             CHECK(!cards_started());
             card(1);
             CHECK(cards_started());
             CHECK_THROWS_SAYING(InvalidArgument, "already in use", configure(Configuration{}));
           }),
           0);
}

TEST(nonsense_is_refused_by_name) {
  CHECK_EQ(check::run_in_child([] {
             const auto with = [](auto change) {
               Configuration configuration;
               change(configuration);
               return configuration;
             };
             CHECK_THROWS_SAYING(InvalidArgument, "cards is 9", configure(with([](auto& c) { c.cards = 9; })));
             CHECK_THROWS_SAYING(InvalidArgument, "threads is -1", configure(with([](auto& c) { c.threads = -1; })));
             CHECK_THROWS_SAYING(InvalidArgument, "memory_bytes", configure(with([](auto& c) { c.memory_bytes = 1; })));
             CHECK_THROWS_SAYING(InvalidArgument, "cache_watermark",
                                 configure(with([](auto& c) { c.cache_watermark = 1.5; })));
             configure(with([](auto& c) { c.cards = 0; }));
             CHECK_THROWS_SAYING(InvalidDevice, "no cards are visible", card(0));
             small_cards();
             CHECK_THROWS_SAYING(InvalidDevice, "spyre:0 to spyre:1", card(2));
             CHECK_THROWS(InvalidDevice, card(-1));
           }),
           0);
}

TEST(a_forked_child_gets_a_clear_error_from_every_call) {
  CHECK_EQ(check::run_in_child([] {
             small_cards();
             Card& c = card(0);
             Block* block = c.allocate(1 << 20, 0);
             Event event(true);
             Stream& stream = c.stream(0);
             std::atomic<bool> open{false};
             stream.submit("busy", [&] {
               while (!open) sleep_ms(1);
             });
             event.record(stream);
             CHECK_EQ(in_fork([&] {
                        CHECK(in_bad_fork());
                        CHECK_THROWS_SAYING(BadFork, "spawn", card(0));
                        CHECK_THROWS(BadFork, c.allocate(1, 0));
                        CHECK_THROWS(BadFork, c.stream(0));
                        CHECK_THROWS(BadFork, c.synchronize());
                        CHECK_THROWS(BadFork, c.memory_statistics());
                        CHECK_THROWS(BadFork, c.empty_cache());
                        CHECK_THROWS(BadFork, c.translate(block->address));
                        CHECK_THROWS(BadFork, stream.submit("no", [] {}));
                        CHECK_THROWS(BadFork, stream.synchronize());
                        CHECK_THROWS(BadFork, stream.query());
                        CHECK_THROWS(BadFork, event.query());
                        CHECK_THROWS(BadFork, event.record(stream));
                        CHECK_THROWS(BadFork, event.synchronize());
                        CHECK_THROWS(BadFork, synchronize_all());
                        CHECK_EQ(card_count(), 2);
                        c.free(block);
                      }),
                      0);
             CHECK(!in_bad_fork());
             open = true;
             c.synchronize();
             c.free(block);
           }),
           0);
}

// Not under the address sanitizer: its own allocator's locks do not survive a fork, so the child hangs there, not in
// ours.
#ifndef __SANITIZE_ADDRESS__
TEST(a_fork_while_others_hold_the_locks_does_not_hang_the_child) {
  CHECK_EQ(check::run_in_child([] {
             small_cards();
             Card& c = card(0);
             std::atomic<bool> stop{false};
             std::vector<std::thread> threads;
             for (int64_t id = 0; id < 2; ++id)
               threads.emplace_back([&, id] {
                 while (!stop) {
                   Block* block = c.allocate(100, id);
                   c.stream(id).submit("work", [] {});
                   c.free(block);
                   if (c.stream(id).submitted() % 100 == 0) c.stream(id).synchronize();
                 }
               });
             Block* block = c.allocate(64, 0);
             for (int i = 0; i < 10; ++i)
               CHECK_EQ(in_fork([&] {
                          CHECK_THROWS(BadFork, c.allocate(1, 0));
                          c.free(block);
                        }),
                        0);
             stop = true;
             for (std::thread& thread : threads) thread.join();
             c.synchronize();
           }),
           0);
}
#endif

TEST(a_child_forked_before_first_use_has_cards_of_its_own) {
  CHECK_EQ(check::run_in_child([] {
             small_cards();
             card_count();
             CHECK_EQ(in_fork([] {
                        CHECK(!in_bad_fork());
                        Block* block = card(0).allocate(100, 0);
                        card(0).stream(0).submit("write",
                                                 [block] { *card(0).translate(block->address) = std::byte{1}; });
                        card(0).synchronize();
                      }),
                      0);
             card(0).synchronize();
           }),
           0);
}

TEST(the_process_ends_with_work_queued_and_blocks_unfreed) {
  CHECK_EQ(check::run_in_child([] {
             small_cards();
             freed_late.block = card(0).allocate(1 << 20, 0);
             for (int64_t id = 0; id < kStreamCount; ++id)
               for (int i = 0; i < 100; ++i) card(0).stream(id).submit("slow", [] { sleep_ms(2); });
             Event event;
             event.record(card(0).stream(1));
             event.block(card(1).stream(1));
             card(1).stream(1).submit("blocked", [] {});
             parallel_for(8, [](size_t) {});
           }),
           0);
}

TEST(the_process_ends_from_inside_a_task) {
  CHECK_EQ(check::run_in_child([] {
             small_cards();
             card(0).stream(1).submit("exit", [] { std::exit(7); });
             sleep_ms(20000);
           }),
           7);
}

TEST(the_process_ends_while_a_card_is_lost) {
  CHECK_EQ(check::run_in_child([] {
             small_cards();
             card(0).stream(1).submit("slow", [] { sleep_ms(50); });
             card(0).stream(1).submit("dropped", [] {});
             card(0).lose("gone");
           }),
           0);
}

TEST(a_sanitized_card_hands_out_poison_through_the_public_interface) {
  CHECK_EQ(check::run_in_child([] {
             Configuration configuration;
             configuration.sanitize = true;
             configuration.memory_bytes = 1ull << 30;
             configure(configuration);
             for (int i = 0; i < 100; ++i) {
               Block* block = card(0).allocate(1000, 0);
               const std::byte* memory = card(0).translate(block->address);
               CHECK(memory[0] == std::byte{kPoison} && memory[999] == std::byte{kPoison});
               card(0).stream(0).submit("write", [block] { *card(0).translate(block->address) = std::byte{1}; });
               card(0).free(block);
             }
             card(0).synchronize();
             CHECK_EQ(card(0).memory_statistics().active_bytes.current, 0);
           }),
           0);
}

TEST(a_process_ends_although_a_step_would_take_hours) {
  const auto start = std::chrono::steady_clock::now();
  CHECK_EQ(check::run_in_child([] {
             small_cards();
             Stream& stream = card(0).stream(0);
             std::atomic<bool> begun{false};
             const auto loop = [&] { parallel_for(1'000'000, [&](size_t) { begun = true, sleep_ms(20); }); };
             stream.submit("hours", loop, true);
             stream.submit("more", loop, true);
             while (!begun) sleep_ms(1);
             std::exit(0);
           }),
           0);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
}
