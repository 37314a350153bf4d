// From traced work to Kineto's activities: what the host called, what the card did, and what a real card would take.
#pragma once

#include <IActivityProfiler.h>
#include <libkineto.h>
#include <output_base.h>

#include <string>
#include <vector>

#include "profiler/trace.h"

namespace torch_spyre {

struct ActivitySink {
  libkineto::ActivityLogger& logger;
  libkineto::CpuTraceBuffer& buffer;
  const libkineto::getLinkedActivityCallback& linked;
  int64_t start, end;  // of what was profiled
};

// Returns how many activities of the card there are.
int write_activities(const std::vector<TracedWorkPtr>& work, const ActivitySink& sink);

libkineto::DeviceInfo device_row(int card);
std::string device_properties();  // JSON: a list

// Rows of what is predicted: a device beside each card.
constexpr int kPredictedRows = 64;
constexpr int64_t kPredictedKernels = 0;  // its resources count on from here

}  // namespace torch_spyre
