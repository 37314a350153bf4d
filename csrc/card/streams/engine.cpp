// Prepared programs: every step checked and made ready once, then run in order, in every iteration of the repeats
// around it, with the addresses of a launch.
#include <algorithm>
#include <chrono>
#include <utility>

#include "dma/dma.h"
#include "formats/floating_point.h"
#include "memory/launch_memory.h"
#include "memory/scratchpad.h"
#include "program/prepared_step.h"
#include "program/repeats.h"
#include "sanitizer/sanitize_deeds.h"
#include "sanitizer/sanitize_step.h"
#include "streams/workers.h"

namespace openspyre {
namespace {

class ContractStep final : public PreparedStep {
 public:
  explicit ContractStep(const Step& step) : step_(step) {}
  void run(const StepArguments& arguments, CoreRange cores) const override { run_contract(step_, arguments, cores); }

 private:
  const Step& step_;
};

PreparedStepPtr prepare_step(const Step& step, Isa isa) {
  switch (step.kind) {
    case StepKind::Map:
      return prepare_map(step, isa);
    case StepKind::Reduce:
      return prepare_reduce(step, isa);
    case StepKind::Rows:
      return prepare_rows(step, isa);
    case StepKind::Contract:
      return std::make_unique<ContractStep>(step);
    case StepKind::Gather:
      return prepare_gather(step, isa);
    case StepKind::Scatter:
      return prepare_scatter(step, isa);
    case StepKind::Scan:
      return prepare_scan(step, isa);
    case StepKind::Sort:
      return prepare_sort(step, isa);
    case StepKind::Relayout:
      return nullptr;  // a copy of the DMA's, see run_relayout
  }
  return nullptr;
}

// The operand says where the buffer begins behind its symbol (a temp's place in the pool).
DeviceView resolve(const Card& card, const Step::View& view, const Operand& operand, const LaunchArguments& launch) {
  const auto at = static_cast<size_t>(operand.symbol);
  const int64_t shift = launch.host_offsets.empty() ? 0 : launch.host_offsets[at];
  const int64_t first = operand.offset + moved_by(operand, launch.iterations);
  const auto begin = static_cast<uint64_t>(first * device_itemsize(operand.element.format));
  const Address address = launch.addresses[at] + begin;
  (void)card.translate(address + static_cast<uint64_t>(view.shape->device_bytes()) - 1);
  return {view.shape, card.translate(address), view.dtype, view.offset + shift, view.size, view.stride};
}

void run_relayout(const Card& card, const Step& step, const LaunchArguments& launch) {
  copy_across(resolve(card, step.views[0], step.inputs[0], launch),
              resolve(card, step.views[1], step.outputs[0], launch));
}

// Elements, or sixteen products of a contraction: a host does some hundred millions of them in a second. A matter of
// milliseconds, then, is brief.
constexpr double kLengthyWork = 8 << 20;

double work_of(const Step& step) {
  double work = static_cast<double>(step.lane.lanes);
  for (const Loop& loop : step.loops) work *= static_cast<double>(loop.extent);
  if (step.kind == StepKind::Contract) work *= static_cast<double>(step.k_lanes) / 16;
  if (step.kind == StepKind::Relayout)
    for (const int64_t extent : step.views[1].size) work *= static_cast<double>(extent);
  return work;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Leaves a step's end behind, where somebody asks for it.
class StepWatch {
 public:
  StepWatch(LaunchTimes* times, size_t step) : times_(times), step_(static_cast<uint32_t>(step)) {}
  ~StepWatch() {
    if (times_ != nullptr && times_->with_steps) [[unlikely]]
      times_->steps.push_back({step_, now()});
  }
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

 private:
  LaunchTimes* const times_;
  const uint32_t step_;
};

class Engine final : public PreparedProgram {
 public:
  Engine(Program program, Isa isa) : program_(std::move(program)) {
    check();
    const auto counts = counts_around(program_);
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      steps_.push_back(prepare_step(step, isa));
      scratchpad_reach_ = std::max(scratchpad_reach_, scratchpad_reach(step));
      double work = work_of(step);
      for (const int64_t count : counts[i]) work *= static_cast<double>(count);
      work_ += work;
      if (moves(step))
        for (Step& end : farthest(step, counts[i])) ends_.push_back(std::move(end));
    }
  }

  const Program& program() const override { return program_; }
  bool lengthy() const override { return work_ > kLengthyWork; }

  void run(Card& card, const LaunchArguments& launch) const override {
    check_launch(launch);
    if (configuration().null) return check_addresses(card, launch);
    const FloatingPointScope scope;
    std::unique_lock<std::mutex> scratchpads;
    if (scratchpad_reach_ > 0) scratchpads = card.scratchpads().claim();
    if (launch.times != nullptr) [[unlikely]]
      launch.times->began = now();
    for (const Step& end : ends_) check_addresses(card, end, launch);  // before the first iteration runs
    const bool sanitized = card.settled_shadow() != nullptr;
    LaunchArguments here = launch;
    each_execution(program_, [&](size_t number, std::span<const int64_t> iterations) {
      here.iterations = iterations;
      const StepWatch watch(launch.times, number);
      if (!sanitized) {
        run_step(card, number, here);
      } else {
        const sanitize::AtWork at_work;
        sanitize::CheckedStep checked(card, program_, number, here);
        checked.run([&] { run_step(card, number, here); });
      }
      return !loops_abandoned();
    });
  }

 private:
  void run_step(Card& card, size_t number, const LaunchArguments& launch) const {
    const Step& step = program_.steps[number];
    if (step.kind == StepKind::Relayout) return run_relayout(card, step, launch);
    if (scratchpad_reach_ == 0 || !uses_scratchpad(step))
      return steps_[number]->run(resolve(card, step, launch, 0), all_cores(step));
    parallel_for(static_cast<size_t>(core_count(step)), [&](size_t core) {
      steps_[number]->run(resolve(card, step, launch, static_cast<int>(core)), {static_cast<int>(core), 1});
    });
  }

  void check() const {
    std::string problems;
    for (const std::string& problem : check_repeats(program_)) problems += "\n  " + problem;
    if (problems.empty()) {
      const auto counts = counts_around(program_);
      for (size_t i = 0; i < program_.steps.size(); ++i)
        for (const std::string& problem : problems_of(program_.steps[i], counts[i]))
          problems += "\n  step " + std::to_string(i) + " '" + program_.steps[i].name + "': " + problem;
    }
    if (!problems.empty()) fail(Fault::InvalidArgument, "program '" + program_.name + "' cannot run:" + problems);
  }

  // In all iterations: what is right at both ends is right between them.
  std::vector<std::string> problems_of(const Step& step, std::span<const int64_t> counts) const {
    std::vector<std::string> problems = check_advances(step, counts);
    if (!problems.empty() || !moves(step)) {
      for (std::string& problem : check_step(step, program_.symbols, program_.scalars))
        problems.push_back(std::move(problem));
      return problems;
    }
    for (const Step& end : farthest(step, counts))
      for (const std::string& problem : check_step(end, program_.symbols, program_.scalars))
        if (std::find(problems.begin(), problems.end(), problem) == problems.end()) problems.push_back(problem);
    return problems;
  }

  static void check_addresses(Card& card, const Step& step, const LaunchArguments& launch) {
    if (step.kind != StepKind::Relayout) {
      (void)resolve(card, step, launch, 0);
      return;
    }
    (void)resolve(card, step.views[0], step.inputs[0], launch);
    (void)resolve(card, step.views[1], step.outputs[0], launch);
  }

  // What a null card does with a launch.
  void check_addresses(Card& card, const LaunchArguments& launch) const {
    for (const Step& step : program_.steps)
      if (!moves(step)) check_addresses(card, step, launch);
    for (const Step& end : ends_) check_addresses(card, end, launch);
  }

  void check_launch(const LaunchArguments& launch) const {
    const auto symbols = static_cast<size_t>(program_.symbols), scalars = static_cast<size_t>(program_.scalars);
    const auto wrong = [&](const char* what, size_t found, size_t wanted) {
      fail(Fault::InvalidArgument, "program '" + program_.name + "' was launched with " + std::to_string(found) + ' ' +
                                       what + ", it has " + std::to_string(wanted));
    };
    if (launch.addresses.size() != symbols) wrong("addresses", launch.addresses.size(), symbols);
    if (!launch.offsets.empty() && launch.offsets.size() != symbols) wrong("offsets", launch.offsets.size(), symbols);
    if (!launch.host_offsets.empty() && launch.host_offsets.size() != symbols)
      wrong("host offsets", launch.host_offsets.size(), symbols);
    if (launch.scalars.size() != scalars) wrong("scalars", launch.scalars.size(), scalars);
  }

  const Program program_;
  std::vector<PreparedStepPtr> steps_;
  std::vector<Step> ends_;        // steps that repeats move, where they are lowest and highest
  int64_t scratchpad_reach_ = 0;  // of any core, in bytes
  double work_ = 0;
};

}  // namespace

std::shared_ptr<const PreparedProgram> prepare_for(Program program, Isa isa) {
  return std::make_shared<Engine>(std::move(program), isa);
}

std::shared_ptr<const PreparedProgram> prepare(Program program) {
  return prepare_for(std::move(program), active_isa());
}

}  // namespace openspyre
