#include "operators/graph_launch.h"

#include <algorithm>
#include <mutex>

#include "counters/counters.h"
#include "device/generator.h"
#include "profiler/trace.h"

namespace torch_spyre {

struct GraphPlans {
  std::string key;
  PlanCache plans;

  bool is_fixed(size_t input) const {
    if (!any_fixed_.load(std::memory_order_acquire)) return false;
    std::lock_guard lock(mutex_);
    return std::find(fixed_.begin(), fixed_.end(), static_cast<int>(input)) != fixed_.end();
  }
  void fix(const std::vector<int>& inputs) {
    if (inputs.empty()) return;
    std::lock_guard lock(mutex_);
    fixed_.insert(fixed_.end(), inputs.begin(), inputs.end());
    any_fixed_.store(true, std::memory_order_release);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<int> fixed_;  // inputs that programs reach beyond the tensor itself: their whole offset is in the key
  std::atomic<bool> any_fixed_{false};
};

namespace {

std::atomic<size_t> plans_per_graph{1024};
std::atomic<int64_t> graph_launches{0};

// Graphs in use, by key; never freed, because generated code may outlive static destruction.
struct GraphTable {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<GraphPlans>> graphs;

  std::shared_ptr<GraphPlans> open(const std::string& key) {
    std::lock_guard lock(mutex);
    std::erase_if(graphs, [](const auto& entry) { return entry.second.expired(); });
    auto found = graphs[key].lock();
    if (!found) {
      found = std::make_shared<GraphPlans>();
      found->key = key;
      graphs[key] = found;
    }
    return found;
  }
  template <typename Visit>
  void each(Visit&& visit) {
    std::lock_guard lock(mutex);
    for (const auto& [key, graph] : graphs) {
      if (const auto open = graph.lock()) visit(*open);
    }
  }
};
GraphTable& graph_table() {
  static auto* instance = new GraphTable;
  return *instance;
}

// Sizes and strides follow from the graph and its symbols: generated code has asserted them.
int64_t input_offset_class(const GraphPlans& shared, size_t input, const at::Tensor& tensor,
                           const openspyre::BufferShape& shape) {
  if (shared.is_fixed(input)) return -1 - tensor.storage_offset();
  // A view that could be moved can also start at 0, so 0 needs no look at its strides.
  return tensor.storage_offset() == 0 ? 0 : offset_class(shape, tensor);
}

c10::DeviceIndex device_of(GivenTensors given, c10::DeviceIndex otherwise) {
  for (const at::Tensor* tensor : given) {
    if (tensor->device().type() != kSpyre || !tensor->has_storage() || tensor->device() != given[0]->device()) {
      openspyre::fail(openspyre::Fault::InvalidArgument,
                      "a compiled graph was launched with tensors on " + given[0]->device().str() + " and " +
                          tensor->device().str() + "; its inputs must be on one card");
    }
  }
  return given.empty() ? otherwise : given[0]->device().index();
}

// Symbols, then two words per input: shape and class of offset; then how programs are planned, unless as usual.
Key key_of(const GraphPlans& shared, GivenTensors given, const std::vector<int64_t>& symbols, int64_t planning) {
  Key key(symbols.begin(), symbols.end());
  for (size_t i = 0; i < given.size(); ++i) {
    if (access_of(*given[i]) != Access::Tiled) {
      openspyre::fail(openspyre::Fault::UnsupportedFormat,
                      "a compiled graph cannot read bytes of another type's buffer; pass x.clone()");
    }
    const openspyre::BufferShape& shape = *record_of(*given[i]).shape;
    key.append({static_cast<int64_t>(shape.id()), input_offset_class(shared, i, *given[i], shape)});
  }
  if (planning) key.push_back(planning);
  return key;
}

c10::SmallVector<uint32_t, 16> scalars_of(const CallPlan& plan, std::span<const c10::Scalar> numbers,
                                          c10::DeviceIndex device) {
  c10::SmallVector<uint32_t, 16> words(plan.constants.begin(), plan.constants.end());
  const LaunchDraws draws(plan, std::nullopt, device);
  for (const ScalarPlan& scalar : plan.scalars) {
    if (scalar.is_drawn()) {
      words.push_back(draws.word(scalar));
      continue;
    }
    if (scalar.argument < 0 || static_cast<size_t>(scalar.argument) >= numbers.size()) {
      openspyre::fail(openspyre::Fault::InvalidArgument,
                      "a compiled graph reads number " + std::to_string(scalar.argument) +
                          " of its launch, which has " + std::to_string(numbers.size()));
    }
    words.push_back(encode(numbers[scalar.argument], scalar));
  }
  return words;
}

bool lie_as(const std::vector<int64_t>& shapes, const Key& key, size_t symbols) {
  for (size_t input = 0; input < shapes.size(); ++input) {
    if (key[symbols + 2 * input] != shapes[input]) return false;
  }
  return true;
}

}  // namespace

CompiledGraph::CompiledGraph(const std::string& key, std::string text, c10::DeviceIndex device)
    : text_(std::move(text)), device_(device), shared_(graph_table().open(key)) {}

// Python specialises without holding the buffers; if another thread re-tiled one meanwhile, it does so again.
LoadedPlanPtr CompiledGraph::find_or_specialise(GivenTensors given, const std::vector<at::Tensor>& inputs,
                                                const std::vector<int64_t>& symbols, int64_t planning,
                                                HeldBuffers& held) const {
  for (;;) {
    const Key key = key_of(*shared_, given, symbols, planning);
    if (LoadedPlanPtr found = shared_->plans.find(key)) return found;
    GraphRequest request{shared_->key, text_, inputs, symbols, {}};
    for (size_t i = 0; i < given.size(); ++i) request.offset_classes.push_back(key[symbols.size() + 2 * i + 1]);
    held.unlock();
    const auto loaded = [&] {
      const TracedWait traced(TracedWork::Kind::Compile, "aiuCompileGraph", device_, 0);
      return std::make_shared<const LoadedPlan>(specialise_graph(request));
    }();
    openspyre::add(openspyre::counters().process.graph_plans, 1);
    shared_->fix(loaded->plan.fixed);
    held.lock();
    const Key now =
        key_of(*shared_, given, symbols, planning);  // weights may have been re-tiled for this graph, offsets fixed
    if (lie_as(loaded->plan.shapes, now, symbols.size()))
      return shared_->plans.keep(now, loaded, plans_per_graph.load(std::memory_order_relaxed));
  }
}

Results CompiledGraph::launch(const std::vector<at::Tensor>& inputs, const std::vector<int64_t>& symbols,
                              std::span<const c10::Scalar> numbers) const {
  c10::SmallVector<const at::Tensor*, 16> given;
  for (const at::Tensor& tensor : inputs) given.push_back(&tensor);
  const c10::DeviceIndex device = device_of(given, device_);
  const int64_t planning = planning_number();
  HeldBuffers held = hold_buffers();
  const LoadedPlanPtr loaded = find_or_specialise(given, inputs, symbols, planning, held);
  const CallPlan& plan = loaded->plan;
  Results results;
  make_results(plan, given, device, results);
  if (plan.program) {
    const char* name = loaded->program->program().name.c_str();
    torch_spyre::launch(name, loaded, given, results, scalars_of(plan, numbers, device), device);
    graph_launches.fetch_add(1, std::memory_order_relaxed);
  }
  while (!results.empty() && plan.results[results.size() - 1].argument >= 0) results.pop_back();  // updated inputs
  return results;
}

GraphCounts graph_counts() {
  GraphCounts counts{graph_launches.load(), static_cast<int64_t>(openspyre::counters().process.graph_plans.load()), 0};
  graph_table().each([&](const GraphPlans& graph) { counts.programs += static_cast<int64_t>(graph.plans.size()); });
  return counts;
}

void limit_graph_plans(size_t per_graph) { plans_per_graph.store(std::max<size_t>(per_graph, 1)); }

void clear_graph_plans() {
  graph_table().each([](GraphPlans& graph) { graph.plans.clear(); });
}

}  // namespace torch_spyre
