// Compiled graphs: generated code opens a graph once and launches it. A launch finds its program by the sizes, layouts
// and offsets of the inputs; what no launch had before is specialised in Python.
#pragma once

#include <string>

#include "operators/launch.h"

namespace torch_spyre {

// Specialised programs of one graph; graphs with equal keys share them.
struct GraphPlans;

class CompiledGraph {
 public:
  // `key` names what is computed, `text` spells it out; `device` is where a graph without inputs runs.
  CompiledGraph(const std::string& key, std::string text, c10::DeviceIndex device);

  // The tensors the graph makes, written by one launch on the current stream of the inputs' device. Symbols choose the
  // program, numbers do not.
  Results launch(const std::vector<at::Tensor>& inputs, const std::vector<int64_t>& symbols,
                 std::span<const c10::Scalar> numbers) const;

 private:
  LoadedPlanPtr find_or_specialise(GivenTensors given, const std::vector<at::Tensor>& inputs,
                                   const std::vector<int64_t>& symbols, int64_t planning, HeldBuffers& held) const;

  std::string text_;
  c10::DeviceIndex device_;
  std::shared_ptr<GraphPlans> shared_;
};

// A graph about to be specialised: what the compiler is told.
struct GraphRequest {
  const std::string& key;
  const std::string& text;
  const std::vector<at::Tensor>& inputs;
  const std::vector<int64_t>& symbols;
  std::vector<int64_t> offset_classes;  // per input
};
CallPlan specialise_graph(const GraphRequest& request);  // defined in python_plans.cpp

struct GraphCounts {
  int64_t launches = 0, specialisations = 0, programs = 0;
};
GraphCounts graph_counts();
void limit_graph_plans(size_t per_graph);
void clear_graph_plans();

}  // namespace torch_spyre
