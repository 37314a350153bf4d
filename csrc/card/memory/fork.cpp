#include "memory/fork.h"

#include <pthread.h>

#include <mutex>

#include "error.h"
#include "streams/card.h"

namespace openspyre {

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      threads_gone.store(true, std::memory_order_relaxed);
      if (!cards_started()) return;
      forked_child.store(true, std::memory_order_relaxed);
      close_translation_after_fork();
    });
  });
}

void throw_bad_fork() {
  fail(
      Fault::BadFork,
      "cannot use a spyre card in a forked child: the parent process had already used one, and its memory and threads "
      "do not survive a fork. Start the process with the 'spawn' method (torch.multiprocessing.set_start_method"
      "(\"spawn\")), or use the card only after the fork; DataLoader workers (num_workers > 0) should make CPU tensors "
      "and leave the copy to the card to the main process.");
}

bool in_bad_fork() { return forked_child.load(std::memory_order_relaxed); }

}  // namespace openspyre
