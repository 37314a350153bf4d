// Scan steps: running sums and products along rows of elements that lie one behind the other. Ascending, one
// accumulator, rounded where an element is stored (N3, N6).
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "port.h"
#include "prepared_step.h"
#include "run_operand.h"
#include "task_split.h"

namespace openspyre {
namespace {

class ScanStep final : public PreparedStep {
 public:
  ScanStep(const Step& step, Isa isa) : step_(step), length_(step.loops[1].extent) {
    const VectorKernels& kernels = vector_kernels(isa);
    const RegisterType type = register_type(step.inputs[0]);
    load_ = load_port(as_run(step.inputs[0]), kRunLanes, kernels);
    store_ = store_port(as_run(step.outputs[0]), type, kRunLanes, kernels);
    const bool sum = step.combine == Combine::Sum;
    if (type == RegisterType::Float) {
      scan_ = sum ? &scan<float, std::plus<float>> : &scan<float, std::multiplies<float>>;
      identity_ = std::bit_cast<Lane>(sum ? 0.0f : 1.0f);
    } else {
      scan_ = sum ? &scan<Lane, std::plus<Lane>> : &scan<Lane, std::multiplies<Lane>>;
      identity_ = sum ? 0 : 1;
    }
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    const TaskSplit split(cores.count, core_box(step_, 0).extent[0], 1, length_);
    split.run([&](int core, int64_t first, int64_t last) {
      const int64_t begin = core_box(step_, cores.first + core).begin[0];
      for (int64_t row = begin + first; row < begin + last; ++row) {
        run_row(arguments.inputs[0] + row * step_.inputs[0].stride[0] * load_.itemsize,
                arguments.outputs[0] + row * step_.outputs[0].stride[0] * store_.itemsize);
      }
    });
  }

 private:
  template <typename Value, typename Combiner>
  static Lane scan(Lane* lanes, int64_t count, Lane before) {
    auto total = std::bit_cast<Value>(before);
    for (int64_t i = 0; i < count; ++i) {
      total = Combiner{}(total, std::bit_cast<Value>(lanes[i]));
      lanes[i] = std::bit_cast<Lane>(total);
    }
    return std::bit_cast<Lane>(total);
  }

  void run_row(const std::byte* source, std::byte* target) const {
    alignas(64) std::array<Lane, kRunLanes> lanes{};
    alignas(64) RunBytes bytes{};
    const int64_t start = 0;
    Lane total = identity_;
    for (int64_t at = 0; at < length_; at += kRunLanes) {
      const int64_t count = std::min<int64_t>(kRunLanes, length_ - at);
      std::memcpy(bytes.data(), source + at * load_.itemsize, static_cast<size_t>(count * load_.itemsize));
      load_blocks(load_, bytes.data(), &start, 1, lanes.data());
      total = scan_(lanes.data(), count, total);
      store_blocks(store_, lanes.data(), bytes.data(), &start, 1, static_cast<int>(count));
      std::memcpy(target + at * store_.itemsize, bytes.data(), static_cast<size_t>(count * store_.itemsize));
    }
  }

  const Step& step_;
  const int64_t length_;
  Port load_, store_;
  Lane (*scan_)(Lane*, int64_t, Lane) = nullptr;
  Lane identity_ = 0;
};

}  // namespace

PreparedStepPtr prepare_scan(const Step& step, Isa isa) { return std::make_unique<ScanStep>(step, isa); }

}  // namespace openspyre
