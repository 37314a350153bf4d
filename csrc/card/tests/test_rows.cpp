// Rows steps (N4): random stages against the definition, and softmax and layer norm against double arithmetic.
#include "random_steps.h"

using namespace naive;

namespace {

// All values of the row a point belongs to, by (point of the row, lane).
struct NaiveRow {
  std::vector<Index> points;
  int64_t lanes = 1, first_lane = 0;
};

NaiveRow row_at(const Step& step, const Index& outer, int64_t lane) {
  NaiveRow row;
  row.lanes = step.lane.reduced ? step.lane.lanes : 1;
  row.first_lane = step.lane.reduced ? 0 : lane;
  each_point(
      step.loops, [&](size_t k) { return step.loops[k].reduced; }, outer,
      [&](const Index& index) { row.points.push_back(index); });
  return row;
}

// The slice of a row that a point belongs to: only the outermost loop along the rows is ever split.
int64_t slice_of(const Step& step, const Index& index) {
  int64_t slice = 0;
  for (size_t k = 0; k < step.loops.size(); ++k)
    if (step.loops[k].reduced && step.loops[k].split > 1)
      slice = index[k] / (step.loops[k].extent / step.loops[k].split);
  return slice;
}

int64_t slices_of(const Step& step) {
  int64_t slices = 1;
  for (const Loop& loop : step.loops)
    if (loop.reduced) slices *= loop.split;
  return slices;
}

Bits fold_slice(const Step& step, Combine combine, const NaiveRow& row, const std::vector<Bits>& values,
                int64_t slice) {
  const Op op = combine == Combine::Sum ? Op::Add : combine == Combine::Max ? Op::Max : Op::Min;
  const Bits identity = combine == Combine::Sum ? 0 : bits(combine == Combine::Max ? -INFINITY : INFINITY);
  std::array<Bits, 64> acc;
  acc.fill(identity);
  for (size_t i = 0; i < values.size(); ++i) {
    const Index& index = row.points[i / static_cast<size_t>(row.lanes)];
    if (slice_of(step, index) != slice) continue;
    const int64_t lane = row.first_lane + static_cast<int64_t>(i) % row.lanes;
    if (step.lane.reduced && !valid_lane(step, index, lane)) continue;
    const int64_t block = step.lane.block_loop < 0 ? 0 : index[static_cast<size_t>(step.lane.block_loop)];
    Bits& at = acc[static_cast<size_t>(step.lane.reduced ? (block * step.lane.lanes + lane) % 64 : 0)];
    at = apply(op, at, values[i], 0);
  }
  for (size_t width = step.lane.reduced ? 32 : 0; width > 0; width /= 2)
    for (size_t i = 0; i < width; ++i) acc[i] = apply(op, acc[i], acc[i + width], 0);
  return acc[0];
}

Bits fold(const Step& step, Combine combine, const NaiveRow& row, const std::vector<Bits>& values) {
  const Op op = combine == Combine::Sum ? Op::Add : combine == Combine::Max ? Op::Max : Op::Min;
  Bits total = fold_slice(step, combine, row, values, 0);
  for (int64_t slice = 1; slice < slices_of(step); ++slice)
    total = apply(op, total, fold_slice(step, combine, row, values, slice), 0);
  return total;
}

// One row (of one lane, where rows run along loops), stage by stage.
void expect_row(const Step& step, Launch& launch, const Index& outer, int64_t lane) {
  const NaiveRow row = row_at(step, outer, lane);
  const size_t size = row.points.size() * static_cast<size_t>(row.lanes);
  std::vector<std::vector<Bits>> registers(kMaxRowRegisters, std::vector<Bits>(size));
  std::vector<Bits> scalars(kMaxRowScalars);
  for (size_t r = 0; r < step.inputs.size(); ++r)
    for (size_t i = 0; i < size; ++i)
      registers[r][i] = load(launch, step.inputs[r], row.points[i / static_cast<size_t>(row.lanes)],
                             row.first_lane + static_cast<int64_t>(i) % row.lanes);
  for (const RowStage& stage : step.stages) {
    if (stage.kind == RowStage::Kind::Reduce) {
      std::vector<Bits> inputs = {fold(step, stage.combine, row, registers[stage.rows[0]])};
      for (size_t i = 1; i < stage.rows.size(); ++i) inputs.push_back(scalars[stage.rows[i] - kRowScalar]);
      scalars[stage.target] = evaluate(stage.code, inputs)[0];
      continue;
    }
    std::vector<Bits> made(size);
    for (size_t i = 0; i < size; ++i) {
      std::vector<Bits> inputs;
      for (const uint8_t r : stage.rows) inputs.push_back(r >= kRowScalar ? scalars[r - kRowScalar] : registers[r][i]);
      made[i] = evaluate(stage.code, inputs)[0];
    }
    registers[stage.target] = made;
  }
  for (size_t output = 0; output < step.outputs.size(); ++output) {
    const uint8_t result = step.row_results[output];
    for (size_t i = 0; i < size; ++i) {
      const Index& index = row.points[i / static_cast<size_t>(row.lanes)];
      const int64_t at = row.first_lane + static_cast<int64_t>(i) % row.lanes;
      if (result < kRowScalar && (valid_lane(step, index, at) || step.lane.store_padding))
        store(launch, step.outputs[output], index, at, registers[result][i], false);
      if (result >= kRowScalar && (step.lane.reduced || valid_lane(step, index, at) || step.lane.store_padding))
        store(launch, step.outputs[output], index, step.outputs[output].kind == OperandKind::Splat ? 0 : at,
              scalars[result - kRowScalar], false);
    }
  }
}

bool random_rows_agree(uint64_t seed, int64_t largest) {
  Random random(seed);
  Launch launch(card(0));
  const int32_t lanes = pick(random, 0, 4) == 0 ? 128 : 64;
  Step step = random_nest(random, lanes, largest);
  step.kind = StepKind::Rows;
  step.lane.reduced = pick(random, 0, 1) == 0;
  bool outermost = true;
  for (size_t k = 0; k < step.loops.size(); ++k) {
    const bool blocks = static_cast<int32_t>(k) == step.lane.block_loop;
    step.loops[k].reduced = blocks ? step.lane.reduced : pick(random, 0, 2) == 0;
    if (!step.loops[k].reduced) continue;
    if (!outermost) step.loops[k].split = 1;
    if (step.loops[k].extent > 1) outermost = false;
  }
  const auto all = [](size_t) { return true; };
  const auto along = [&](size_t k) { return step.loops[k].reduced; };
  const auto across = [&](size_t k) { return !step.loops[k].reduced; };
  step.inputs.push_back(random_operand(random, step, launch, pick(random, 0, 1) == 0 ? kHalf : kFloat,
                                       random_reading(random, step), all));
  step.inputs.push_back(random_operand(random, step, launch, kHalf, OperandKind::Vector, along));
  const auto combine = [&] {
    return std::array{Combine::Sum, Combine::Max, Combine::Min}[static_cast<size_t>(pick(random, 0, 2))];
  };
  using Kind = RowStage::Kind;
  const VectorCode keep{{}, {}, {0}};
  const VectorCode halved{{{Op::Mul, 2, 0, 1}}, {{1, bits(0.5f)}}, {2}};
  const VectorCode difference{{{Op::Sub, 2, 0, 1}}, {}, {2}};
  const VectorCode product{{{Op::Mul, 2, 0, 1}, {Op::Add, 3, 2, 0}}, {}, {3}};
  const VectorCode blend{{{Op::Mul, 4, 0, 1}, {Op::Add, 4, 4, 2}, {Op::Sub, 5, 4, 3}}, {}, {5}};
  step.stages = {
      {Kind::Reduce, {0}, pick(random, 0, 1) == 0 ? keep : halved, combine(), 0},
      {Kind::Map, {0, kRowScalar + 0}, difference, Combine::Sum, 2},
      {Kind::Map, {2, 2}, product, Combine::Sum, 3},
      {Kind::Reduce, {3}, halved, combine(), 1},
      {Kind::Reduce, {2, kRowScalar + 0}, difference, combine(), 2},
      {Kind::Map, {2, kRowScalar + 1, 1, kRowScalar + 2}, blend, Combine::Sum, 4},
  };
  // Copies of rows, and of copies, anywhere behind what they copy; any row that was computed may be a result.
  const VectorCode copy{{{Op::Copy, 1, 0}}, {}, {1}};
  std::vector<uint8_t> computed = {2, 3, 4};
  const auto copies = static_cast<uint8_t>(pick(random, 0, 3));
  for (uint8_t target = 5; target < 5 + copies; ++target) {
    const uint8_t source = computed[static_cast<size_t>(pick(random, 0, static_cast<int64_t>(computed.size()) - 1))];
    const auto made = std::find_if(step.stages.begin(), step.stages.end(), [&](const RowStage& stage) {
      return stage.kind == Kind::Map && stage.target == source;
    });
    const auto behind = pick(random, 1, step.stages.end() - made);
    step.stages.insert(made + behind, {Kind::Map, {source}, copy, Combine::Sum, target});
    computed.push_back(target);
  }
  for (const uint8_t row : computed)
    if (row == 4 || pick(random, 0, 1) == 0) {
      step.row_results.push_back(row);
      step.outputs.push_back(
          random_operand(random, step, launch, pick(random, 0, 1) == 0 ? kHalf : kFloat, OperandKind::Vector, all));
    }
  if (pick(random, 0, 1) == 0) {
    step.row_results.push_back(static_cast<uint8_t>(kRowScalar + pick(random, 0, 2)));
    const OperandKind kind = step.lane.reduced && pick(random, 0, 1) == 0 ? OperandKind::Splat : OperandKind::Vector;
    step.outputs.push_back(random_operand(random, step, launch, kFloat, kind, across));
  }
  return agrees(step, launch, [&] {
    each_point(step.loops, across, {}, [&](const Index& index) {
      for (int64_t lane = 0; lane < (step.lane.reduced ? 1 : lanes); ++lane) expect_row(step, launch, index, lane);
    });
  });
}

// Softmax as the hardware's ops compute it: every one rounds. Rows of all sorts of numbers.
bool rounded_softmax_agrees(uint64_t seed) {
  Random random(seed);
  Launch launch(card(0));
  Step step;
  step.name = "softmax " + std::to_string(seed);
  step.kind = StepKind::Rows;
  step.loops = {{17, 1, false}, {5, 1, true}};
  step.lane = {64, seed % 2 == 0 ? 320 : 300, 1, true, false};
  const auto all = [](size_t) { return true; };
  step.inputs = {random_operand(random, step, launch, seed % 3 == 0 ? kFloat : kHalf, OperandKind::Vector, all)};
  std::vector<std::byte>& memory = launch.memory[static_cast<size_t>(step.inputs[0].symbol)];
  if (seed % 3 != 0)  // any code at all, infinities and NaN among them, in a few places
    for (int i = 0; i < 40; ++i) memory[random() % memory.size()] = static_cast<std::byte>(random());
  const VectorCode keep{{}, {}, {0}}, rounded{{{Op::RoundSen169, 1, 0}}, {}, {1}};
  const VectorCode below{{{Op::Sub, 2, 0, 1}, {Op::RoundSen169, 3, 2}}, {}, {3}};
  const VectorCode exponential{{{Op::Exp, 1, 0}, {Op::RoundSen169, 2, 1}}, {}, {2}};
  const VectorCode share{{{Op::Div, 2, 0, 1}, {Op::RoundSen169, 3, 2}}, {}, {3}};
  using Kind = RowStage::Kind;
  step.stages = {{Kind::Reduce, {0}, keep, seed % 5 == 0 ? Combine::Min : Combine::Max, 0},
                 {Kind::Map, {0, kRowScalar}, below, Combine::Sum, 1},
                 {Kind::Map, {1}, exponential, Combine::Sum, 2},
                 {Kind::Reduce, {2}, rounded, Combine::Sum, 1},
                 {Kind::Map, {2, kRowScalar + 1}, share, Combine::Sum, 3}};
  step.row_results = seed % 4 == 0 ? std::vector<uint8_t>{1, 2, 3} : std::vector<uint8_t>{3};
  for (size_t i = 0; i < step.row_results.size(); ++i)
    step.outputs.push_back(random_operand(random, step, launch, i == 1 ? kFloat : kHalf, OperandKind::Vector, all));
  return agrees(step, launch, [&] {
    for (int64_t row = 0; row < 17; ++row) expect_row(step, launch, {row}, 0);
  });
}

// [rows, 300] in 64-lane sticks: [5][rows][64].
struct Matrix {
  static constexpr int64_t kRows = 37, kColumns = 300;
  static int64_t place(int64_t row, int64_t column) { return column / 64 * kRows * 64 + row * 64 + column % 64; }
};

Step row_step(Launch& launch, Random& random, const std::vector<RowStage>& stages) {
  Step step;
  step.kind = StepKind::Rows;
  step.loops = {{Matrix::kRows, 1, false}, {5, 1, true}};
  step.lane = {64, Matrix::kColumns, 1, true, false};
  for (int i = 0; i < 2; ++i) {
    std::vector<std::byte> values(Matrix::kRows * 5 * 64 * 4, std::byte{0xFF});
    for (int64_t r = 0; r < Matrix::kRows; ++r)
      for (int64_t c = 0; c < Matrix::kColumns; ++c) {
        const float value = std::normal_distribution<float>(1, 3)(random);
        std::memcpy(values.data() + Matrix::place(r, c) * 4, &value, 4);
      }
    Operand operand{OperandKind::Vector, Space::Memory, launch.add(values), 0, {64, Matrix::kRows * 64}, 32, kFloat};
    (i == 0 ? step.inputs : step.outputs) = {operand};
  }
  step.stages = stages;
  step.row_results = {stages.back().target};
  return step;
}

std::vector<float> run(const Step& step, Launch& launch) {
  launch.upload();
  prepare({"rows", 2, 0, {step}})->run(launch.card, {launch.addresses, {}, {}, {}});
  const std::vector<std::byte> bytes = launch.download(1);
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

double input_at(const Launch& launch, int64_t row, int64_t column) {
  float value;
  std::memcpy(&value, launch.memory[0].data() + Matrix::place(row, column) * 4, 4);
  return static_cast<double>(value);
}

}  // namespace

TEST(a_softmax_that_rounds_after_every_op_gives_the_bits_of_its_ops) {
  with_threads([] {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const bool right = rounded_softmax_agrees(seed);
      if (!right) std::printf("seed %d\n", static_cast<int>(seed));
      CHECK(right);
    }
  });
}

TEST(random_stages_give_the_bits_of_the_definition) {
  with_threads([] {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const bool right = random_rows_agree(seed, seed % 30 == 0 ? 100 : 7);
      if (!right) std::printf("seed %d\n", static_cast<int>(seed));
      CHECK(right);
    }
  });
}

TEST(softmax_is_that_of_the_textbook) {
  with_threads([] {
    Random random(5);
    Launch launch(card(0));
    using Kind = RowStage::Kind;
    const VectorCode keep{{}, {}, {0}};
    const Step step =
        row_step(launch, random,
                 {{Kind::Reduce, {0}, keep, Combine::Max, 0},
                  {Kind::Map, {0, kRowScalar}, {{{Op::Sub, 2, 0, 1}, {Op::Exp, 2, 2}}, {}, {2}}, Combine::Sum, 1},
                  {Kind::Reduce, {1}, keep, Combine::Sum, 1},
                  {Kind::Map, {1, kRowScalar + 1}, {{{Op::Div, 2, 0, 1}}, {}, {2}}, Combine::Sum, 2}});
    const std::vector<float> result = run(step, launch);
    for (int64_t r = 0; r < Matrix::kRows; ++r) {
      double sum = 0, most = -INFINITY;
      for (int64_t c = 0; c < Matrix::kColumns; ++c) most = std::max(most, input_at(launch, r, c));
      for (int64_t c = 0; c < Matrix::kColumns; ++c) sum += std::exp(input_at(launch, r, c) - most);
      for (int64_t c = 0; c < Matrix::kColumns; ++c) {
        const double exact = std::exp(input_at(launch, r, c) - most) / sum;
        CHECK(std::fabs(static_cast<double>(result[static_cast<size_t>(Matrix::place(r, c))]) - exact) <= 2e-6 * exact);
      }
    }
  });
}

TEST(layer_norm_is_that_of_the_textbook) {
  with_threads([] {
    Random random(6);
    Launch launch(card(0));
    using Kind = RowStage::Kind;
    const VectorCode mean{{{Op::Mul, 2, 0, 1}}, {{1, bits(1.0f / 300)}}, {2}};
    const VectorCode inverse{
        {{Op::Fma, 3, 0, 1, 2}, {Op::Rsqrt, 3, 3}}, {{1, bits(1.0f / 300)}, {2, bits(1e-5f)}}, {3}};
    const Step step = row_step(launch, random,
                               {{Kind::Reduce, {0}, mean, Combine::Sum, 0},
                                {Kind::Map, {0, kRowScalar}, {{{Op::Sub, 2, 0, 1}}, {}, {2}}, Combine::Sum, 1},
                                {Kind::Map, {1}, {{{Op::Mul, 1, 0, 0}}, {}, {1}}, Combine::Sum, 2},
                                {Kind::Reduce, {2}, inverse, Combine::Sum, 1},
                                {Kind::Map, {1, kRowScalar + 1}, {{{Op::Mul, 2, 0, 1}}, {}, {2}}, Combine::Sum, 3}});
    const std::vector<float> result = run(step, launch);
    for (int64_t r = 0; r < Matrix::kRows; ++r) {
      double sum = 0, squares = 0;
      for (int64_t c = 0; c < Matrix::kColumns; ++c) sum += input_at(launch, r, c);
      for (int64_t c = 0; c < Matrix::kColumns; ++c) squares += std::pow(input_at(launch, r, c) - sum / 300, 2);
      for (int64_t c = 0; c < Matrix::kColumns; ++c) {
        const double exact = (input_at(launch, r, c) - sum / 300) / std::sqrt(squares / 300 + 1e-5);
        CHECK(std::fabs(static_cast<double>(result[static_cast<size_t>(Matrix::place(r, c))]) - exact) <=
              2e-6 * (1 + std::fabs(exact)));
      }
    }
  });
}
