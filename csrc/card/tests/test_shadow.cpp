// The shadow: what is known of each byte, and which block it belongs to.
#include <vector>

#include "check.h"
#include "sanitizer/shadow.h"

using namespace openspyre;

namespace {

constexpr uint64_t kBytes = 1 << 20, kHandles = 0x5000'0000'0000;

struct Bench {
  std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
  Shadow shadow{memory.data(), kBytes, kHandles};
  std::byte* at(uint64_t offset) { return memory.data() + offset; }
  ByteState state(uint64_t offset) { return *shadow.at(at(offset)); }
};

}  // namespace

TEST(memory_begins_unallocated_and_becomes_uninitialised_when_handed_out) {
  Bench bench;
  CHECK(bench.state(0) == ByteState::Unallocated);
  bench.shadow.hand_out(bench.at(256), 512);
  CHECK(bench.state(255) == ByteState::Unallocated);
  CHECK(bench.state(256) == ByteState::Uninitialised);
  CHECK(bench.state(767) == ByteState::Uninitialised);
  CHECK(bench.state(768) == ByteState::Unallocated);
}

TEST(a_block_is_found_from_any_of_its_bytes_until_it_is_taken_back) {
  Bench bench;
  bench.shadow.hand_out(bench.at(256), 512);
  bench.shadow.hand_out(bench.at(768), 128);
  CHECK(!bench.shadow.block_at(bench.at(255)));
  const auto block = bench.shadow.block_at(bench.at(767));
  CHECK(block && block->begin == bench.at(256) && block->end == bench.at(768));
  CHECK(block->holds(bench.at(760), 8));
  CHECK(!block->holds(bench.at(761), 8));
  bench.shadow.take_back(bench.at(256), 640);  // both, as merged by the allocator
  CHECK(!bench.shadow.block_at(bench.at(256)));
  CHECK(!bench.shadow.block_at(bench.at(800)));
  CHECK(bench.state(895) == ByteState::Freed);
}

TEST(a_shadow_is_found_by_its_memory_while_it_lives) {
  std::vector<std::byte> other(128);
  const std::byte* inside = nullptr;
  {
    Bench bench;
    inside = bench.at(5);
    CHECK(Shadow::of(inside) == &bench.shadow);
    CHECK(Shadow::of(other.data()) == nullptr);
    CHECK_EQ(bench.shadow.handle(inside), kHandles + 5);
  }
  CHECK(Shadow::of(inside) == nullptr);
}

TEST(dropped_pages_are_unallocated_again) {
  Bench bench;
  bench.shadow.set(bench.at(0), kBytes, ByteState::Initialised);
  bench.shadow.drop_pages(bench.at(4096), 8192);
  CHECK(bench.state(4095) == ByteState::Initialised);
  CHECK(bench.state(4096) == ByteState::Unallocated);
  CHECK(bench.state(12288) == ByteState::Initialised);
}
