// The unkind card's walk over a step, before the step itself runs: every access of every core, in the shadow.
#pragma once

#include "program.h"

namespace openspyre::sanitize {

// Throws SanitizerFinding if the step must not run. A relayout is checked by its copy (sanitize_copy.h).
void check_step(Card& card, const Program& program, size_t step, const LaunchArguments& launch);

}  // namespace openspyre::sanitize
