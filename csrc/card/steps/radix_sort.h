// Sorts numbers of 64 bits by their upper half; equal ones stay in order.
#pragma once

#include <cstdint>

namespace openspyre {

// The sorted numbers are in one of the two, which is returned; both are of `count` numbers.
uint64_t* radix_sort(uint64_t* numbers, uint64_t* spare, int64_t count);

}  // namespace openspyre
