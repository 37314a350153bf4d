// The device in torch.profiler: an activity profiler that Kineto takes through torch's registry, no patched wheel.
#include <IActivityProfiler.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include "profiler/activities.h"
#include "profiler/trace.h"

namespace torch_spyre {
namespace {

using libkineto::ActivityType;
using Types = std::set<ActivityType>;

const Types& offered() {
  static const Types types{ActivityType::CONCURRENT_KERNEL,   ActivityType::GPU_MEMCPY,
                           ActivityType::GPU_MEMSET,          ActivityType::GPU_USER_ANNOTATION,
                           ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::PRIVATEUSE1_DRIVER,
                           ActivityType::MTIA_COUNTERS};
  return types;
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  // A profile of the CPU alone asks for no kernels (but for runtime calls): nobody wants to see the card.
  explicit Session(const Types& asked) : wanted_(asked.contains(ActivityType::CONCURRENT_KERNEL)) {}
  ~Session() override { trace_->close(); }

  void start() override {
    if (wanted_) trace_->open();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    trace_->close();
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, INT64_MAX);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t start,
                    int64_t end) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(start, end, "Spyre");
    buffer_->gpuOpCount = write_activities(trace_->work(), {logger, *buffer_, linked, start, end});
    status_ = libkineto::TraceStatus::READY;
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(device_row(0));
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }
  std::string getDeviceProperties() override { return device_properties(); }

  void pushCorrelationId(uint64_t id) override { enter_operator(id); }
  void popCorrelationId() override { leave_operator(); }
  void pushUserCorrelationId(uint64_t id) override { enter_range(id); }
  void popUserCorrelationId() override { leave_range(); }

 private:
  const bool wanted_;
  const std::shared_ptr<TraceSession> trace_ = std::make_shared<TraceSession>();
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class SpyreActivityProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const Types& availableActivities() const override { return offered(); }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const Types& types,
                                                                 const libkineto::Config&) override {
    return std::make_unique<Session>(types);
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const Types& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  const std::string name_ = "spyre";
};

REGISTER_PRIVATEUSE1_PROFILER(SpyreActivityProfiler);

}  // namespace
}  // namespace torch_spyre
