// The host threads that execute the card's work: a pool that spins briefly, then sleeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace openspyre {

// Calls body(context, i) for i in [0, count), spread over the pool; the caller takes part and returns when all are
// done. The first exception is rethrown. Calls from inside a body run inline. The split of work never changes results.
void parallel_for(size_t count, void (*body)(void* context, size_t i), void* context);

template <typename Body>
void parallel_for(size_t count, Body&& body) {
  parallel_for(
      count, [](void* context, size_t i) { (*static_cast<std::remove_reference_t<Body>*>(context))(i); }, &body);
}

// The process ends: what is left of running loops, and of programs, is not worth waiting for.
void abandon_loops();
bool loops_abandoned();

int worker_threads();  // threads that take part in a parallel_for, the caller included

}  // namespace openspyre
