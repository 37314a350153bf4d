// Map, Gather and Scatter steps against the definition, on 1, 2 and 7 threads and every instruction set.
#include "random_steps.h"

using namespace naive;

namespace {

void expect_map(const Step& step, Launch& launch, const std::vector<bool>& result_is_int) {
  each_point(
      step.loops, [](size_t) { return true; }, {},
      [&](const Index& index) {
        for (int64_t lane = 0; lane < step.lane.lanes; ++lane) {
          const std::vector<Bits> results = evaluate(step.code, load_all(launch, step, index, lane));
          for (size_t i = 0; i < results.size(); ++i) {
            if (step.outputs[i].kind == OperandKind::Splat && lane > 0) continue;
            if (valid_lane(step, index, lane) || step.lane.store_padding)
              store(launch, step.outputs[i], index, lane, results[i], result_is_int[i]);
          }
        }
      });
}

// Lanes that are a stride apart have nothing behind the last element.
bool can_read_across(const Step& step) {
  return step.lane.extent % step.lane.lanes == 0 || step.lane.extent < step.lane.lanes || !step.lane.store_padding;
}

bool random_map_agrees(uint64_t seed, int64_t largest) {
  Random random(seed);
  Launch launch(card(0));
  const int32_t lanes = static_cast<int32_t>(pick(random, 0, 3) == 0 ? 128 : 64);
  Step step = random_nest(random, lanes, largest);
  step.name = "map " + std::to_string(seed);
  std::vector<bool> input_is_int, result_is_int;
  const int64_t inputs = pick(random, 1, 4);
  for (int64_t i = 0; i < inputs; ++i) {
    const int64_t kind = pick(random, 0, 9);
    if (kind == 0) {
      step.inputs.push_back(random_iota(random, step));
      input_is_int.push_back(true);
    } else if (kind == 1) {
      launch.scalars.push_back(bits(1.5f));
      step.inputs.push_back(
          {OperandKind::Scalar, Space::Memory, static_cast<int32_t>(launch.scalars.size()) - 1, 0, {}, 0, kFloat});
      input_is_int.push_back(false);
    } else {
      const std::vector<DeviceElement> elements =
          lanes == 128 ? std::vector{kHalf, kFloat, kInt, kByte, kFp8} : std::vector{kHalf, kHalf, kFloat, kInt, kBool};
      const DeviceElement element = elements[static_cast<size_t>(pick(random, 0, 4))];
      const bool some = pick(random, 0, 2) == 0;
      std::vector<bool> moves;
      for (size_t k = 0; k < step.loops.size(); ++k) moves.push_back(!some || pick(random, 0, 1) == 0);
      const int64_t reads = pick(random, 0, 9);
      const OperandKind read = reads < 2                            ? OperandKind::Splat
                               : reads < 5 && can_read_across(step) ? OperandKind::Strided
                                                                    : OperandKind::Vector;
      step.inputs.push_back(random_operand(random, step, launch, element, read, [&](size_t k) { return moves[k]; }));
      input_is_int.push_back(is_int(element));
    }
  }
  RandomCode made(random, input_is_int, pick(random, 0, 12));
  const int64_t outputs = pick(random, 1, 2);
  for (int64_t i = 0; i < outputs; ++i) {
    const std::vector<DeviceElement> elements =
        lanes == 128 ? std::vector{kHalf, kFloat, kInt, kByte} : std::vector{kHalf, kFloat, kInt, kBool};
    const DeviceElement element = elements[static_cast<size_t>(pick(random, 0, 3))];
    const bool ints = is_int(element) || (element == kBool && pick(random, 0, 1) == 0);
    made.code.results.push_back(made.any(random, ints ? made.ints : made.floats));
    result_is_int.push_back(ints);
    step.outputs.push_back(
        random_operand(random, step, launch, element, OperandKind::Vector, [](size_t) { return true; }));
  }
  step.code = made.code;
  return agrees(step, launch, [&] { expect_map(step, launch, result_is_int); });
}

// Elements go to other places as they are, along the sticks of the source or across them.
bool random_copy_agrees(uint64_t seed) {
  Random random(seed);
  Launch launch(card(0));
  const std::array<DeviceElement, 3> elements = {kByte, kShort, kInt};
  const DeviceElement element = elements[static_cast<size_t>(pick(random, 0, 2))];
  Step step = random_nest(random, elems_per_stick(element.format), seed % 10 == 0 ? 100 : 6);
  step.name = "copy " + std::to_string(seed);
  const auto all = [](size_t) { return true; };
  const bool across = can_read_across(step) && pick(random, 0, 3) > 0;
  const OperandKind read = across ? OperandKind::Strided : OperandKind::Vector;
  step.inputs = {random_operand(random, step, launch, element, read, all)};
  step.outputs = {random_operand(random, step, launch, element, OperandKind::Vector, all)};
  step.code.results = {0};
  return agrees(step, launch, [&] { expect_map(step, launch, {true}); });
}

bool random_index_agrees(uint64_t seed, bool scatter) {
  Random random(seed);
  Launch launch(card(0));
  Step step = random_nest(random, 64, 5);
  step.name = (scatter ? "scatter " : "gather ") + std::to_string(seed);
  step.kind = scatter ? StepKind::Scatter : StepKind::Gather;
  const DeviceElement element = pick(random, 0, 1) == 0 ? kHalf : kInt;
  const auto all = [](size_t) { return true; };
  // The table has no stride along the loops whose points choose the row.
  std::vector<bool> chooses;
  for (Loop& loop : step.loops) {
    chooses.push_back(pick(random, 0, 1) == 0);
    if (scatter && chooses.back()) loop.split = 1;
  }
  const auto stays = [&](size_t k) { return !chooses[k]; };
  Operand table = random_operand(random, step, launch, element, OperandKind::Vector, stays);
  const auto old_elements = static_cast<int64_t>(launch.memory.back().size()) / device_itemsize(element.format);
  step.index_bound = pick(random, 1, 5);
  step.index_stride = old_elements;
  table.symbol = launch.add(random_bytes(random, element, old_elements * step.index_bound));
  step.accumulate = scatter && pick(random, 0, 1) == 0;
  Operand index = random_operand(random, step, launch, kInt, OperandKind::Splat, [&](size_t k) { return chooses[k]; });
  auto& indices = launch.memory[static_cast<size_t>(index.symbol)];
  for (size_t at = 0; at < indices.size(); at += 4) {
    const auto value = static_cast<int32_t>(pick(random, -step.index_bound, step.index_bound - 1));
    std::memcpy(indices.data() + at, &value, 4);
  }
  const Operand other = random_operand(random, step, launch, element, OperandKind::Vector, all);
  step.inputs = {scatter ? other : table, index};
  step.outputs = {scatter ? table : other};
  step.code.results = {0};
  if (element == kHalf && pick(random, 0, 1) == 0) {
    step.code.constants = {{1, bits(0.5f)}};
    step.code.instructions = {{Op::Mul, 2, 0, 1}};
    step.code.results = {2};
  }
  return agrees(step, launch, [&] {
    each_point(step.loops, all, {}, [&](const Index& at) {
      Operand moved = table;
      const auto i = static_cast<int32_t>(load(launch, index, at, 0));
      moved.offset += (i < 0 ? i + step.index_bound : i) * step.index_stride;
      for (int64_t lane = 0; lane < 64; ++lane) {
        if (!valid_lane(step, at, lane) && !step.lane.store_padding) continue;
        Bits value = evaluate(step.code, {load(launch, scatter ? other : moved, at, lane)})[0];
        if (step.accumulate)
          value = apply(is_int(element) ? Op::AddI : Op::Add, load(launch, moved, at, lane), value, 0);
        store(launch, scatter ? moved : other, at, lane, value, is_int(element));
      }
    });
  });
}

// An index per lane: element j of the table's row, which lies in sticks a tile apart.
bool random_lane_gather_agrees(uint64_t seed) {
  Random random(seed);
  Launch launch(card(0));
  Step step = random_nest(random, 64, 5);
  step.kind = StepKind::Gather;
  step.lane.store_padding = false;
  Operand table;
  table.kind = OperandKind::Splat;
  table.stride.assign(step.loops.size(), 0);
  table.tile_stride = 64 * 3;
  table.offset = 64;
  table.symbol = launch.add(random_bytes(random, kHalf, 64 * 3 * 4));
  step.index_bound = 64 * 3 + 10;
  const auto all = [](size_t) { return true; };
  const Operand index = random_operand(random, step, launch, kInt, OperandKind::Vector, all);
  auto& indices = launch.memory[static_cast<size_t>(index.symbol)];
  std::fill(indices.begin(), indices.end(), std::byte{0xFF});  // what padding holds must not matter
  each_point(step.loops, all, {}, [&](const Index& at) {
    for (int64_t lane = 0; lane < 64; ++lane)
      if (valid_lane(step, at, lane))
        store(launch, index, at, lane, static_cast<Bits>(pick(random, -step.index_bound, step.index_bound - 1)), true);
  });
  const Operand output = random_operand(random, step, launch, kHalf, OperandKind::Vector, all);
  step.inputs = {table, index};
  step.outputs = {output};
  step.code.results = {0};
  return agrees(step, launch, [&] {
    each_point(step.loops, all, {}, [&](const Index& at) {
      for (int64_t lane = 0; lane < 64; ++lane) {
        if (!valid_lane(step, at, lane)) continue;
        const auto i = static_cast<int32_t>(load(launch, index, at, lane));
        const int64_t j = i < 0 ? i + step.index_bound : i;
        Operand moved = table;
        moved.offset += j / 64 * table.tile_stride + j % 64;
        store(launch, output, at, lane, load(launch, moved, at, 0), false);
      }
    });
  });
}

// The reverse: values set at, or added to, the element of a row that their lane's index names.
bool random_lane_scatter_agrees(uint64_t seed) {
  Random random(seed);
  Launch launch(card(0));
  Step step = random_nest(random, 64, 5);
  step.kind = StepKind::Scatter;
  step.lane.store_padding = false;
  step.accumulate = pick(random, 0, 1) == 0;
  step.index_bound = pick(random, 0, 1) == 0 ? 64 * 6 + 10 : 10;  // many sticks, or part of one
  const DeviceElement element = pick(random, 0, 1) == 0 ? kHalf : kInt;
  const int64_t stick = elems_per_stick(element.format), sticks = (step.index_bound + stick - 1) / stick;
  const bool apart = pick(random, 0, 3) > 0;  // else all rows are one
  Operand target;
  target.kind = OperandKind::Splat;
  target.element = element;
  int64_t rows = 1;
  for (size_t k = 0; k < step.loops.size(); ++k) {
    const bool moves = apart && static_cast<int>(k) != step.lane.block_loop;
    target.stride.push_back(moves ? rows * stick : 0);
    if (moves)
      rows *= step.loops[k].extent;
    else
      step.loops[k].split = 1;
  }
  target.tile_stride = rows * stick;
  target.symbol = launch.add(random_bytes(random, element, rows * stick * sticks));
  step.index_stride = 0;
  const auto all = [](size_t) { return true; };
  const Operand index = random_operand(random, step, launch, kInt, OperandKind::Vector, all);
  auto& indices = launch.memory[static_cast<size_t>(index.symbol)];
  std::fill(indices.begin(), indices.end(), std::byte{0xFF});
  each_point(step.loops, all, {}, [&](const Index& at) {
    for (int64_t lane = 0; lane < 64; ++lane)
      if (valid_lane(step, at, lane))
        store(launch, index, at, lane, static_cast<Bits>(pick(random, -step.index_bound, step.index_bound - 1)), true);
  });
  const OperandKind read = pick(random, 0, 3) > 0 ? OperandKind::Vector : OperandKind::Splat;
  const Operand values = random_operand(random, step, launch, element, read, all);
  step.inputs = {values, index};
  step.outputs = {target};
  step.code.results = {0};
  return agrees(step, launch, [&] {
    each_point(step.loops, all, {}, [&](const Index& at) {
      for (int64_t lane = 0; lane < 64; ++lane) {
        if (!valid_lane(step, at, lane)) continue;
        const auto i = static_cast<int32_t>(load(launch, index, at, lane));
        const int64_t j = i < 0 ? i + step.index_bound : i;
        Operand moved = target;
        moved.offset += j / stick * target.tile_stride + j % stick;
        Bits value = load(launch, values, at, lane);
        if (step.accumulate) value = apply(is_int(element) ? Op::AddI : Op::Add, load(launch, moved, at, 0), value, 0);
        store(launch, moved, at, 0, value, is_int(element));
      }
    });
  });
}

}  // namespace

TEST(an_add_of_two_tensors_runs_on_32_cores) {
  with_threads([] {
    Random random(1);
    Launch launch(card(0));
    Step step;
    step.loops = {{64, 32, false}, {8, 1, false}};
    step.lane = {64, 500, 1, false, false};
    for (int i = 0; i < 3; ++i) {
      Operand operand;
      operand.symbol = launch.add(random_bytes(random, kHalf, 64 * 8 * 64));
      operand.stride = {64, 64 * 64};
      (i < 2 ? step.inputs : step.outputs).push_back(operand);
    }
    step.code.instructions = {{Op::Add, 2, 0, 1}};
    step.code.results = {2};
    CHECK_EQ(core_count(step), 32);
    CHECK(agrees(step, launch, [&] { expect_map(step, launch, {false}); }));
  });
}

TEST(random_maps_give_the_bits_of_the_definition) {
  with_threads([] {
    for (uint64_t seed = 0; seed < 400; ++seed) {
      const bool right = random_map_agrees(seed, seed % 40 == 0 ? 300 : 6);
      if (!right) std::printf("seed %d\n", static_cast<int>(seed));
      CHECK(right);
    }
  });
}

TEST(random_copies_and_restickifies_move_every_element) {
  with_threads([] {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const bool right = random_copy_agrees(seed);
      if (!right) std::printf("seed %d\n", static_cast<int>(seed));
      CHECK(right);
    }
  });
}

// Only the address sanitizer sees what a plain memcpy does here.
TEST(a_tensor_is_copied_onto_a_part_of_itself) {
  const int status = check::run_in_child([] {
    Configuration configuration;
    configuration.threads = 1;
    configure(configuration);
    Random random(1);
    Launch launch(card(0));
    Step step;
    step.loops = {{8, 1, false}};
    step.lane = {64, 64, -1, false, false};
    Operand source, target;
    source.symbol = target.symbol = launch.add(random_bytes(random, kShort, 9 * 64));
    source.stride = target.stride = {64};
    source.element = target.element = kShort;
    source.offset = 64;
    step.inputs = {source};
    step.outputs = {target};
    step.code.results = {0};
    CHECK(agrees(step, launch, [&] { expect_map(step, launch, {true}); }));
  });
  CHECK_EQ(status, 0);
}

TEST(random_gathers_and_scatters_give_the_bits_of_the_definition) {
  with_threads([] {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      for (const bool scatter : {false, true}) {
        const bool right = random_index_agrees(seed, scatter);
        if (!right) std::printf("seed %d scatter %d\n", static_cast<int>(seed), scatter);
        CHECK(right);
      }
    }
  });
}

TEST(random_gathers_with_an_index_per_lane_give_the_bits_of_the_definition) {
  with_threads([] {
    for (uint64_t seed = 0; seed < 100; ++seed) CHECK(random_lane_gather_agrees(seed));
  });
}

TEST(random_scatters_with_an_index_per_lane_give_the_bits_of_the_definition) {
  with_threads([] {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const bool right = random_lane_scatter_agrees(seed);
      if (!right) std::printf("seed %d\n", static_cast<int>(seed));
      CHECK(right);
    }
  });
}

TEST(an_index_out_of_bounds_is_refused_by_name) {
  with_threads([] {
    Launch launch(card(0));
    Step step;
    step.name = "embedding";
    step.kind = StepKind::Gather;
    Operand table, index, output;
    Random random(0);
    table.symbol = launch.add(random_bytes(random, kHalf, 64 * 4));
    index.kind = OperandKind::Splat;
    index.element = kInt;
    std::vector<std::byte> indices(128);
    index.symbol = launch.add(indices);
    output.symbol = launch.add(random_bytes(random, kHalf, 64));
    step.inputs = {table, index};
    step.outputs = {output};
    step.index_stride = 64;
    step.index_bound = 4;
    step.code.results = {0};
    for (const int32_t wrong : {4, 67372036, -5, INT32_MIN / 2, INT32_MAX}) {
      std::memcpy(launch.memory[static_cast<size_t>(index.symbol)].data(), &wrong, sizeof wrong);
      CHECK_THROWS_SAYING(IndexOutOfRange,
                          "embedding: index " + std::to_string(wrong) + " is out of bounds for a dimension of size 4",
                          agrees(step, launch, [] {}));
    }
  });
}
