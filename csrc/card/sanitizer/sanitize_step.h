// The sanitizer's walk over a step, before the step itself runs: every access of every core, in the shadow.
#pragma once

#include <functional>
#include <memory>

#include "program/program.h"
#include "sanitizer/sanitize_copy.h"
#include "sanitizer/sanitize_deeds.h"

namespace openspyre::sanitize {

// Throws SanitizerFinding if the step must not run, or did not do what it says. A relayout is checked by its copy
// (sanitize_copy.h), which speaks of the step as long as this lives.
class CheckedStep {
 public:
  CheckedStep(Card& card, const Program& program, size_t step, const LaunchArguments& launch);
  ~CheckedStep();

  template <typename Run>
  void run(Run&& run_step) {
    if (!walk_) return run_step();
    const Misdeed misdeed = take_misdeed();
    const auto act = [&] {
      if (misdeed != Misdeed::Skip) run_step();
      if (misdeed == Misdeed::StoreBeyond) store_beyond();
    };
    act();
    look(act);
  }

 private:
  using Act = std::function<void()>;
  void store_beyond() const;
  void look(const Act& again);
  const CopyName name_;
  std::unique_ptr<class StepWalk> walk_;
  std::unique_ptr<Deeds> deeds_;
};

}  // namespace openspyre::sanitize
