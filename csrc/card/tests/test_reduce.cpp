// Reductions (N6) against the definition, on 1, 2 and 7 threads and every instruction set.
#include "random_steps.h"

using namespace naive;

namespace {

struct Total {
  Bits value;
  int64_t index = -1;
};

class NaiveReduction {
 public:
  NaiveReduction(const Step& step, bool ints) : step_(step), ints_(ints) {}

  Total identity() const {
    switch (step_.combine) {
      case Combine::Sum:
        return {0};
      case Combine::Prod:
        return {ints_ ? 1u : bits(1.0f)};
      case Combine::Max:
      case Combine::ArgMax:
        return {ints_ ? static_cast<Bits>(INT32_MIN) : bits(-INFINITY)};
      case Combine::Min:
      case Combine::ArgMin:
        return {ints_ ? static_cast<Bits>(INT32_MAX) : bits(INFINITY)};
      case Combine::Any:
        return {0};
      case Combine::All:
        return {1};
    }
    return {0};
  }

  bool better(Bits a, Bits b) const {
    const bool most = step_.combine == Combine::ArgMax;
    if (ints_)
      return most ? static_cast<int32_t>(a) > static_cast<int32_t>(b)
                  : static_cast<int32_t>(a) < static_cast<int32_t>(b);
    if (std::isnan(real(a)) || std::isnan(real(b))) return std::isnan(real(a)) && !std::isnan(real(b));
    return most ? real(a) > real(b) : real(a) < real(b);
  }

  Total combine(const Total& a, const Total& b) const {
    switch (step_.combine) {
      case Combine::Sum:
        return {apply(ints_ ? Op::AddI : Op::Add, a.value, b.value, 0)};
      case Combine::Prod:
        return {ints_ ? a.value * b.value : apply(Op::Mul, a.value, b.value, 0)};
      case Combine::Max:
        return {apply(ints_ ? Op::MaxI : Op::Max, a.value, b.value, 0)};
      case Combine::Min:
        return {apply(ints_ ? Op::MinI : Op::Min, a.value, b.value, 0)};
      case Combine::Any:
        return {a.value | b.value};
      case Combine::All:
        return {a.value & b.value};
      case Combine::ArgMax:
      case Combine::ArgMin:
        break;
    }
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    if (better(a.value, b.value)) return a;
    if (better(b.value, a.value)) return b;
    return a.index < b.index ? a : b;
  }

  // One output point: `lane` is the output's where lanes are not reduced.
  Total run(const Launch& launch, const Index& outer, int64_t lane) const {
    int64_t slices = 1;
    for (const Loop& loop : step_.loops) slices *= loop.reduced ? loop.split : 1;
    std::vector<std::array<Total, 64>> totals(static_cast<size_t>(slices));
    for (auto& slice : totals) slice.fill(identity());
    each_point(
        step_.loops, [&](size_t k) { return step_.loops[k].reduced; }, outer,
        [&](const Index& index) {
          auto& slice = totals[static_cast<size_t>(slice_of(index))];
          const int64_t block = step_.lane.block_loop < 0 ? 0 : index[static_cast<size_t>(step_.lane.block_loop)];
          for (int64_t l = step_.lane.reduced ? 0 : lane; l < (step_.lane.reduced ? step_.lane.lanes : lane + 1); ++l) {
            if (step_.lane.reduced && !valid_lane(step_, index, l)) continue;
            Bits value = evaluate(step_.code, load_all(launch, step_, index, l))[0];
            if (step_.combine == Combine::Any || step_.combine == Combine::All)
              value = ints_ ? value != 0 : real(value) != 0;
            Total& acc = slice[static_cast<size_t>(step_.lane.reduced ? (block * step_.lane.lanes + l) % 64 : 0)];
            acc = combine(acc, {value, position(index, l)});
          }
        });
    for (auto& slice : totals)
      for (size_t width = step_.lane.reduced ? 32 : 0; width > 0; width /= 2)
        for (size_t i = 0; i < width; ++i) slice[i] = combine(slice[i], slice[i + width]);
    Total total = totals[0][0];
    for (size_t slice = 1; slice < totals.size(); ++slice) total = combine(total, totals[slice][0]);
    return total;
  }

 private:
  int64_t slice_of(const Index& index) const {
    int64_t slice = 0, weight = 1;
    for (size_t k = 0; k < step_.loops.size(); ++k) {
      const Loop& loop = step_.loops[k];
      if (!loop.reduced) continue;
      slice += index[k] / (loop.extent / loop.split) * weight;
      weight *= loop.split;
    }
    return slice;
  }

  // Row-major place in the reduced space; lanes stand where the loop over their blocks does, else innermost.
  int64_t position(const Index& index, int64_t lane) const {
    int64_t place = 0;
    for (size_t k = 0; k < step_.loops.size(); ++k) {
      if (!step_.loops[k].reduced) continue;
      const bool blocks = static_cast<int>(k) == step_.lane.block_loop;
      place = blocks ? place * step_.lane.extent + index[k] * step_.lane.lanes + lane
                     : place * step_.loops[k].extent + index[k];
    }
    return step_.lane.reduced && step_.lane.block_loop < 0 ? place * step_.lane.extent + lane : place;
  }

  const Step& step_;
  const bool ints_;
};

void expect_reduce(const Step& step, Launch& launch, bool ints) {
  const NaiveReduction reduction(step, ints);
  each_point(
      step.loops, [&](size_t k) { return !step.loops[k].reduced; }, {},
      [&](const Index& index) {
        for (int64_t lane = 0; lane < (step.lane.reduced ? 1 : step.lane.lanes); ++lane) {
          if (!step.lane.reduced && !valid_lane(step, index, lane) && !step.lane.store_padding) continue;
          const Total total = reduction.run(launch, index, lane);
          std::vector<Bits> registers = {total.value, static_cast<Bits>(total.index)};
          for (const Operand& operand : step.inputs)
            if (operand.kind == OperandKind::Scalar)
              registers.push_back(launch.scalars[static_cast<size_t>(operand.symbol)]);
          const Bits value = evaluate(step.finish, registers)[0];
          const Operand& output = step.outputs[0];
          const bool spread = step.lane.reduced && output.kind == OperandKind::Vector;
          for (int64_t l = lane; l < (spread ? step.lane.lanes : lane + 1); ++l)
            store(launch, output, index, l, value, is_int(output.element) || (output.element == kBool && ints));
        }
      });
}

Step random_reduce(Random& random, Launch& launch, bool& ints, int64_t largest) {
  const bool words = pick(random, 0, 2) == 0;
  const int32_t lanes = words ? 32 : static_cast<int32_t>(pick(random, 0, 5) == 0 ? 128 : 64);
  Step step = random_nest(random, lanes, largest);
  step.kind = StepKind::Reduce;
  step.lane.reduced = pick(random, 0, 1) == 0;
  for (Loop& loop : step.loops) loop.reduced = pick(random, 0, 1) == 0;
  if (step.lane.block_loop >= 0) step.loops[static_cast<size_t>(step.lane.block_loop)].reduced = step.lane.reduced;
  step.combine = static_cast<Combine>(pick(random, 0, 7));
  ints = pick(random, 0, 2) == 0;
  const DeviceElement element = ints ? kInt : words || pick(random, 0, 3) == 0 ? kFloat : kHalf;
  step.inputs.push_back(
      random_operand(random, step, launch, element, random_reading(random, step), [](size_t) { return true; }));
  step.code.results = {0};
  const bool with_code = !ints && pick(random, 0, 1) == 0;
  if (with_code) {
    launch.scalars.push_back(bits(0.5f));
    step.inputs.push_back({OperandKind::Scalar, Space::Memory, 0, 0, {}, 0, kFloat});
    step.code.instructions = {{Op::Mul, 2, 0, 1}, {Op::Add, 3, 2, 0}};
    step.code.results = {3};
  }
  const bool arg = step.combine >= Combine::ArgMax,
             truth = step.combine == Combine::Any || step.combine == Combine::All;
  DeviceElement target = arg || ints ? kInt : truth ? kBool : words ? kFloat : kHalf;
  if (truth) target = words ? kInt : kBool;
  step.finish.results = {static_cast<uint8_t>(arg ? 1 : 0)};
  if (with_code && !arg && !truth) {
    step.finish.instructions = {{Op::Mul, 5, 0, 2}};
    step.finish.results = {5};
  }
  const OperandKind kind = step.lane.reduced && pick(random, 0, 1) == 0 ? OperandKind::Splat : OperandKind::Vector;
  step.outputs.push_back(
      random_operand(random, step, launch, target, kind, [&](size_t k) { return !step.loops[k].reduced; }));
  return step;
}

}  // namespace

TEST(random_reductions_give_the_bits_of_the_definition) {
  with_threads([] {
    for (uint64_t seed = 0; seed < 600; ++seed) {
      Random random(seed);
      Launch launch(card(0));
      bool ints = false;
      const Step step = random_reduce(random, launch, ints, seed % 30 == 0 ? 200 : 8);
      const bool truth = step.combine == Combine::Any || step.combine == Combine::All;
      const bool right = agrees(step, launch, [&] {
        const NaiveReduction reduction(step, ints);
        expect_reduce(step, launch, ints);
        (void)truth;
      });
      if (!right) std::printf("seed %d combine %d\n", static_cast<int>(seed), static_cast<int>(step.combine));
      CHECK(right);
    }
  });
}

TEST(a_sum_over_lanes_goes_to_64_accumulators_and_is_folded) {
  with_threads([] {
    // 2^24 + 1 loses the one: whether the ones meet each other first decides the result.
    Launch launch(card(0));
    Step step;
    step.kind = StepKind::Reduce;
    step.loops = {{2, 1, true}};
    step.lane = {64, 128, 0, true, false};
    std::vector<std::byte> values(128 * 4);
    for (size_t i = 0; i < 128; ++i) {
      const float value = i == 0 ? 0x1p24f : 1.0f;
      std::memcpy(values.data() + i * 4, &value, 4);
    }
    Operand input{OperandKind::Vector, Space::Memory, launch.add(values), 0, {64}, 32, kFloat};
    Operand output{OperandKind::Splat, Space::Memory, launch.add(std::vector<std::byte>(128)), 0, {0}, 0, kFloat};
    step.inputs = {input};
    step.outputs = {output};
    step.code.results = step.finish.results = {0};
    // Lane 0: 2^24 + 1 = 2^24; the other lanes hold 2 and are even sums from there on: 2^24 + 63 * 2.
    CHECK(agrees(step, launch, [&] { store(launch, output, {}, 0, bits(0x1p24f + 126.0f), false); }));
  });
}

TEST(sums_of_16_bit_codes_are_exact_in_every_binade) {
  with_threads([] {
    constexpr int64_t kRows = 300, kLanes = 64;
    for (uint64_t seed = 0; seed < 24; ++seed) {
      Random random(seed);
      Launch launch(card(0));
      // Of either sign, from narrow or wide ranges of exponents; now and then one of the lowest binade, an infinity or
      // a NaN.
      const int64_t lowest = pick(random, 1, 60), highest = pick(random, lowest, 62);
      std::vector<std::byte> codes(kRows * kLanes * 2);
      for (size_t i = 0; i < codes.size() / 2; ++i) {
        const int64_t exponent = seed % 3 == 1 && pick(random, 0, 999) == 0 ? 0 : pick(random, lowest, highest);
        auto code = static_cast<uint16_t>(pick(random, 0, 1) << 15 | exponent << 9 | pick(random, 0, 511));
        if (pick(random, 0, 9) == 0) code &= 0x8000;
        if (seed % 3 == 2 && pick(random, 0, 9999) == 0)
          code = static_cast<uint16_t>((code & 0x8000) | (pick(random, 0, 1) == 0 ? kSen169Infinity : kSen169NaN));
        std::memcpy(codes.data() + i * 2, &code, 2);
      }
      Step step;
      step.kind = StepKind::Reduce;
      step.loops = {{kRows, 1, true}};
      step.lane = {kLanes, kLanes, -1, false, false};
      step.inputs = {{OperandKind::Vector, Space::Memory, launch.add(codes), 0, {kLanes}, kLanes, kHalf}};
      step.outputs = {
          {OperandKind::Vector, Space::Memory, launch.add(std::vector<std::byte>(kLanes * 4)), 0, {0}, 32, kFloat}};
      step.code.results = step.finish.results = {0};
      CHECK(agrees(step, launch, [&] { expect_reduce(step, launch, false); }));
    }
  });
}
