#include "sanitizer/sanitize_step.h"

#include <string>

#include "sanitizer/sanitize_walk.h"
#include "streams/workers.h"

namespace openspyre::sanitize {
namespace {

std::string step_text(const Program& program, size_t number, const LaunchArguments& launch) {
  std::string text =
      "program '" + program.name + "', step " + std::to_string(number) + " '" + program.steps[number].name + "'";
  for (size_t k = 0; k < launch.iterations.size(); ++k)
    text += (k == 0 ? ", iteration " : ".") + std::to_string(launch.iterations[k]);
  return text;
}

void walk_core(StepWalk& walk, const Step& step, int core) {
  switch (step.kind) {
    case StepKind::Map:
      return walk.map(core);
    case StepKind::Reduce:
      return walk.reduce(core);
    case StepKind::Rows:
      return walk.rows(core);
    case StepKind::Contract:
      return stores(step, core) ? walk.contract(core) : void();
    case StepKind::Gather:
      return walk.gather(core);
    case StepKind::Scatter:
      return walk.scatter(core);
    case StepKind::Scan:
    case StepKind::Sort:
      return walk.ordered(core);
    case StepKind::Relayout:
      return;
  }
}

}  // namespace

CheckedStep::CheckedStep(Card& card, const Program& program, size_t number, const LaunchArguments& launch)
    : name_(step_text(program, number, launch)) {
  const Step& step = program.steps[number];
  if (step.kind == StepKind::Relayout) return;
  Findings findings(step_text(program, number, launch));
  walk_ = std::make_unique<StepWalk>(card, program, step, launch, findings);
  for (int core = 0; core < core_count(step); ++core) {
    walk_->aim(core);
    if (core == 0) walk_->choose_log();
    walk_core(*walk_, step, core);
  }
  walk_->report_races();
  findings.settle();
  deeds_ = std::make_unique<Deeds>(walk_->stored(), walk_->read(), walk_->blocks());
}

CheckedStep::~CheckedStep() = default;

void CheckedStep::store_beyond() const { walk_->store_beyond(); }

void CheckedStep::look(const Act& again) {
  if (loops_abandoned()) return;  // the process ends, and the step was left half done
  Findings findings(name_.text());
  for (const Deeds::Unwritten& unwritten : deeds_->unwritten(again)) walk_->report_unwritten(unwritten, findings);
  if (const std::byte* place = deeds_->changed_beyond()) walk_->report_undeclared(place, findings);
  findings.settle();
}

}  // namespace openspyre::sanitize
