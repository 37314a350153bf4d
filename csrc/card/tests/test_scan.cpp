// Scans (N3, N6) against std::partial_sum in the register's type, on 1, 2 and 7 threads and every instruction set.
#include <numeric>

#include "random_steps.h"

using namespace naive;

namespace {

// Rows of elements one behind the other, with gaps between them that must stay as they are.
Step random_scan(Random& random, Launch& launch, DeviceElement element) {
  Step step;
  step.kind = StepKind::Scan;
  step.combine = pick(random, 0, 2) == 0 ? Combine::Prod : Combine::Sum;
  const int64_t length = pick(random, 1, 700), rows = pick(random, 1, 12);
  int32_t cores = 1;
  step.loops = {{rows, random_split(random, rows, cores), false}, {length, 1, true}};
  const int64_t stick = elems_per_stick(element.format);
  for (std::vector<Operand>* side : {&step.inputs, &step.outputs}) {
    const int64_t pitch = length + pick(random, 0, 1) * pick(random, 1, stick);
    Operand operand;
    operand.kind = OperandKind::Splat;
    operand.element = element;
    operand.stride = {pitch, 1};
    operand.offset = pick(random, 0, 3);
    operand.symbol = launch.add(random_bytes(random, element, rows * pitch + stick));
    side->push_back(operand);
  }
  return step;
}

// The running total is never rounded; only what is stored is.
template <typename Value>
void expect_scan(const Step& step, Launch& launch) {
  const bool ints = is_int(step.inputs[0].element);
  for (int64_t row = 0; row < step.loops[0].extent; ++row) {
    std::vector<Value> values, totals;
    for (int64_t i = 0; i < step.loops[1].extent; ++i)
      values.push_back(std::bit_cast<Value>(load(launch, step.inputs[0], {row, i}, 0)));
    totals.resize(values.size());
    if (step.combine == Combine::Sum)
      std::partial_sum(values.begin(), values.end(), totals.begin());
    else
      std::partial_sum(values.begin(), values.end(), totals.begin(), std::multiplies<Value>());
    for (size_t i = 0; i < totals.size(); ++i)
      store(launch, step.outputs[0], {row, static_cast<int64_t>(i)}, 0, std::bit_cast<Bits>(totals[i]), ints);
  }
}

void check_scans(DeviceElement element, void (*expect)(const Step&, Launch&)) {
  with_threads([&] {
    for (uint64_t seed = 0; seed < 80; ++seed) {
      Random random(seed);
      Launch launch(card(0));
      const Step step = random_scan(random, launch, element);
      const bool right = agrees(step, launch, [&] { expect(step, launch); });
      if (!right) std::printf("seed %d\n", static_cast<int>(seed));
      CHECK(right);
    }
  });
}

}  // namespace

TEST(scans_of_16_bit_floats_round_what_is_stored_and_nothing_else) { check_scans(kHalf, expect_scan<float>); }

TEST(scans_of_fp32_are_partial_sums) { check_scans(kFloat, expect_scan<float>); }

TEST(scans_of_integers_wrap) { check_scans(kInt, expect_scan<uint32_t>); }
