// Two cores at the same bytes in one step: found where their reaches meet at all, by comparing what they touched.
#pragma once

#include <vector>

#include "sanitizer/sanitize_access.h"

namespace openspyre::sanitize {

// Sets what the log must hold: nothing where no core's reach meets what another one writes.
void choose_log(const Step& step, std::vector<OperandAccess>& inputs, std::vector<OperandAccess>& outputs,
                AccessLog& log);

// Whether the core stores results: of cores that share a sum only the first does.
bool stores(const Step& step, int core);

void report_races(AccessLog& log, const std::vector<OperandAccess>& inputs, const std::vector<OperandAccess>& outputs);

}  // namespace openspyre::sanitize
