// Sort steps: the first elements of sorted rows, and where they were. Stable; a NaN counts as larger than any number.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "program/port.h"
#include "program/prepared_step.h"
#include "program/run_operand.h"
#include "steps/radix_sort.h"
#include "streams/task_split.h"

namespace openspyre {
namespace {

constexpr int64_t kFewNumbers = 256;  // for which counting digits does not pay

// Keys in whose order as unsigned numbers the values ascend; zeros of both signs are equal.
struct FloatKey {
  static Lane of(Lane bits) {
    const Lane magnitude = bits & 0x7FFFFFFFu;
    const Lane key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return magnitude > 0x7F800000u ? ~Lane{0} : magnitude == 0 ? 0x80000000u : key;
  }
};
struct IntKey {
  static Lane of(Lane bits) { return bits ^ 0x80000000u; }
};

// Key and place in one number: equal keys stay in the order of their places.
template <typename Key>
void make_numbers(const Lane* lanes, int64_t count, int64_t place, Lane flip, uint64_t* numbers) {
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = uint64_t{Key::of(lanes[i]) ^ flip} << 32 | static_cast<uint64_t>(place + i);
}

// Numbers of one row at a time, and as many to sort them into.
struct RowNumbers {
  explicit RowNumbers(int64_t count)
      : first(std::make_unique_for_overwrite<uint64_t[]>(static_cast<size_t>(count))),
        second(std::make_unique_for_overwrite<uint64_t[]>(static_cast<size_t>(count))) {}
  const uint64_t* sorted(int64_t count) {
    if (count > kFewNumbers) return radix_sort(first.get(), second.get(), count);
    std::sort(first.get(), first.get() + count);
    return first.get();
  }
  std::unique_ptr<uint64_t[]> first, second;
};

class SortStep final : public PreparedStep {
 public:
  SortStep(const Step& step, Isa isa)
      : step_(step),
        length_(step.loops[1].extent),
        kept_(step.loops[2].extent),
        room_(std::min(length_, 2 * kept_ + kCandidates)),
        flip_(step.combine == Combine::Max ? ~Lane{0} : 0) {
    load_ = load_port(as_run(step.inputs[0]), kRunLanes, vector_kernels(isa));
    const bool floats = register_type(step.inputs[0]) == RegisterType::Float;
    make_numbers_ = floats ? &make_numbers<FloatKey> : &make_numbers<IntKey>;
    write_ = load_.itemsize == 1   ? &write<uint8_t>
             : load_.itemsize == 2 ? &write<uint16_t>
             : load_.itemsize == 4 ? &write<uint32_t>
                                   : &write<uint64_t>;
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    const TaskSplit split(cores.count, core_box(step_, 0).extent[0], 1, 16 * length_);
    split.run([&](int core, int64_t first, int64_t last) {
      const int64_t begin = core_box(step_, cores.first + core).begin[0];
      RowNumbers numbers(room_);
      for (int64_t row = begin + first; row < begin + last; ++row) {
        const std::byte* source = arguments.inputs[0] + row * step_.inputs[0].stride[0] * load_.itemsize;
        const uint64_t* sorted = room_ == length_ ? sort_row(source, numbers) : select(source, numbers);
        write_(source, sorted, kept_, arguments.outputs[0] + row * step_.outputs[0].stride[0] * load_.itemsize,
               arguments.outputs[1] + row * step_.outputs[1].stride[0] * static_cast<int64_t>(sizeof(int32_t)));
      }
    });
  }

 private:
  static constexpr int64_t kCandidates = 1024;

  // body(first place, numbers of up to kRunLanes elements, their count), in order.
  template <typename Body>
  void each_run(const std::byte* source, Body&& body) const {
    alignas(64) std::array<Lane, kRunLanes> lanes{};
    alignas(64) std::array<uint64_t, kRunLanes> numbers;
    alignas(64) RunBytes bytes{};
    const int64_t start = 0;
    for (int64_t at = 0; at < length_; at += kRunLanes) {
      const int64_t count = std::min<int64_t>(kRunLanes, length_ - at);
      std::memcpy(bytes.data(), source + at * load_.itemsize, static_cast<size_t>(count * load_.itemsize));
      load_blocks(load_, bytes.data(), &start, 1, lanes.data());
      make_numbers_(lanes.data(), count, at, flip_, numbers.data());
      body(at, numbers.data(), count);
    }
  }

  const uint64_t* sort_row(const std::byte* source, RowNumbers& row) const {
    each_run(source, [&](int64_t at, const uint64_t* numbers, int64_t count) {
      std::copy_n(numbers, count, row.first.get() + at);
    });
    return row.sorted(length_);
  }

  // The first ones, in order: whatever comes after `kept_` others is left out as soon as that is known.
  const uint64_t* select(const std::byte* source, RowNumbers& row) const {
    uint64_t* candidates = row.first.get();
    uint64_t bound = ~uint64_t{0};
    int64_t found = 0;
    const auto leave_out = [&] {
      std::nth_element(candidates, candidates + kept_ - 1, candidates + found);
      bound = candidates[kept_ - 1];
      found = kept_;
    };
    each_run(source, [&](int64_t, const uint64_t* numbers, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        candidates[found] = numbers[i];
        found += numbers[i] < bound ? 1 : 0;
      }
      if (found + kRunLanes > room_) leave_out();
    });
    if (found > kept_) leave_out();
    return row.sorted(kept_);
  }

  template <typename Element>
  static void write(const std::byte* source, const uint64_t* sorted, int64_t count, std::byte* values,
                    std::byte* places) {
    for (int64_t i = 0; i < count; ++i) {
      const auto place = static_cast<int32_t>(sorted[i] & 0xFFFFFFFFu);
      std::memcpy(values + i * int64_t{sizeof(Element)}, source + place * int64_t{sizeof(Element)}, sizeof(Element));
      std::memcpy(places + i * int64_t{sizeof place}, &place, sizeof place);
    }
  }

  const Step& step_;
  const int64_t length_, kept_, room_;
  const Lane flip_;  // of keys that descend
  Port load_;
  void (*make_numbers_)(const Lane*, int64_t, int64_t, Lane, uint64_t*) = nullptr;
  void (*write_)(const std::byte*, const uint64_t*, int64_t, std::byte*, std::byte*) = nullptr;
};

}  // namespace

PreparedStepPtr prepare_sort(const Step& step, Isa isa) { return std::make_unique<SortStep>(step, isa); }

}  // namespace openspyre
