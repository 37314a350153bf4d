// Prepared programs: every step checked and made ready once, then run in order with the addresses of a launch.
#include <array>
#include <utility>

#include "dma.h"
#include "floating_point.h"
#include "prepared_step.h"

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

// The whole block must lie on the card: a program cannot reach beyond it whatever a launch passes.
std::byte* resolve(const Card& card, const Step& step, const Operand& operand, const LaunchArguments& launch) {
  if (operand.kind == OperandKind::Iota || operand.kind == OperandKind::Scalar) return nullptr;
  const auto symbol = static_cast<size_t>(operand.symbol);
  const int64_t shift = launch.offsets.empty() ? 0 : launch.offsets[symbol];
  const int64_t itemsize = device_itemsize(operand.element.format);
  const ElementSpan span = operand_span(step, operand);
  const Address address = launch.addresses[symbol];
  if (span.last >= span.first) {
    const auto at = [&](int64_t element) { return address + static_cast<uint64_t>((shift + element) * itemsize); };
    (void)card.translate(at(span.first));
    (void)card.translate(at(span.last + 1) - 1);
  }
  return card.translate(address) + (shift + operand.offset) * itemsize;
}

StepArguments resolve(const Card& card, const Step& step, const LaunchArguments& launch) {
  StepArguments arguments;
  for (size_t i = 0; i < step.inputs.size(); ++i) arguments.inputs[i] = resolve(card, step, step.inputs[i], launch);
  for (size_t i = 0; i < step.outputs.size(); ++i) arguments.outputs[i] = resolve(card, step, step.outputs[i], launch);
  arguments.scalars = launch.scalars;
  return arguments;
}

// The operand says where the buffer begins behind its symbol (a temp's place in the pool).
DeviceView resolve(const Card& card, const Step::View& view, const Operand& operand, const LaunchArguments& launch) {
  const auto at = static_cast<size_t>(operand.symbol);
  const int64_t shift = launch.host_offsets.empty() ? 0 : launch.host_offsets[at];
  const auto begin = static_cast<uint64_t>(operand.offset * device_itemsize(operand.element.format));
  const Address address = launch.addresses[at] + begin;
  (void)card.translate(address + static_cast<uint64_t>(view.shape->device_bytes()) - 1);
  return {view.shape, card.translate(address), view.dtype, view.offset + shift, view.size, view.stride};
}

void run_relayout(const Card& card, const Step& step, const LaunchArguments& launch) {
  copy_across(resolve(card, step.views[0], step.inputs[0], launch),
              resolve(card, step.views[1], step.outputs[0], launch));
}

class Engine final : public PreparedProgram {
 public:
  Engine(Program program, Isa isa) : program_(std::move(program)) {
    check();
    for (const Step& step : program_.steps) steps_.push_back(prepare_step(step, isa));
  }

  const Program& program() const override { return program_; }

  void run(Card& card, const LaunchArguments& launch) const override {
    check_launch(launch);
    if (configuration().null) return check_addresses(card, launch);
    const FloatingPointScope scope;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.kind == StepKind::Relayout) {
        run_relayout(card, step, launch);
      } else {
        steps_[i]->run(resolve(card, step, launch), all_cores(step));
      }
    }
  }

 private:
  void check() const {
    std::string problems;
    for (size_t i = 0; i < program_.steps.size(); ++i)
      for (const std::string& problem : check_step(program_.steps[i], program_.symbols, program_.scalars))
        problems += "\n  step " + std::to_string(i) + " '" + program_.steps[i].name + "': " + problem;
    if (!problems.empty()) fail(Fault::InvalidArgument, "program '" + program_.name + "' cannot run:" + problems);
  }

  // What a null card does with a launch.
  void check_addresses(const Card& card, const LaunchArguments& launch) const {
    for (const Step& step : program_.steps) {
      if (step.kind != StepKind::Relayout) {
        (void)resolve(card, step, launch);
        continue;
      }
      (void)resolve(card, step.views[0], step.inputs[0], launch);
      (void)resolve(card, step.views[1], step.outputs[0], launch);
    }
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
};

}  // namespace

std::shared_ptr<const PreparedProgram> prepare_for(Program program, Isa isa) {
  return std::make_shared<Engine>(std::move(program), isa);
}

std::shared_ptr<const PreparedProgram> prepare(Program program) {
  return prepare_for(std::move(program), active_isa());
}

}  // namespace openspyre
