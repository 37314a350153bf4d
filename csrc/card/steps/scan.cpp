// Scan steps: running sums and products along rows of elements that lie one behind the other. Ascending, one
// accumulator, rounded where an element is stored (N3, N6).
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>

#include "program/port.h"
#include "program/prepared_step.h"
#include "program/run_operand.h"
#include "program/step_inputs.h"
#include "streams/task_split.h"

namespace openspyre {
namespace {

class ScanStep final : public PreparedStep {
 public:
  ScanStep(const Step& step, Isa isa) : step_(step), on_one_core_(step), length_(step.loops[1].extent) {
    const VectorKernels& kernels = vector_kernels(isa);
    const RegisterType type = register_type(step.inputs[0]);
    load_ = load_port(as_run(step.inputs[0]), kRunLanes, kernels);
    store_ = store_port(as_run(step.outputs[0]), type, kRunLanes, kernels);
    const bool sum = step.combine == Combine::Sum;
    if (type == RegisterType::Float) {
      sum ? use<float, std::plus<float>>() : use<float, std::multiplies<float>>();
      identity_ = std::bit_cast<Lane>(sum ? 0.0f : 1.0f);
    } else {
      sum ? use<Lane, std::plus<Lane>>() : use<Lane, std::multiplies<Lane>>();
      identity_ = sum ? 0 : 1;
    }
    for (Loop& loop : on_one_core_.loops) loop.split = 1;
    joins_cores_ = core_count(step) > 1 && all_in_memory(step);
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    if (joins_cores_ && cores.count == core_count(step_))
      run_box(arguments, on_one_core_, {0, 1});
    else
      run_box(arguments, step_, cores);
  }

 private:
  static constexpr int kRows = 4;  // whose additions do not wait for each other

  void run_box(const StepArguments& arguments, const Step& step, CoreRange cores) const {
    const TaskSplit split(cores.count, core_box(step, 0).extent[0], 1, length_);
    split.run([&](int core, int64_t first, int64_t last) {
      const int64_t begin = core_box(step, cores.first + core).begin[0];
      for (int64_t row = begin + first; row < begin + last; row += kRows)
        run_rows(arguments, row, static_cast<int>(std::min<int64_t>(kRows, begin + last - row)));
    });
  }

  using RunLanes = std::array<Lane, kRunLanes>;
  template <typename Value, typename Combiner, int kCount>
  static void scan(RunLanes* lanes, int64_t count, Lane* totals) {
    std::array<Value, kCount> running;
    for (size_t r = 0; r < kCount; ++r) running[r] = std::bit_cast<Value>(totals[r]);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
#pragma GCC unroll 4
      for (size_t r = 0; r < kCount; ++r) {
        running[r] = Combiner{}(running[r], std::bit_cast<Value>(lanes[r][i]));
        lanes[r][i] = std::bit_cast<Lane>(running[r]);
      }
    }
    for (size_t r = 0; r < kCount; ++r) totals[r] = std::bit_cast<Lane>(running[r]);
  }
  template <typename Value, typename Combiner>
  void use() {
    scan_one_ = &scan<Value, Combiner, 1>;
    scan_all_ = &scan<Value, Combiner, kRows>;
  }

  void run_rows(const StepArguments& arguments, int64_t first, int rows) const {
    alignas(64) std::array<RunLanes, kRows> lanes{};
    alignas(64) RunBytes bytes{};
    std::array<Lane, kRows> totals;
    totals.fill(identity_);
    const int64_t start = 0;
    for (int64_t at = 0; at < length_; at += kRunLanes) {
      const int64_t count = std::min<int64_t>(kRunLanes, length_ - at);
      for (int r = 0; r < rows; ++r) {
        const std::byte* source = arguments.inputs[0] + ((first + r) * step_.inputs[0].stride[0] + at) * load_.itemsize;
        std::memcpy(bytes.data(), source, static_cast<size_t>(count * load_.itemsize));
        load_blocks(load_, bytes.data(), &start, 1, lanes[static_cast<size_t>(r)].data());
      }
      if (rows == kRows) scan_all_(lanes.data(), count, totals.data());
      for (int r = 0; r < rows; ++r) {
        const auto row = static_cast<size_t>(r);
        if (rows < kRows) scan_one_(&lanes[row], count, &totals[row]);
        std::byte* target = arguments.outputs[0] + ((first + r) * step_.outputs[0].stride[0] + at) * store_.itemsize;
        store_blocks(store_, lanes[row].data(), bytes.data(), &start, 1, static_cast<int>(count));
        std::memcpy(target, bytes.data(), static_cast<size_t>(count * store_.itemsize));
      }
    }
  }

  const Step& step_;
  Step on_one_core_;  // the step without its split
  const int64_t length_;
  Port load_, store_;
  void (*scan_one_)(RunLanes*, int64_t, Lane*) = nullptr;
  void (*scan_all_)(RunLanes*, int64_t, Lane*) = nullptr;
  Lane identity_ = 0;
  bool joins_cores_ = false;
};

}  // namespace

PreparedStepPtr prepare_scan(const Step& step, Isa isa) { return std::make_unique<ScanStep>(step, isa); }

}  // namespace openspyre
