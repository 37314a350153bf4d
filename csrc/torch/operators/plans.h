// Compiled calls as data, and the bounded caches that find them by key (D7): shared by eager operators and graphs.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/constant_tensor.h"
#include "device/observer.h"
#include "formats/layout.h"
#include "generated/launch_numbers.h"
#include "program/program.h"

namespace torch_spyre {

// How one result of a call comes to be.
struct ResultPlan {
  int argument = -1;  // >= 0: the call's own tensor (in place, out=), counted over the flattened tensors
  c10::ScalarType dtype = c10::ScalarType::Half;
  std::vector<int64_t> size, stride;
  openspyre::ShapePtr shape;
};

// Where a launch scalar comes from.
struct ScalarPlan {
  using Encoding = openspyre::Encoding;
  using Rule = openspyre::Rule;  // of integers
  int argument = 0;  // position in the operator's arguments, among the numbers of a graph's launch, or among the draws
  Encoding encoding = Encoding::Float;
  Rule rule = Rule::Cut;

  bool is_drawn() const { return encoding >= Encoding::SeedLow; }
};

// A compiled call. `symbols`: flattened tensor i, or -1 - r for result r.
struct CallPlan {
  bool fallback = false;
  uint64_t program = 0;
  std::vector<int> symbols;
  std::vector<int64_t> compiled_offsets;  // host offset each symbol had when it was compiled
  std::vector<ScalarPlan> scalars;
  std::vector<int64_t> draws;       // random numbers that each draw takes
  std::vector<uint32_t> constants;  // a graph's own numbers, encoded already; they come before its `scalars`
  std::vector<ResultPlan> results;
  std::vector<int> resize;      // out= tensors that must first be given the size of result r: argument numbers
  std::vector<int> fixed;       // a graph's inputs whose offset the program has built in
  std::vector<int64_t> shapes;  // a graph's inputs as they lay when it was specialised: ids of their buffers' shapes
  std::vector<ConstantTensorPtr> tensors;  // the program's last symbols
  size_t pool_bytes = 0;
  PredictedTimes predicted;  // null where nothing is computed
  std::string described;     // its steps, for whoever looks inside: profiler/described_program.h
};

struct LoadedPlan {
  CallPlan plan;
  std::shared_ptr<const openspyre::PreparedProgram> program;
  mutable std::atomic<int64_t> last_use{0};  // in launches of the process

  explicit LoadedPlan(CallPlan compiled);
  ~LoadedPlan();  // the program leaves the card's table; running launches hold theirs
};
using LoadedPlanPtr = std::shared_ptr<const LoadedPlan>;

// The options that programs are planned with, as a number: the calling thread's, as `config` has them. 0 are those that
// the process has met first; keys of plans hold the others.
int64_t planning_number();
void forget_planning_number();  // the thread's options have changed: it is asked for anew
int64_t ask_planning_number();  // of Python; defined in python_plans.cpp

using Key = c10::SmallVector<int64_t, 64>;
struct KeyHash {
  size_t operator()(const Key& key) const;
};

// Plans by key. Beyond a limit, the half that was not used for longest is forgotten: sizes that came once, as those of
// a growing cache, must not push out what a program uses all the time.
class PlanCache {
 public:
  LoadedPlanPtr find(const Key& key) const;
  LoadedPlanPtr keep(const Key& key, LoadedPlanPtr loaded, size_t limit);  // what was there already, if anything was
  size_t size() const;
  void clear();
  void forget_constants();  // plans that hold tensors of their own

 private:
  void forget_older_half();

  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, LoadedPlanPtr, KeyHash> plans_;
};

}  // namespace torch_spyre
