// Fork: a child of a process that used a card has the parent's memory but none of its threads. It may use no card;
// it takes no lock (one may be held by a thread that does not exist there) and gets a clear error instead of a hang.
#pragma once

#include <atomic>

namespace openspyre {

inline std::atomic<bool> forked_child{false};  // set in a child of a process that used a card
inline std::atomic<bool> threads_gone{false};  // set in any watched child: threads of the parent do not exist here

void watch_forks();                   // from now on children are marked; called when the first thread or card starts
void close_translation_after_fork();  // the backing memory is not mapped in a child
[[noreturn]] void throw_bad_fork();

inline void refuse_after_fork() {
  if (forked_child.load(std::memory_order_relaxed)) [[unlikely]]
    throw_bad_fork();
}

}  // namespace openspyre
