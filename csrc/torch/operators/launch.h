// The launch of a plan's program on the current stream: results are made, addresses gathered, one task submitted.
#pragma once

#include <span>

#include "device/record.h"
#include "operators/plans.h"

namespace torch_spyre {

// Tensors given to a call, and those it returns: new ones, or its own where it writes in place.
using GivenTensors = std::span<const at::Tensor* const>;
using Results = c10::SmallVector<at::Tensor, 4>;

// What of a view's offset chooses the program: its lane (>= 0) where the program can be moved by whole sticks, else all
// of it (< 0).
int64_t offset_class(const openspyre::BufferShape& shape, const at::Tensor& tensor);

void make_results(const CallPlan& plan, GivenTensors given, c10::DeviceIndex device, Results& results);

// A number as the word a program takes it for.
uint32_t encode(const c10::Scalar& number, const ScalarPlan& plan);

// `scalars` are encoded words. Results are marked as written by this launch.
void launch(const char* name, LoadedPlanPtr loaded, GivenTensors given, const Results& results,
            std::span<const uint32_t> scalars, c10::DeviceIndex device);

int64_t launch_count();  // of the process

}  // namespace torch_spyre
