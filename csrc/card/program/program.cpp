// What a program says about itself.
#include "program/program.h"

#include <algorithm>

#include "program/step_runner.h"

namespace openspyre {

int arity(Op op) {
  int operands = 0;
  for (const char* type = signature(op); *type != '>'; ++type) ++operands;
  return operands;
}

int Program::cores() const {
  int most = 1;
  for (const Step& step : steps) most = std::max(most, core_count(step));
  return most;
}

}  // namespace openspyre
