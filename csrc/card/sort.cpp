// Sort steps: the first elements of sorted rows, and where they were. Stable; a NaN counts as larger than any number.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "port.h"
#include "prepared_step.h"
#include "run_operand.h"
#include "task_split.h"

namespace openspyre {
namespace {

// Keys in whose order as unsigned numbers the values ascend; zeros of both signs are equal.
Lane key_of_float(Lane bits) {
  if (std::bit_cast<float>(bits) != std::bit_cast<float>(bits)) return ~Lane{0};
  if (bits == 0x80000000u) bits = 0;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
Lane key_of_int(Lane bits) { return bits ^ 0x80000000u; }

class SortStep final : public PreparedStep {
 public:
  SortStep(const Step& step, Isa isa)
      : step_(step),
        length_(step.loops[1].extent),
        kept_(step.loops[2].extent),
        descending_(step.combine == Combine::Max) {
    load_ = load_port(as_run(step.inputs[0]), kRunLanes, vector_kernels(isa));
    key_ = register_type(step.inputs[0]) == RegisterType::Float ? &key_of_float : &key_of_int;
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    const TaskSplit split(cores.count, core_box(step_, 0).extent[0], 1, 16 * length_);
    split.run([&](int core, int64_t first, int64_t last) {
      const int64_t begin = core_box(step_, cores.first + core).begin[0];
      std::vector<uint64_t> order(static_cast<size_t>(length_));
      for (int64_t row = begin + first; row < begin + last; ++row) {
        const std::byte* source = arguments.inputs[0] + row * step_.inputs[0].stride[0] * load_.itemsize;
        sort_row(source, order);
        write(source, order, arguments.outputs[0] + row * step_.outputs[0].stride[0] * load_.itemsize,
              arguments.outputs[1] + row * step_.outputs[1].stride[0] * static_cast<int64_t>(sizeof(int32_t)));
      }
    });
  }

 private:
  // Key and place in one number: equal keys stay in the order of their places.
  void sort_row(const std::byte* source, std::vector<uint64_t>& order) const {
    alignas(64) std::array<Lane, kRunLanes> lanes{};
    alignas(64) RunBytes bytes{};
    const int64_t start = 0;
    for (int64_t at = 0; at < length_; at += kRunLanes) {
      const int64_t count = std::min<int64_t>(kRunLanes, length_ - at);
      std::memcpy(bytes.data(), source + at * load_.itemsize, static_cast<size_t>(count * load_.itemsize));
      load_blocks(load_, bytes.data(), &start, 1, lanes.data());
      for (int64_t i = 0; i < count; ++i) {
        const Lane key = key_(lanes[static_cast<size_t>(i)]);
        order[static_cast<size_t>(at + i)] = uint64_t{descending_ ? ~key : key} << 32 | static_cast<uint64_t>(at + i);
      }
    }
    if (kept_ < length_) std::nth_element(order.begin(), order.begin() + kept_, order.end());
    std::sort(order.begin(), order.begin() + kept_);
  }

  void write(const std::byte* source, const std::vector<uint64_t>& order, std::byte* values, std::byte* places) const {
    for (int64_t i = 0; i < kept_; ++i) {
      const auto place = static_cast<int32_t>(order[static_cast<size_t>(i)] & 0xFFFFFFFFu);
      std::memcpy(values + i * load_.itemsize, source + int64_t{place} * load_.itemsize,
                  static_cast<size_t>(load_.itemsize));
      std::memcpy(places + i * static_cast<int64_t>(sizeof place), &place, sizeof place);
    }
  }

  const Step& step_;
  const int64_t length_, kept_;
  const bool descending_;
  Port load_;
  Lane (*key_)(Lane) = nullptr;
};

}  // namespace

PreparedStepPtr prepare_sort(const Step& step, Isa isa) { return std::make_unique<SortStep>(step, isa); }

}  // namespace openspyre
