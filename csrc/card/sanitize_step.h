// The unkind card's walk over a step, before the step itself runs: every access of every core, in the shadow.
#pragma once

#include "program.h"
#include "sanitize_copy.h"

namespace openspyre::sanitize {

// Throws SanitizerFinding if the step must not run. A relayout is checked by its copy (sanitize_copy.h), which speaks
// of the step as long as this lives.
class CheckedStep {
 public:
  CheckedStep(Card& card, const Program& program, size_t step, const LaunchArguments& launch);

 private:
  CopyName name_;
};

}  // namespace openspyre::sanitize
