#include "profiler/activities.h"

#include <algorithm>
#include <map>
#include <set>

#include "generated/machine.h"
#include "profiler/described_program.h"

namespace torch_spyre {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;
using Kind = TracedWork::Kind;

// Kineto writes values between quotes as they are, but for backslashes: it makes slashes of them, also of one before a
// quote. So a quote becomes a single one.
std::string json_text(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c == '"' ? '\'' : c == '\\' ? '/' : c;
  return safe;
}

const char* call_name(const TracedWork& work) {
  switch (work.kind) {
    case Kind::Launch:
      return "aiuLaunchScheduleCompute";
    case Kind::CopyToCard:
    case Kind::CopyFromCard:
    case Kind::CopyWithin:
      return "aiuMemcpy";
    case Kind::Wait:
    case Kind::Compile:
      return work.name.c_str();
  }
  return "";
}

ActivityType type_of(const TracedWork& work) {
  if (work.kind != Kind::Launch) return ActivityType::GPU_MEMCPY;
  const bool fills = work.name.starts_with("aten::fill_") || work.name.starts_with("aten::zero_");
  return fills ? ActivityType::GPU_MEMSET : ActivityType::CONCURRENT_KERNEL;
}

std::string joined(const std::vector<const DescribedOp*>& ops, std::string DescribedOp::* field, const char* between) {
  std::string all;
  std::set<std::string> seen;
  for (const DescribedOp* op : ops) {
    const std::string& part = op->*field;
    if (part.empty() || !seen.insert(part).second) continue;
    all += (all.empty() ? "" : between) + part;
  }
  return all;
}

// A program as events need it: the ops of each step.
struct Described {
  DescribedProgram program;
  std::vector<const DescribedOp*> all;
  std::vector<std::vector<const DescribedOp*>> of_step;

  explicit Described(const std::string& text) : program(read_description(text)), of_step(program.steps.size()) {
    for (const DescribedOp& op : program.ops) {
      all.push_back(&op);
      if (op.step < of_step.size()) of_step[op.step].push_back(&op);
    }
  }
};

class Writer {
 public:
  explicit Writer(const ActivitySink& sink) : sink_(sink) {}

  int write(const std::vector<TracedWorkPtr>& work) {
    for (const TracedWorkPtr& one : work) {
      const int64_t returned = one->returned.load(std::memory_order_acquire);
      if (returned == 0 || one->called > sink_.end || one->called < sink_.start) continue;
      const bool ran = one->end.load(std::memory_order_acquire) != 0;
      write_call(*one, returned, ran);
      if (!ran) continue;
      write_run(*one);
      if (one->kind == Kind::Launch) write_inside(*one);
      widen_ranges(*one);
    }
    write_ranges();
    write_rows();
    return count_;
  }

 private:
  GenericTraceActivity& add(ActivityType type, const std::string& name, int64_t start, int64_t end) {
    sink_.buffer.emplace_activity(sink_.buffer.span, type, name);
    GenericTraceActivity& activity = *sink_.buffer.activities.back();
    // Kineto widens annotations by a nanosecond to both sides, for them to enclose what they annotate. Ours do already,
    // and follow each other without a gap: viewers drop what overlaps.
    const int64_t widened = type == ActivityType::GPU_USER_ANNOTATION ? 1 : 0;
    activity.startTime = start + widened;
    activity.endTime = std::max(end, start + 2 * widened) - widened;
    return activity;
  }
  GenericTraceActivity& add_on(ActivityType type, const std::string& name, int64_t start, int64_t end, int device,
                               int64_t resource) {
    GenericTraceActivity& activity = add(type, name, start, end);
    activity.device = device;
    activity.resource = static_cast<int32_t>(resource);
    rows_.insert({device, resource});
    ++count_;
    return activity;
  }
  void hand_over(const GenericTraceActivity& activity) { sink_.logger.handleActivity(activity); }

  void write_call(const TracedWork& work, int64_t returned, bool ran) {
    GenericTraceActivity& call = add(ActivityType::PRIVATEUSE1_RUNTIME, call_name(work), work.called, returned);
    call.id = work.correlation;
    call.device = libkineto::processId();
    call.resource = work.thread;
    call.threadId = work.thread;
    call.linked = sink_.linked(static_cast<int32_t>(work.external));
    if (ran) {
      call.flow.id = static_cast<uint32_t>(work.correlation);
      call.flow.type = libkineto::kLinkAsyncCpuGpu;
      call.flow.start = 1;
    }
    call.addMetadata("correlation", work.correlation);
    hand_over(call);
  }

  // An operator's launch is called by the operator, a graph's by its kernel.
  std::string run_name(const TracedWork& work) {
    if (work.kind != Kind::Launch || work.name.starts_with("aten::")) return work.name;
    const std::string& kernel = described_of(work).program.kernel;
    return kernel.empty() ? work.name : kernel + "#0";
  }

  static void add_handles(GenericTraceActivity& activity, const std::vector<const DescribedOp*>& ops) {
    const std::string handles = joined(ops, &DescribedOp::handles, "\", \"");
    activity.addMetadata("debug_handles", handles.empty() ? "[]" : "[\"" + handles + "\"]");
  }

  void write_run(const TracedWork& work) {
    GenericTraceActivity& run =
        add_on(type_of(work), run_name(work), work.start, work.end.load(), work.card, work.stream);
    run.id = work.correlation;
    run.linked = sink_.linked(static_cast<int32_t>(work.external));
    run.flow.id = static_cast<uint32_t>(work.correlation);
    run.flow.type = libkineto::kLinkAsyncCpuGpu;
    run.flow.start = 0;
    run.addMetadata("correlation", work.correlation);
    run.addMetadata("device", work.card);
    run.addMetadata("stream", work.stream);
    const double us = static_cast<double>(work.end.load() - work.start) / 1000;
    if (work.kind != Kind::Launch) {
      run.addMetadata("bytes", work.bytes);
      run.addMetadata("memory bandwidth (GB/s)", us > 0 ? static_cast<double>(work.bytes) / us / 1000 : 0.0);
    } else {
      const Described& described = described_of(work);
      run.addMetadata("steps", described.program.steps.size());
      run.addMetadata("predicted us", predicted_us(described));
      if (!described.program.key.empty()) run.addMetadataQuoted("provenance_key", described.program.key);
      if (!described.program.bundle.empty()) run.addMetadataQuoted("bundle", described.program.bundle);
      add_site(run, work);
      if (!work.times.with_steps) add_handles(run, described.all);  // else its steps have them
      run.addMetadata("predicted launch us", described.program.launch_us);
    }
    hand_over(run);
  }

  // To the operator it was launched by. Not by `linked`: torch would count its time once more.
  static void point_back(GenericTraceActivity& activity, const TracedWork& work) {
    activity.id = work.correlation;
    activity.addMetadata("External id", work.external);
    activity.addMetadata("correlation", work.correlation);
  }

  // An operator's program serves all its callers: the line is that of this launch.
  static void add_site(GenericTraceActivity& activity, const TracedWork& work) {
    if (work.site.known())
      activity.addMetadataQuoted("source", json_text(work.site.file + ":" + std::to_string(work.site.line)));
  }

  static double predicted_us(const Described& described) {
    double us = 0;
    for (const DescribedOp& op : described.program.ops) us += op.us;
    return us;
  }

  void write_inside(const TracedWork& work) {
    const Described& described = described_of(work);
    int64_t begin = work.start;
    for (const openspyre::StepEnd& run : work.times.steps) {
      if (run.step < described.of_step.size()) write_step(work, described, run.step, begin, run.end);
      begin = run.end;
    }
    if (trace_options().predicted) write_predicted(work, described);
  }

  // Within its launch, and not counted once more: a step is no kernel of its own to torch.
  void write_step(const TracedWork& work, const Described& described, uint32_t number, int64_t begin, int64_t end) {
    const std::vector<const DescribedOp*>& ops = described.of_step[number];
    const std::string& own = described.program.steps[number];
    const std::string name = ops.empty() ? own : joined(ops, &DescribedOp::op, "+");
    GenericTraceActivity& step = add_on(ActivityType::GPU_USER_ANNOTATION, name, begin, end, work.card, work.stream);
    point_back(step, work);
    step.addMetadata("step", number);
    step.addMetadataQuoted("launch", json_text(work.name));
    if (!described.program.key.empty()) step.addMetadataQuoted("provenance_key", described.program.key);
    if (!ops.empty()) {
      const DescribedOp& last = *ops.back();
      describe(step, ops);
      add_site(step, work);
      add_handles(step, ops);
      step.addMetadataQuoted("shape", json_text(last.dims));
      step.addMetadata("cores", last.cores);
      step.addMetadataQuoted("bound", json_text(last.bound));
    }
    hand_over(step);
  }

  static void describe(GenericTraceActivity& activity, const std::vector<const DescribedOp*>& ops) {
    int64_t read = 0, written = 0, scratchpad = 0, ring = 0, macs = 0;
    double us = 0;
    for (const DescribedOp* op : ops) {
      read += op->read, written += op->written, scratchpad += op->scratchpad, ring += op->ring, macs += op->macs;
      us += op->us;
    }
    activity.addMetadataQuoted("sdsc", json_text(joined(ops, &DescribedOp::name, " ")));
    activity.addMetadata("bytes read", read);
    activity.addMetadata("bytes written", written);
    activity.addMetadata("bytes in scratchpads", scratchpad);
    activity.addMetadata("bytes on the ring", ring);
    activity.addMetadata("macs", macs);
    activity.addMetadata("predicted us", us);
    const std::string operators = joined(ops, &DescribedOp::operator_name, " ");
    const std::string source = joined(ops, &DescribedOp::source, " "), module = joined(ops, &DescribedOp::module, " ");
    if (!operators.empty()) activity.addMetadataQuoted("operator", json_text(operators));
    if (!source.empty()) activity.addMetadataQuoted("source", json_text(source));
    if (!module.empty()) activity.addMetadataQuoted("module", json_text(module));
  }

  // A lane of its own, in which launches follow each other as a real card would run them.
  void write_predicted(const TracedWork& work, const Described& described) {
    const int device = kPredictedRows + work.card;
    const auto ns = [](double us) { return static_cast<int64_t>(us * 1000); };
    int64_t at = std::max(predicted_until_[work.card], work.called);
    if (described.program.launch_us > 0) {
      GenericTraceActivity& launch = add_on(ActivityType::GPU_USER_ANNOTATION, "launch (predicted)", at,
                                            at + ns(described.program.launch_us), device, resource_row("host"));
      point_back(launch, work);
      hand_over(launch);
      at += ns(described.program.launch_us);
    }
    for (const DescribedOp& op : described.program.ops) {
      const int64_t end = at + std::max<int64_t>(ns(op.us), 2);
      GenericTraceActivity& kernel =
          add_on(ActivityType::GPU_USER_ANNOTATION, op.op + " (predicted)", at, end, device, kPredictedKernels);
      // What is the same for every run of it, its steps tell: a reader of events pays for each field of each.
      point_back(kernel, work);
      kernel.addMetadataQuoted("sdsc", json_text(op.name));
      kernel.addMetadata("cores", op.cores);
      kernel.addMetadata("predicted us", op.us);
      kernel.addMetadata("ideal us", op.ideal_us);
      kernel.addMetadata("bytes", op.read + op.written);
      kernel.addMetadataQuoted("bound", json_text(op.bound));
      hand_over(kernel);
      for (const BusyResource& busy : op.busy)
        if (busy.resource == op.bound) write_busy(work, busy, at, end);
      count_busy(op, at, device);
      at = end;
    }
    predicted_until_[work.card] = at;
  }

  // The resource that an op waits for, in a row of its own.
  void write_busy(const TracedWork& work, const BusyResource& busy, int64_t at, int64_t end) {
    const int64_t until = std::min(at + std::max<int64_t>(static_cast<int64_t>(busy.us * 1000), 2), end);
    GenericTraceActivity& resource = add_on(ActivityType::GPU_USER_ANNOTATION, busy.resource + " (predicted)", at,
                                            until, kPredictedRows + work.card, resource_row(busy.resource));
    point_back(resource, work);
    hand_over(resource);
  }

  // Counters over the predicted lane: cores at work, what goes to and from memory, how full the arrays are.
  void count_busy(const DescribedOp& op, int64_t at, int device) {
    if (op.us <= 0) return;
    GenericTraceActivity& counter = add_on(ActivityType::MTIA_COUNTERS, "Spyre (predicted)", at, at, device, 0);
    counter.addCounterValue("cores", op.cores);
    counter.addCounterValue("memory GB/s", static_cast<double>(op.read + op.written) / op.us / 1000);
    counter.addCounterValue("scratchpads GB/s", static_cast<double>(op.scratchpad) / op.us / 1000);
    counter.addCounterValue("ring GB/s", static_cast<double>(op.ring) / op.us / 1000);
    counter.addCounterValue("PT %", 100 * op.ideal_us / op.us);
    hand_over(counter);
  }

  int64_t resource_row(const std::string& resource) {
    const auto [found, fresh] =
        resources_.try_emplace(resource, kPredictedKernels + 1 + static_cast<int64_t>(resources_.size()));
    (void)fresh;
    return found->second;
  }

  const Described& described_of(const TracedWork& work) {
    auto& known = described_[work.loaded.get()];
    if (!known) known = std::make_unique<Described>(work.loaded ? work.loaded->plan.described : std::string());
    return *known;
  }

  // record_function ranges, over what they made the card do.
  void widen_ranges(const TracedWork& work) {
    for (const uint64_t id : work.ranges) {
      auto [range, fresh] = ranges_.try_emplace({id, work.card, work.stream}, std::pair{work.start, work.end.load()});
      if (fresh) continue;
      range->second.first = std::min(range->second.first, work.start);
      range->second.second = std::max(range->second.second, work.end.load());
    }
  }
  void write_ranges() {
    for (const auto& [key, times] : ranges_) {
      const auto& [id, card, stream] = key;
      const libkineto::ITraceActivity* own = sink_.linked(static_cast<int32_t>(id));
      if (own == nullptr) continue;
      GenericTraceActivity& range =
          add_on(ActivityType::GPU_USER_ANNOTATION, own->name(), times.first, times.second, card, stream);
      range.addMetadata("External id", id);
      hand_over(range);
    }
  }

  void write_rows() {
    std::set<int> devices;
    for (const auto& [device, resource] : rows_) {
      if (devices.insert(device).second) sink_.logger.handleDeviceInfo(row_of(device), sink_.start);
      sink_.logger.handleResourceInfo({resource, resource, device, resource_name(device, resource)}, sink_.start);
    }
  }
  static libkineto::DeviceInfo row_of(int device) {
    if (device < kPredictedRows) return device_row(device);
    const int card = device - kPredictedRows;
    return {device, libkineto::kExceedMaxPid + device, "Spyre (predicted)", "card " + std::to_string(card)};
  }
  std::string resource_name(int device, int64_t resource) const {
    if (device < kPredictedRows) return "stream " + std::to_string(resource);
    if (resource == kPredictedKernels) return "kernels";
    for (const auto& [name, row] : resources_)
      if (row == resource) return name;
    return "";
  }

  const ActivitySink& sink_;
  int count_ = 0;
  std::set<std::pair<int, int64_t>> rows_;
  std::map<std::string, int64_t> resources_;
  std::map<const LoadedPlan*, std::unique_ptr<Described>> described_;
  std::map<std::tuple<uint64_t, int, int64_t>, std::pair<int64_t, int64_t>> ranges_;
  std::map<int, int64_t> predicted_until_;  // by card
};

}  // namespace

int write_activities(const std::vector<TracedWorkPtr>& work, const ActivitySink& sink) {
  return Writer(sink).write(work);
}

libkineto::DeviceInfo device_row(int card) {
  return {card, libkineto::kExceedMaxPid + card, "Spyre", "card " + std::to_string(card)};
}

std::string device_properties() {
  std::string all;
  for (int card = 0; card < device_count(); ++card) {
    all += (card ? ", " : "") + std::string("{\"id\": ") + std::to_string(card) +
           ", \"name\": \"Spyre (software card)\", \"totalGlobalMem\": " +
           std::to_string(openspyre::configuration().memory_bytes) +
           ", \"cores\": " + std::to_string(openspyre::kCardCores) + "}";
  }
  return all;
}

}  // namespace torch_spyre
