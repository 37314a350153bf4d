#include "stream.h"

#include "executors.h"
#include "fork.h"

namespace openspyre {

Ticket StreamQueue::submit(const char* name, Task work) {
  refuse_after_fork();
  if (!work) fail(Fault::InvalidArgument, std::string("cannot submit '") + name + "': it is an empty task");
  return executors.submit(*this, name, std::move(work), false);
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

}  // namespace openspyre
