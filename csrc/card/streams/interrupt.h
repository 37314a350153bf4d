// Waits of the host that can be interrupted. The card knows neither signals nor Python: whoever hosts it says how to
// look.
#pragma once

#include <exception>

#include "streams/stream.h"

namespace openspyre {

// Called now and then by a thread that waits, without any lock of the card. Not null: what ends the wait (the exception
// of the host's language); it goes to the caller inside an Interrupted, and the caller owns it.
using InterruptCheck = void* (*)();
void set_interrupt_check(InterruptCheck check);

// Ends a wait and nothing else: what was queued goes on. No Error: nobody who handles those shall swallow it.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(void* cause) : cause(cause) {}
  const char* what() const noexcept override { return "the wait was interrupted; the card's queued work goes on"; }
  void* cause;
};

void throw_if_interrupted();

// Work on memory that the caller lends for as long as he waits. When his wait is interrupted, it has ended or will
// never begin.
class LentWork {
 public:
  explicit LentWork(Task work);
  Task task() const;  // to be submitted, once
  void wait(Stream& stream, Ticket ticket) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace openspyre
