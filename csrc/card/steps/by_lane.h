// Gathers and scatters of elements that have an index per lane and stay what they are.
#pragma once

#include "program/prepared_step.h"

namespace openspyre {

// nullptr where elements have to go through registers, or rows of a target could meet.
PreparedStepPtr prepare_by_lane(const Step& step, Isa isa);

}  // namespace openspyre
