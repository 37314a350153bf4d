// Sorts against std::stable_sort of whole rows, on 1, 2 and 7 threads and every instruction set.
#include <array>

#include "random_steps.h"

using namespace naive;

namespace {

Operand rows_of(Random& random, Launch& launch, DeviceElement element, int64_t rows, int64_t length,
                std::vector<int64_t> loops) {
  const int64_t stick = elems_per_stick(element.format), pitch = length + pick(random, 0, 1) * pick(random, 1, stick);
  Operand operand;
  operand.kind = OperandKind::Splat;
  operand.element = element;
  operand.stride = std::move(loops);
  operand.stride[0] = pitch;
  operand.offset = pick(random, 0, 3);
  operand.symbol = launch.add(random_bytes(random, element, rows * pitch + stick));
  return operand;
}

// Rows of `length`, of which `kept` are wanted: loops are the rows, the elements read and those written.
Step random_sort(Random& random, Launch& launch, DeviceElement element) {
  Step step;
  step.kind = StepKind::Sort;
  step.combine = pick(random, 0, 1) == 0 ? Combine::Max : Combine::Min;
  const int64_t length = pick(random, 1, pick(random, 0, 2) == 0 ? 6000 : 90), rows = pick(random, 1, 12);
  // All of them, any number of them, or so few that candidates are left out on the way.
  const int64_t kept = std::array{length, pick(random, 1, length), std::min<int64_t>(length, pick(random, 1, 40))}.at(
      static_cast<size_t>(pick(random, 0, 2)));
  int32_t cores = 1;
  step.loops = {{rows, random_split(random, rows, cores), false}, {length, 1, true}, {kept, 1, false}};
  step.inputs = {rows_of(random, launch, element, rows, length, {0, 1, 0})};
  step.outputs = {rows_of(random, launch, element, rows, kept, {0, 0, 1}),
                  rows_of(random, launch, kInt, rows, kept, {0, 0, 1})};
  return step;
}

// A NaN is larger than every number, and zeros of both signs are equal, as in torch.sort.
bool less(Bits a, Bits b, bool ints) {
  if (ints) return static_cast<int32_t>(a) < static_cast<int32_t>(b);
  if (std::isnan(real(a)) || std::isnan(real(b))) return !std::isnan(real(a)) && std::isnan(real(b));
  return real(a) < real(b);
}

void expect_sort(const Step& step, Launch& launch) {
  const Operand& input = step.inputs[0];
  const int64_t item = device_itemsize(input.element.format);
  const bool ints = is_int(input.element), descending = step.combine == Combine::Max;
  for (int64_t row = 0; row < step.loops[0].extent; ++row) {
    std::vector<int64_t> order(static_cast<size_t>(step.loops[1].extent));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t left, int64_t right) {
      const Bits a = load(launch, input, {row, left}, 0), b = load(launch, input, {row, right}, 0);
      return descending ? less(b, a, ints) : less(a, b, ints);
    });
    for (int64_t i = 0; i < step.loops[2].extent; ++i) {
      const int64_t from = order[static_cast<size_t>(i)];
      const auto bytes = [&](const Operand& operand, const Index& index) {
        return launch.memory[static_cast<size_t>(operand.symbol)].data() + place(operand, index, 0) * item;
      };
      // Values are moved, not computed: every bit of them stays.
      std::copy_n(bytes(input, {row, from}), item, bytes(step.outputs[0], {row, 0, i}));
      store(launch, step.outputs[1], {row, 0, i}, 0, static_cast<Bits>(from), true);
    }
  }
}

void check_sorts(DeviceElement element) {
  with_threads([&] {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Random random(seed);
      Launch launch(card(0));
      const Step step = random_sort(random, launch, element);
      const bool right = agrees(step, launch, [&] { expect_sort(step, launch); });
      if (!right) std::printf("seed %d\n", static_cast<int>(seed));
      CHECK(right);
    }
  });
}

}  // namespace

TEST(sorts_of_16_bit_floats_are_stable) { check_sorts(kHalf); }

TEST(sorts_of_fp32_put_nan_last_and_take_zeros_as_equal) { check_sorts(kFloat); }

TEST(sorts_of_integers_are_signed) { check_sorts(kInt); }

// The worst order for leaving out candidates: every element is better than all before it. And none of them differs.
TEST(few_of_many_are_found_in_any_order) {
  with_threads([] {
    for (const int32_t slope : {1, -1, 0}) {
      constexpr int64_t kLength = 5000, kKept = 3;
      Launch launch(card(0));
      Step step;
      step.kind = StepKind::Sort;
      step.combine = Combine::Max;
      step.loops = {{1, 1, false}, {kLength, 1, true}, {kKept, 1, false}};
      std::vector<std::byte> values(kLength * 4 + 128);
      for (int32_t i = 0; i < kLength; ++i) {
        const int32_t value = slope * i;
        std::memcpy(values.data() + i * 4, &value, 4);
      }
      step.inputs = {{OperandKind::Splat, Space::Memory, launch.add(values), 0, {kLength, 1, 0}, 0, kInt}};
      for (int output = 0; output < 2; ++output)
        step.outputs.push_back(
            {OperandKind::Splat, Space::Memory, launch.add(std::vector<std::byte>(128)), 0, {kKept, 0, 1}, 0, kInt});
      CHECK(agrees(step, launch, [&] { expect_sort(step, launch); }));
    }
  });
}
