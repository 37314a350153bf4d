// The address space of a card, what it takes from the host, and how the host's limits are read.
#include <signal.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "check.h"
#include "child_process.h"
#include "memory/host_memory.h"
#include "memory/memory.h"

using namespace openspyre;

namespace {

constexpr uint64_t kGiB = 1ull << 30, kMiB = 1ull << 20;

// A directory that looks like /proc and /sys to read_host_limit.
class FakeRoot {
 public:
  FakeRoot() {
    char pattern[] = "/tmp/openspyre_root_XXXXXX";
    path = mkdtemp(pattern);
    write("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
  }
  ~FakeRoot() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path + name).parent_path());
    std::ofstream(path + name) << text;
  }
  std::string path;
};

}  // namespace

TEST(a_whole_card_is_reserved_without_taking_memory) {
  DeviceMemory memory(0, 112 * kGiB, 0);
  CHECK_EQ(memory.bytes(), 112 * kGiB);
  CHECK_EQ(memory.committed_bytes(), 0u);
  HostShortage shortage;
  const Address last = memory.base() + memory.bytes() - 128;
  CHECK(memory.commit(last, 128, shortage));
  std::memset(memory.translate(last), 7, 128);
  CHECK_EQ(memory.committed_bytes(), kRegionBytes);
  CHECK(memory.resident_bytes() > 0);
}

TEST(a_handle_cannot_be_dereferenced) {
  DeviceMemory memory(0, kGiB, 0);
  HostShortage shortage;
  CHECK(memory.commit(memory.base(), kGiB / 2, shortage));
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, [](int) { _exit(42); });  // a sanitizer's own handler would report it as a bug
    *reinterpret_cast<volatile char*>(memory.base()) = 1;
    _exit(0);
  }
  CHECK_EQ(check::status_of(child), 42);
}

TEST(cards_have_separate_handles) {
  DeviceMemory first(0, 112 * kGiB, 0), second(1, 112 * kGiB, 0), same_place(0, 112 * kGiB, 0);
  const auto apart = [](const DeviceMemory& a, const DeviceMemory& b) {
    return a.base() + a.bytes() <= b.base() || b.base() + b.bytes() <= a.base();
  };
  CHECK(apart(first, second));
  CHECK(apart(first, same_place));
  CHECK(apart(second, same_place));
}

TEST(a_fresh_region_is_committed_whole_and_released_in_parts) {
  DeviceMemory memory(0, kGiB, 0);
  HostShortage shortage;
  CHECK_EQ(memory.missing_bytes(memory.base() + 128, 128), kRegionBytes);
  CHECK(memory.commit(memory.base() + 128, 128, shortage));
  CHECK(memory.commit(memory.base() + kRegionBytes - 128, 256, shortage));
  CHECK_EQ(memory.committed_bytes(), 2 * kRegionBytes);
  // Of [1 KiB, 3 granules + 1 KiB) two granules are whole.
  memory.release_inside(memory.base() + 1024, 3 * kGranuleBytes, UINT64_MAX);
  CHECK_EQ(memory.committed_bytes(), 2 * kRegionBytes - 2 * kGranuleBytes);
  CHECK_EQ(memory.missing_bytes(memory.base() + kGranuleBytes, 128), kGranuleBytes);
  CHECK_EQ(memory.missing_bytes(memory.base(), kRegionBytes), 2 * kGranuleBytes);
  memory.release_inside(memory.base() + kRegionBytes, kRegionBytes, kGranuleBytes);
  CHECK_EQ(memory.committed_bytes(), 2 * kRegionBytes - 3 * kGranuleBytes);
}

TEST(released_pages_are_gone_and_read_as_zero) {
  DeviceMemory memory(0, kGiB, 0);
  HostShortage shortage;
  CHECK(memory.commit(memory.base(), 16 * kMiB, shortage));
  std::memset(memory.translate(memory.base()), 1, 16 * kMiB);
  CHECK_EQ(memory.resident_bytes(), 16 * kMiB);
  memory.release_inside(memory.base() + 4 * kMiB, 8 * kMiB, UINT64_MAX);
  CHECK_EQ(memory.resident_bytes(), 8 * kMiB);
  CHECK(memory.translate(memory.base())[4 * kMiB - 1] == std::byte{1});
  CHECK(memory.commit(memory.base(), 16 * kMiB, shortage));
  CHECK(memory.translate(memory.base())[4 * kMiB] == std::byte{0});
}

TEST(committed_but_untouched_memory_counts_against_the_host) {
  const uint64_t room = host_memory().available_bytes / 2;
  const uint64_t host = (host_memory().total_bytes / kRegionBytes + 1) * kRegionBytes;
  DeviceMemory first(0, 2 * host, host_memory().available_bytes - room), second(1, 2 * host, room);
  HostShortage shortage{};
  CHECK(first.commit(first.base(), room / 10 * 7, shortage));
  CHECK(!first.commit(first.base() + host, room / 10 * 7, shortage));
  CHECK(shortage.available_bytes < room / 10 * 5);
  CHECK(!second.commit(second.base(), room / 10 * 7, shortage));  // all cards draw on one host
  first.release_inside(first.base(), room, UINT64_MAX);
  CHECK(second.commit(second.base(), room / 10 * 7, shortage));
}

TEST(without_a_cgroup_the_machine_is_the_limit) {
  FakeRoot root;
  const HostLimit limit = read_host_limit(root.path);
  CHECK_EQ(limit.total_bytes, 16 * kGiB);
  CHECK_EQ(limit.available_bytes, 8 * kGiB);
  CHECK(!limit.cgroup);
}

TEST(a_cgroup_v2_limit_of_an_ancestor_counts_and_its_page_cache_does_not) {
  FakeRoot root;
  root.write("/proc/self/cgroup", "0::/user/app\n");
  root.write("/sys/fs/cgroup/user/app/memory.max", "max\n");
  root.write("/sys/fs/cgroup/user/memory.max", "2147483648\n");
  root.write("/sys/fs/cgroup/user/memory.current", "1610612736\n");
  root.write("/sys/fs/cgroup/user/memory.stat", "anon 1\ninactive_file 536870912\n");
  const HostLimit limit = read_host_limit(root.path);
  CHECK_EQ(limit.total_bytes, 2 * kGiB);
  CHECK_EQ(limit.available_bytes, kGiB);
  CHECK(limit.cgroup);
}

TEST(a_cgroup_v1_limit_counts_and_its_spelling_of_unlimited_does_not) {
  FakeRoot root;
  root.write("/proc/self/cgroup", "4:memory:/box\n3:cpu,cpuacct:/box\n0::/\n");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK_EQ(read_host_limit(root.path).available_bytes, 8 * kGiB);
  root.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4294967296\n");
  root.write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "5294967296\n");
  root.write("/sys/fs/cgroup/memory/box/memory.stat", "total_inactive_file 0\n");
  const HostLimit limit = read_host_limit(root.path);
  CHECK_EQ(limit.total_bytes, 4 * kGiB);
  CHECK_EQ(limit.available_bytes, 0u);
  CHECK(limit.cgroup);
}
