#include "streams/stream.h"

#include "memory/fork.h"
#include "sanitizer/sanitize_findings.h"
#include "streams/card.h"
#include "streams/executors.h"

namespace openspyre {
namespace {

// Reports name the line that submitted the task, not the thread that runs it.
Task with_site(Task work) {
  return [site = site_now(), work = std::move(work)]() mutable {
    const SiteScope scope(site);
    work();
  };
}

}  // namespace

Ticket StreamQueue::submit(const char* name, Task work, bool lengthy, const LaunchWork* launch) {
  refuse_after_fork();
  if (!work) fail(Fault::InvalidArgument, std::string("cannot submit '") + name + "': it is an empty task");
  if (configuration().sanitize) work = with_site(std::move(work));
  return executors.submit(*this, name, std::move(work), {.lengthy = lengthy}, launch);
}

Ticket StreamQueue::submitted() const {
  refuse_after_fork();
  return progress.submitted.load(std::memory_order_acquire);
}

Ticket StreamQueue::completed() const {
  refuse_after_fork();
  return progress.completed.load(std::memory_order_acquire);
}

void StreamQueue::wait(Ticket ticket) {
  refuse_after_fork();
  executors.wait(*this, ticket);
}

void StreamQueue::finish(Ticket ticket) noexcept { executors.finish(*this, ticket); }

}  // namespace openspyre
