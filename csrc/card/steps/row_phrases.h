// The stages of a pass over rows as one run of phrases: maps, folds and a store in a few loops over the chunk.
#pragma once

#include <vector>

#include "steps/phrases.h"
#include "steps/rows.h"

namespace openspyre {

// Empty where a stage has instructions without links, or folds otherwise than lane by lane.
PassPhrases pass_phrases(const Step& step, const RowPlan& plan, const RowPass& pass, const VectorKernels& kernels);

}  // namespace openspyre
