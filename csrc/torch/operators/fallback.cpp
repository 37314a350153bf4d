#include "operators/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>

#include "counters/counters.h"
#include "device/generator.h"
#include "device/observer.h"
#include "device/runtime.h"
#include "operators/fallback_dtypes.h"
#include "sanitizer/sanitize_copy.h"

namespace torch_spyre {
namespace {

std::mutex mutex;
std::map<std::string, FallbackCount> counts;
uint64_t announced_dtypes = 0;  // a bit each
std::atomic<FallbackMode> mode{FallbackMode::Warn};

template <typename Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      if (tensor) visit(*tensor);
    }
  }
}

// As on every accelerator: operands on another card are a mistake, and so are those on the host, unless they are
// numbers (0-d) or indices.
void check_same_device(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  const bool indices = schema.name().find("index") != std::string::npos;
  std::optional<c10::Device> card, other;
  for (size_t i = stack.size() - schema.arguments().size(); i < stack.size(); ++i) {
    visit_tensors(stack[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      const c10::Device device = tensor.device();
      if (device.type() == kSpyre && !card) card = device;
      if (device.type() == kSpyre && device != *card) other = device;
      if (device.is_cpu() && tensor.dim() > 0 && !indices && !other) other = device;
    });
  }
  TORCH_CHECK(!card || !other, schema.name(),
              ": Expected all tensors to be on the same device, but found at least two devices, ", *card, " and ",
              *other, "! Move the other one with .to('", *card, "')");
}

struct Traffic {
  int64_t bytes = 0;
  c10::DeviceIndex device = -1;
  void add(const c10::IValue& value) {
    visit_tensors(value, [&](const at::Tensor& tensor) {
      if (!tensor.defined() || tensor.device().type() != kSpyre) return;
      bytes += static_cast<int64_t>(tensor.nbytes());
      device = tensor.device().index();
    });
  }
};

int64_t written_bytes(const c10::FunctionSchema& schema, const torch::jit::Stack& arguments) {
  Traffic traffic;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias && alias->isWrite()) traffic.add(arguments[arguments.size() - schema.arguments().size() + i]);
  }
  return traffic.bytes;
}

// What the CPU draws follows from seed and offset, too: a generator of its own for every call.
at::Generator host_generator(const std::optional<at::Generator>& generator, c10::DeviceIndex device) {
  const SpyreGenerator::Place place = generator_of(generator, device).take(1);
  uint64_t mixed = place.seed;
  for (const uint64_t part : {place.offset, uint64_t{0}}) {  // the finaliser of SplitMix64
    mixed = (mixed ^ part) + 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    mixed ^= mixed >> 31;
  }
  return at::detail::createCPUGenerator(mixed);
}

// An operator that draws random numbers without taking a generator uses the CPU's default one: lend it a state of ours
// meanwhile.
class LentDefaultGenerator {
 public:
  explicit LentDefaultGenerator(const at::Generator& host) : cpu_(at::detail::getDefaultCPUGenerator()) {
    saved_ = cpu_.get_state();
    cpu_.set_state(host.get_state());
  }
  ~LentDefaultGenerator() { cpu_.set_state(saved_); }

 private:
  at::Generator cpu_;
  at::Tensor saved_;
};

// Puts a CPU generator that follows the card's where the schema has a generator; true if it has a place for one.
bool substitute_generator(const c10::FunctionSchema& schema, torch::jit::Stack& stack, c10::DeviceIndex device) {
  bool found = false;
  const size_t base = stack.size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::TypePtr& type = schema.arguments()[i].type();
    const auto optional = type->cast<c10::OptionalType>();
    const c10::TypeKind kind = optional ? optional->getElementType()->kind() : type->kind();
    if (kind != c10::TypeKind::GeneratorType) continue;
    found = true;
    c10::IValue& slot = stack[base + i];
    slot = host_generator(slot.isNone() ? std::nullopt : std::optional(slot.toGenerator()), device);
  }
  return found;
}

// The CPU's operator may get tensors it only writes: what they hold is copied along unread.
struct FallbackScope {
  explicit FallbackScope(const std::string& name) : at_work(name.c_str()) {}
  const OperatorAtWork at_work;
  const openspyre::sanitize::AllowUninitialisedReads unread;
  const Unobserved copies;
};

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack, bool wide) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string name = c10::toString(op.operator_name());
  check_same_device(schema, *stack);
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) announce_fallback(name, "nowhere");  // raises
  const FallbackMode now = mode.load(std::memory_order_relaxed);
  bool first = false;
  {
    std::lock_guard lock(mutex);
    first = counts[name].calls++ == 0;
  }
  if (now == FallbackMode::Error || (first && now == FallbackMode::Warn))
    announce_fallback(name, now == FallbackMode::Error ? "error" : "warn");

  Traffic in;
  for (size_t i = stack->size() - schema.arguments().size(); i < stack->size(); ++i) in.add((*stack)[i]);
  const c10::DeviceIndex on = in.device >= 0 ? in.device : current_device();
  translated([&] { openspyre::add(openspyre::counters_of(on, current_stream(on).id()).traffic.fallbacks, 1); });
  int64_t out_bytes = written_bytes(schema, *stack);

  std::optional<LentDefaultGenerator> lent;
  if (op.hasTag(at::Tag::nondeterministic_seeded)) {
    translated([&] {
      if (!substitute_generator(schema, *stack, on)) lent.emplace(host_generator(std::nullopt, on));
    });
  }
  try {
    const FallbackScope scope(name);
    run_on_cpu(op, *stack, wide);
  } catch (const c10::NotImplementedError& error) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, name, " has no kernel on spyre for these dtypes, nor on the CPU: ",
                                error.what_without_backtrace(), ". Convert first, as by x.to(torch.float32)");
  }

  if (out_bytes == 0) {
    Traffic out;
    for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) out.add((*stack)[i]);
    out_bytes = out.bytes;
  }
  if (is_observed())
    tell({.what = Observed::What::Fallback, .name = name, .bytes_down = in.bytes, .bytes_up = out_bytes});
  std::lock_guard lock(mutex);
  counts[name].bytes_to_host += in.bytes;
  counts[name].bytes_to_device += out_bytes;
}

}  // namespace

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { fall_back(op, stack, false); }

void announce_foreign(c10::ScalarType type) {
  {
    std::lock_guard lock(mutex);
    const uint64_t before = announced_dtypes;
    announced_dtypes |= uint64_t{1} << static_cast<int>(type);
    if (announced_dtypes == before) return;
  }
  if (mode.load(std::memory_order_relaxed) == FallbackMode::Warn)
    announce_fallback(std::string(c10::getDtypeNames(type).first), "dtype");
}

namespace {

const c10::OperatorHandle& operator_named(const char* name) {
  static std::map<std::string, c10::OperatorHandle> handles;
  static std::mutex handles_mutex;
  std::lock_guard lock(handles_mutex);
  auto found = handles.find(name);
  if (found == handles.end())
    found = handles.emplace(name, c10::Dispatcher::singleton().findSchemaOrThrow(name, "")).first;
  return found->second;
}

// torch routes convolutions of out-of-tree devices to these two; the CPU knows them under their own names.
void convolution(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  fallback(operator_named("aten::convolution"), stack);
}

void convolution_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t first = stack->size() - op.schema().arguments().size();
  const at::Tensor gradient = (*stack)[first].toTensor();
  // The CPU's operator asks for the bias's sizes after the weight: one entry, the output channels.
  stack->insert(stack->begin() + static_cast<int64_t>(first) + 3, c10::IValue(c10::List<int64_t>({gradient.size(1)})));
  fallback(operator_named("aten::convolution_backward"), stack);
}

void in_float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) { fall_back(op, stack, true); }

}  // namespace

void set_fallback_mode(FallbackMode chosen) { mode = chosen; }

std::map<std::string, FallbackCount> fallback_counts() {
  std::lock_guard lock(mutex);
  return counts;
}

void reset_fallback_counts() {
  std::lock_guard lock(mutex);
  counts.clear();
  announced_dtypes = 0;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  m.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  // The CPU's kernel takes 16-bit floats, and its factors leave their range: nothing but NaN.
  m.impl("linalg_matrix_exp", torch::CppFunction::makeFromBoxedFunction<&in_float32>());
  // torch's kernel for all devices would look for a stub of ours.
  m.impl("conj_physical_", torch::CppFunction::makeFromBoxedFunction<&fallback>());
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace torch_spyre
