#include "operators/eager.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/RangeUtils.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "counters/counters.h"
#include "device/generator.h"
#include "operators/draw_checks.h"
#include "operators/fallback.h"
#include "operators/growing.h"
#include "operators/launch.h"
#include "profiler/trace.h"

namespace torch_spyre {
namespace {

// One per registered operator; never freed, because the dispatcher points into it.
struct EagerOp {
  std::string name;
  std::vector<ScalarKey> scalars;  // per schema argument
  DrawCheck check = nullptr;       // of the numbers a random operator is given
  bool makes_range = false;        // out= is given its size before the key is made, which then needs no numbers
  bool fills = false;              // all elements are one number: places that are one place do not matter
  bool attends = false;            // lengths of keys may grow
  std::vector<size_t> written;     // schema arguments
  Growth growth;
  PlanCache plans;
};

std::atomic<size_t> plans_per_op{4096};

struct OpTable {
  std::mutex mutex;
  std::vector<std::unique_ptr<EagerOp>> ops;
  std::unordered_map<std::string, EagerOp*> by_name;
};
OpTable& op_table() {
  static auto* instance = new OpTable;
  return *instance;
}

// --- the key (D7)
// -------------------------------------------------------------------------------------------------------

class CallReader {
 public:
  CallReader(const EagerOp& op, const torch::jit::Stack& stack, size_t arguments, int64_t planning)
      : planning(planning), base_(stack.size() - arguments) {
    if (planning) key.append({9, planning});
    for (size_t i = 0; i < arguments; ++i) add(stack[base_ + i], op.scalars[i]);
  }

  int64_t planning;
  Key key;
  c10::SmallVector<const at::Tensor*, 8> tensors;  // flattened; undefined ones are left out
  bool usable = true;                              // false: something no program can take (another device, sparse, ...)
  c10::DeviceIndex device = -1;
  std::optional<at::Generator> generator;

 private:
  void add(const c10::IValue& value, const ScalarKey& scalar) {
    if (value.isTensor()) {
      add_tensor(value.toTensor());
    } else if (value.isNone()) {
      key.push_back(-1);
    } else if (value.isInt()) {
      key.append({1, scalar.word(value.toInt())});
    } else if (value.isDouble()) {
      key.append({2, scalar.word(value.toDouble())});
    } else if (value.isBool()) {
      key.append({3, scalar.word(static_cast<int64_t>(value.toBool()))});
    } else if (value.isIntList()) {
      key.append({4, static_cast<int64_t>(value.toIntVector().size())});
      for (const int64_t item : value.toIntVector()) key.push_back(item);
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      key.append({5, static_cast<int64_t>(value.toListRef().size())});
      for (const c10::IValue& item : value.toListRef()) {
        usable = usable && !(item.isTensor() && item.toTensor().is_cpu());  // a number's value would not be in the key
        add(item, {});
      }
    } else if (value.isGenerator()) {  // where numbers come from chooses no program
      generator = value.toGenerator();
      key.push_back(-1);
    } else if (value.isString()) {
      add_text(value.toStringRef());
    } else {
      usable = false;
    }
  }

  // All of it: two texts never share a plan.
  void add_text(const std::string& text) {
    key.append({6, static_cast<int64_t>(text.size())});
    for (size_t at = 0; at < text.size(); at += sizeof(int64_t)) {
      int64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min(sizeof(word), text.size() - at));
      key.push_back(word);
    }
  }

  void add_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      key.push_back(-2);
      return;
    }
    if (tensor.is_cpu() && tensor.dim() == 0) {  // a number in disguise: its value is a launch scalar
      key.append({7, static_cast<int64_t>(tensor.scalar_type()), tensor.unsafeGetTensorImpl()->is_wrapped_number()});
      return;
    }
    if (tensor.device().type() != kSpyre || !tensor.has_storage() ||
        (device >= 0 && tensor.device().index() != device)) {
      usable = false;
      return;
    }
    device = tensor.device().index();
    if (access_of(tensor) != Access::Tiled) {
      usable = false;
      return;
    }
    const openspyre::BufferShape& shape = *record_of(tensor).shape;
    key.append(
        {8, static_cast<int64_t>(tensor.scalar_type()), static_cast<int64_t>(shape.id()), tensor.dim(), alias(tensor)});
    key.append(tensor.sizes().begin(), tensor.sizes().end());
    key.append(tensor.strides().begin(), tensor.strides().end());
    key.push_back(offset_class(shape, tensor));
    tensors.push_back(&tensor);
  }

  int64_t alias(const at::Tensor& tensor) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i]->storage().is_alias_of(tensor.storage())) return static_cast<int64_t>(i);
    }
    return -1;
  }

  size_t base_;
};

// --- the launch
// -----------------------------------------------------------------------------------------------------------

void launch_call(const EagerOp& op, LoadedPlanPtr loaded, const CallReader& call, const torch::jit::Stack& stack,
                 size_t arguments, Results& results) {
  const CallPlan& plan = loaded->plan;
  make_results(plan, call.tensors, call.device, results);
  if (plan.program == 0) return;  // nothing to compute: an empty result
  c10::SmallVector<uint32_t, 8> scalars;
  const LaunchDraws draws(plan, call.generator, call.device);
  for (const ScalarPlan& scalar : plan.scalars) {
    if (scalar.is_drawn()) {
      scalars.push_back(draws.word(scalar));
      continue;
    }
    const c10::IValue& given = stack[stack.size() - arguments + scalar.argument];
    scalars.push_back(encode(given.isTensor() ? given.toTensor().item() : given.toScalar(), scalar));
  }
  launch(op.name.c_str(), std::move(loaded), call.tensors, results, scalars, call.device);
}

// Places that are one place: torch's words for them, before ours for a program that cannot be.
void check_written(const EagerOp& op, const torch::jit::Stack& stack, size_t arguments) {
  for (const size_t argument : op.written) {
    const c10::IValue& given = stack[stack.size() - arguments + argument];
    if (given.isTensor() && !op.fills) at::assert_no_internal_overlap(given.toTensor());
  }
}

// Python compiles without holding the buffers; if one was re-tiled meanwhile, the plan may not be for this call, even
// if the buffer lies by now as it did before.
LoadedPlanPtr find_or_compile(EagerOp& op, CallReader& call, const torch::jit::Stack& stack, size_t arguments,
                              HeldBuffers& held) {
  for (;;) {
    if (LoadedPlanPtr found = op.plans.find(call.key)) return found;
    check_written(op, stack, arguments);
    const uint64_t before = retilings();
    held.unlock();
    const OperatorAtWork at_work(op.name.c_str());
    const auto loaded = [&] {
      const TracedWait traced(TracedWork::Kind::Compile, "aiuCompileGraph", call.device, 0);
      return std::make_shared<const LoadedPlan>(compile_call(op.name, stack, arguments));
    }();
    openspyre::add(openspyre::counters().process.eager_compiles, 1);
    held.lock();
    CallReader now(op, stack, arguments, call.planning);
    if (now.key == call.key && before == retilings())
      return op.plans.keep(call.key, loaded, plans_per_op.load(std::memory_order_relaxed));
    call = std::move(now);
  }
}

void check_overlap(const EagerOp& op, const CallPlan& plan, const CallReader& call) {
  for (const ResultPlan& result : plan.results) {
    if (result.argument < 0) continue;
    const at::Tensor& target = *call.tensors[result.argument];
    if (!op.fills) at::assert_no_internal_overlap(target);
    for (const at::Tensor* tensor : call.tensors) {
      if (tensor != &target) at::assert_no_partial_overlap(target, *tensor);
    }
  }
}

// What an operator returns beyond its results serves backward formulas we do not have: absent tensors and zeros.
void push_absent_returns(const c10::FunctionSchema& schema, size_t from, torch::jit::Stack& stack) {
  for (size_t i = from; i < schema.returns().size(); ++i) {
    if (schema.returns()[i].type()->kind() == c10::TypeKind::TensorType) {
      stack.emplace_back(at::Tensor());
    } else {
      stack.emplace_back(int64_t{0});
    }
  }
}

// start, end, step, out: the size follows from the numbers by torch's own rule, which counts integers as such.
void resize_to_range(const torch::jit::Stack& stack) {
  const auto number = [&](size_t back) { return stack[stack.size() - back].toScalar(); };
  const at::Tensor out = stack.back().toTensor();
  const int64_t size = out.scalar_type() == at::kLong
                           ? at::native::compute_arange_size<int64_t>(number(4), number(3), number(2))
                           : at::native::compute_arange_size<double>(number(4), number(3), number(2));
  if (out.numel() != size) out.resize_({size});
}

enum class Outcome { Done, OnTheHost, New };  // New: it would have to be compiled

// `own`: whether a program of its own may be compiled for it.
Outcome attempt(EagerOp& op, const torch::jit::Stack& stack, size_t arguments, bool own, Results& results) {
  return translated([&] {
    const int64_t planning = planning_number();
    HeldBuffers held = hold_buffers();
    CallReader call(op, stack, arguments, planning);
    if (!call.usable || call.device < 0) return Outcome::OnTheHost;
    LoadedPlanPtr loaded = op.plans.find(call.key);
    if (!loaded && !own) return Outcome::New;
    if (!loaded) loaded = find_or_compile(op, call, stack, arguments, held);
    if (loaded->plan.fallback) return Outcome::OnTheHost;
    for (size_t r = 0; r < loaded->plan.resize.size(); ++r) {
      const at::Tensor out = *call.tensors[loaded->plan.resize[r]];
      out.resize_(loaded->plan.results[r].size);
    }
    if (!loaded->plan.resize.empty()) {
      CallReader again(op, stack, arguments, planning);
      loaded = find_or_compile(op, again, stack, arguments, held);
      check_overlap(op, loaded->plan, again);
      launch_call(op, std::move(loaded), again, stack, arguments, results);
      return Outcome::Done;
    }
    check_overlap(op, loaded->plan, call);
    launch_call(op, std::move(loaded), call, stack, arguments, results);
    return Outcome::Done;
  });
}

std::optional<StandIns> stand_ins(EagerOp& op, const torch::jit::Stack& stack, size_t arguments) {
  return op.attends ? padded_attention(op.growth, stack, arguments) : single_elements(stack, arguments);
}

void eager(const c10::OperatorHandle& handle, torch::jit::Stack* stack, EagerOp& op) {
  const c10::FunctionSchema& schema = handle.schema();
  const size_t arguments = schema.arguments().size();
  Results results;
  if (op.makes_range) resize_to_range(*stack);
  if (op.check != nullptr) op.check(*stack, stack->size() - arguments);
  Outcome outcome = attempt(op, *stack, arguments, /*own=*/!op.written.empty(), results);
  if (outcome == Outcome::New) {
    const std::optional<StandIns> made = stand_ins(op, *stack, arguments);
    outcome = attempt(op, made ? made->arguments : *stack, arguments, /*own=*/true, results);
    if (made && made->rows && outcome == Outcome::Done) results.front() = first_rows(results.front(), *made->rows);
  }
  if (outcome == Outcome::OnTheHost) return fallback(handle, stack);
  stack->erase(stack->end() - static_cast<int64_t>(arguments), stack->end());
  for (at::Tensor& result : results) stack->emplace_back(std::move(result));
  push_absent_returns(schema, results.size(), *stack);
}

struct EagerKernel final : c10::OperatorKernel {
  explicit EagerKernel(EagerOp* op) : op(op) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
    eager(handle, stack, *op);
  }
  EagerOp* op;
};

}  // namespace

bool register_eager(const std::string& name, const std::map<std::string, ScalarKey>& supplied_at_launch) {
  const size_t dot = name.find('.');
  const std::string base = "aten::" + name.substr(0, dot);
  const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  const auto handle = c10::Dispatcher::singleton().findSchema({base, overload});
  if (!handle) return false;  // TorchScript has overloads that the dispatcher does not know
  std::lock_guard lock(op_table().mutex);
  if (op_table().by_name.count(name)) return true;
  auto op = std::make_unique<EagerOp>();
  op->name = "aten::" + name;
  op->makes_range = name == "arange.start_out";
  op->fills = base == "aten::fill_" || base == "aten::zero_";
  op->attends = base == "aten::_scaled_dot_product_fused_attention_overrideable";
  op->check = draw_check(name);
  for (const c10::Argument& argument : handle->schema().arguments()) {
    const auto found = supplied_at_launch.find(argument.name());
    if (argument.alias_info() && argument.alias_info()->isWrite()) op->written.push_back(op->scalars.size());
    op->scalars.push_back(found == supplied_at_launch.end() ? ScalarKey{} : found->second);
  }
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<EagerKernel>(op.get())));
  op_table().by_name[name] = op.get();
  op_table().ops.push_back(std::move(op));
  return true;
}

EagerCounts eager_counts() {
  EagerCounts counts{launch_count(), static_cast<int64_t>(openspyre::counters().process.eager_compiles.load()), 0};
  std::lock_guard lock(op_table().mutex);
  for (const auto& op : op_table().ops) counts.programs += static_cast<int64_t>(op->plans.size());
  return counts;
}

void limit_eager_plans(size_t per_operator) { plans_per_op.store(std::max<size_t>(per_operator, 1)); }

void clear_eager_cache() {
  std::lock_guard lock(op_table().mutex);
  for (const auto& op : op_table().ops) {
    op->plans.clear();
    op->growth.clear();
  }
  forget_paddings();
}

void forget_eager_constants() {
  std::lock_guard lock(op_table().mutex);
  for (const auto& op : op_table().ops) op->plans.forget_constants();
}

}  // namespace torch_spyre
