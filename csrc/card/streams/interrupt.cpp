#include "streams/interrupt.h"

#include <atomic>

namespace openspyre {
namespace {

std::atomic<InterruptCheck> installed{nullptr};

}  // namespace

void set_interrupt_check(InterruptCheck check) { installed.store(check); }

void throw_if_interrupted() {
  const InterruptCheck check = installed.load(std::memory_order_relaxed);
  if (void* cause = check ? check() : nullptr) throw Interrupted(cause);
}

struct LentWork::State {
  std::atomic<bool> taken{false};  // by the stream, which does it, or by the caller, who takes it back
  Task work;
};

LentWork::LentWork(Task work) : state_(std::make_shared<State>()) { state_->work = std::move(work); }

Task LentWork::task() const {
  return [state = state_] {
    if (!state->taken.exchange(true)) state->work();
  };
}

void LentWork::wait(Stream& stream, Ticket ticket) const {
  try {
    stream.wait(ticket);
  } catch (const Interrupted&) {
    if (state_->taken.exchange(true)) stream.finish(ticket);
    throw;
  }
}

}  // namespace openspyre
