// A step made ready for execution. One class per kind of step; the engine holds them in order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "program/step_runner.h"
#include "steps/vector_code.h"

namespace openspyre {

class PreparedStep {
 public:
  virtual ~PreparedStep() = default;
  virtual void run(const StepArguments& arguments, CoreRange cores) const = 0;
};

using PreparedStepPtr = std::unique_ptr<const PreparedStep>;

// Each takes a step that check_step has found free of problems.
PreparedStepPtr prepare_map(const Step& step, Isa isa);
PreparedStepPtr prepare_reduce(const Step& step, Isa isa);
PreparedStepPtr prepare_rows(const Step& step, Isa isa);
PreparedStepPtr prepare_gather(const Step& step, Isa isa);
PreparedStepPtr prepare_scatter(const Step& step, Isa isa);
PreparedStepPtr prepare_scan(const Step& step, Isa isa);
PreparedStepPtr prepare_sort(const Step& step, Isa isa);

// Everything wrong with a step; `symbols` and `scalars` are the program's.
std::vector<std::string> check_step(const Step& step, int32_t symbols, int32_t scalars);

// Registers of a reduction's `finish`: 0 the total, 1 the index of an arg reduction, 2 + j the step's j-th Scalar
// input.
std::vector<CodeInput> reduce_finish_registers(const Step& step, RegisterType folded);
void check_row_stages(const Step& step, std::vector<std::string>& problems);
void check_relayout(const Step& step, int32_t symbols, std::vector<std::string>& problems);

// prepare() with the instruction set chosen by the caller (tests compare them).
std::shared_ptr<const PreparedProgram> prepare_for(Program program, Isa isa);

}  // namespace openspyre
