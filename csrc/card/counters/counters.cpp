#include "counters/counters.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include "sanitizer/sanitize_findings.h"
#include "streams/card.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16
#endif

namespace openspyre {

CountersMemory counters_memory;

namespace {

// A file without a name that lives as long as the process: readers find it among the process's open files, which only
// its user may look at. Nothing is left behind, however the process ends.
struct SharedFile {
  int descriptor = -1;
  dev_t device = 0;
  ino_t inode = 0;

  // A program may have closed it, and got the number again for a file of its own.
  bool is_ours() const {
    struct stat status{};
    return descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_dev == device && status.st_ino == inode;
  }
};
SharedFile shared;
std::mutex publishing;

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// A child of a fork counts for itself, from zero. Nothing but system calls here: it may have been forked anywhere.
void make_private() {
  if (shared.is_ours()) close(shared.descriptor);
  shared = {};
  mmap(&counters_memory, sizeof counters_memory, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
       0);
}

int open_shared() {
  const int descriptor = memfd_create(kCountsName, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  return descriptor >= 0 || errno != EINVAL ? descriptor : memfd_create(kCountsName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

// Nobody may cut it short, which would end us with SIGBUS, nor write into it.
void seal(int descriptor) {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
  if (fcntl(descriptor, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    (void)fcntl(descriptor, F_ADD_SEALS, seals | F_SEAL_SEAL);
}

// With what was counted so far. False, and errno says why: nothing has changed.
bool share_memory() {
  const int descriptor = open_shared();
  struct stat status{};
  const size_t counted = offsetof(Counters, cards);  // no card has been used yet
  if (descriptor < 0 || ftruncate(descriptor, sizeof counters_memory) != 0 || fstat(descriptor, &status) != 0 ||
      pwrite(descriptor, &counters_memory, counted, 0) != static_cast<ssize_t>(counted) ||
      mmap(&counters_memory, sizeof counters_memory, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, descriptor, 0) ==
          MAP_FAILED) {
    const int why = errno;
    if (descriptor >= 0) close(descriptor);
    errno = why;
    return false;
  }
  seal(descriptor);
  shared = {descriptor, status.st_dev, status.st_ino};
  return true;
}

}  // namespace

void publish_counters(int visible_cards) {
  const std::lock_guard lock(publishing);
  if (counters().head.magic.load() == kCountsMagic) return;
  static std::once_flag watched;
  std::call_once(watched, [] { pthread_atfork(nullptr, nullptr, &make_private); });
  if (!share_memory())
    add_notice(std::string("`openspyre smi` cannot see this process: its counters cannot be shared (") +
               std::strerror(errno) + "); torch.spyre.counters() counts all the same");
  HeadCounts& head = counters().head;
  head.layout.store(kCountsLayout);
  head.bytes.store(kCountsBytes);
  head.pid.store(static_cast<uint64_t>(getpid()));
  head.began_ns.store(now_ns());
  head.cards.store(static_cast<uint64_t>(visible_cards));
  head.magic.store(kCountsMagic);  // last: from now on readers believe the rest
}

void note_started(int card, uint64_t memory_bytes) {
  counters().cards[static_cast<size_t>(card)].memory.total_bytes.store(memory_bytes, std::memory_order_relaxed);
  counters().head.started.fetch_or(uint64_t{1} << card);
}

void count_copy(const Stream& stream, CopyWay way, uint64_t bytes, bool relayout) {
  TrafficCounts& traffic = counters_of(stream.card().index(), stream.id()).traffic;
  switch (way) {
    case CopyWay::ToCard:
      add(traffic.copies_to_card, 1);
      return add(traffic.to_card_bytes, bytes);
    case CopyWay::FromCard:
      add(traffic.copies_from_card, 1);
      return add(traffic.from_card_bytes, bytes);
    case CopyWay::Within:
      add(traffic.copies_within, 1);
      add(traffic.within_bytes, bytes);
      if (relayout) add(traffic.relayout_copies, 1);
  }
}

}  // namespace openspyre
