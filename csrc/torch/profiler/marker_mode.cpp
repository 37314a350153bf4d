// The two ways to profile without Kineto: marks on streams around every operator, and ranges for tools outside.
#include <ATen/record_function.h>
#include <torch/csrc/profiler/standalone/privateuse1_observer.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "device/runtime.h"
#include "profiler/trace.h"

namespace torch_spyre {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

// torch.autograd.profiler.profile(use_device="spyre", use_kineto=False): an event before and behind each operator.
struct Marks final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    translated([&] {
      const c10::DeviceIndex current = current_device();
      if (device != nullptr) *device = current;
      auto mark = std::make_shared<openspyre::Event>(true);
      if (cpu_ns != nullptr) *cpu_ns = trace_time();
      mark->record(current_stream(current));
      *event = mark;
    });
  }
  float elapsed(const ProfilerVoidEventStub* first, const ProfilerVoidEventStub* second) const override {
    return translated([&] {
      auto& from = *static_cast<openspyre::Event*>(first->get());
      auto& to = *static_cast<openspyre::Event*>(second->get());
      from.synchronize();
      to.synchronize();
      return static_cast<float>(from.elapsed_ms(to) * 1000);  // microseconds
    });
  }
  void mark(const char* name) const override { torch::profiler::impl::ittStubs()->mark(name); }
  void rangePush(const char* name) const override { torch::profiler::impl::ittStubs()->rangePush(name); }
  void rangePop() const override { torch::profiler::impl::ittStubs()->rangePop(); }
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> visit) const override {
    for (int index = 0; index < device_count(); ++index) visit(index);
  }
  void synchronize() const override {
    translated([] { openspyre::synchronize_all(); });
  }
};

const Marks marks;

// ProfilerState.PRIVATEUSE1: every operator is a range that tools on the host collect (ITT). Without an observer torch
// calls a null pointer.
struct Ranges final : torch::profiler::impl::ProfilerStateBase {
  using ProfilerStateBase::ProfilerStateBase;
  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::PRIVATEUSE1;
  }
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
};

std::unique_ptr<at::ObserverContext> enter_range_of(const at::RecordFunction& function) {
  marks.rangePush(function.name());
  return nullptr;
}
void leave_range_of(const at::RecordFunction&, at::ObserverContext*) { marks.rangePop(); }

void observe_ranges(const torch::profiler::impl::ProfilerConfig& config,
                    const std::unordered_set<at::RecordScope>& scopes) {
  auto state = std::make_shared<Ranges>(config);
  Ranges* const kept = state.get();
  torch::profiler::impl::ProfilerStateBase::push(std::move(state));
  kept->setCallbackHandle(at::addThreadLocalCallback(at::RecordFunctionCallback(&enter_range_of, &leave_range_of)
                                                         .needsInputs(config.report_input_shapes)
                                                         .scopes(scopes)));
}

const torch::profiler::impl::RegisterPRIVATEUSE1Observer ranges_registered(&observe_ranges);
const bool marks_registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(const_cast<Marks*>(&marks));  // torch only reads it
  return true;
}();

}  // namespace
}  // namespace torch_spyre
