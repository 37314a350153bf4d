// Counted loops around steps: the order of executions, what prepare() refuses, and where operands are.
#include "program/repeats.h"
#include "random_steps.h"

using namespace naive;

namespace {

Step named(const char* text) {
  Step step;
  step.name = text;
  return step;
}

std::string order_of(const Program& program) {
  std::string text;
  each_execution(program, [&](size_t step, std::span<const int64_t> iterations) {
    text += program.steps[step].name;
    for (const int64_t index : iterations) text += std::to_string(index);
    text += ' ';
    return true;
  });
  return text;
}

Program program_of(std::vector<Repeat> repeats) {
  Program program{"p", 0, 0, {named("a"), named("b"), named("c"), named("d")}};
  program.repeats = std::move(repeats);
  return program;
}

// Doubles one stick after the other.
Step tile(int64_t advance) {
  Step step;
  step.name = "tile";
  step.loops = {{1, 1, false}};
  step.lane = {64, 64, -1, false, false};
  Operand operand;
  operand.stride = {64};
  operand.advance = {advance};
  step.inputs = {operand};
  operand.symbol = 1;
  step.outputs = {operand};
  step.code.instructions = {{Op::Add, 1, 0, 0}};
  step.code.results = {1};
  return step;
}

Program tiles(const Step& step, int64_t count) {
  Program program{"tiles", 2, 0, {step}};
  program.repeats = {{0, 1, count}};
  return program;
}

}  // namespace

TEST(steps_run_in_the_order_of_the_tree) {
  CHECK_EQ(order_of(program_of({})), std::string("a b c d "));
  CHECK_EQ(order_of(program_of({{1, 3, 2}})), std::string("a b0 c0 b1 c1 d "));
  CHECK_EQ(order_of(program_of({{0, 4, 2}, {0, 1, 2}, {2, 4, 1}})),
           std::string("a00 a01 b0 c00 d00 a10 a11 b1 c10 d10 "));
  CHECK_EQ(order_of(program_of({{1, 2, 2}, {2, 3, 3}})), std::string("a b0 b1 c0 c1 c2 d "));
  CHECK_EQ(order_of(program_of({{0, 4, 2}, {0, 4, 1}, {3, 4, 2}})),
           std::string("a00 b00 c00 d000 d001 a10 b10 c10 d100 d101 "));
}

TEST(an_execution_may_be_the_last) {
  int seen = 0;
  each_execution(program_of({{0, 4, 1000}}), [&](size_t, std::span<const int64_t>) { return ++seen < 10; });
  CHECK_EQ(seen, 10);
}

TEST(repeats_are_apart_or_in_each_other_and_end) {
  CHECK(check_repeats(program_of({{0, 4, 2}, {1, 3, 2}, {1, 2, 5}})).empty());
  for (const std::vector<Repeat>& wrong : std::vector<std::vector<Repeat>>{{{0, 2, 2}, {1, 3, 2}},
                                                                           {{2, 2, 2}},
                                                                           {{0, 5, 2}},
                                                                           {{2, 3, 2}, {0, 1, 2}},
                                                                           {{0, 4, 0}},
                                                                           {{0, 4, 1 << 20}, {0, 4, 1 << 20}}})
    CHECK(!check_repeats(program_of(wrong)).empty());
  CHECK(!check_repeats(program_of(std::vector<Repeat>(kMaxDepth + 1, Repeat{0, 4, 1}))).empty());
}

TEST(operands_are_farthest_at_the_ends_of_their_own_ways) {
  Step step = tile(64);
  step.outputs[0].offset = 640;
  step.outputs[0].advance = {-64};
  const int64_t counts[] = {4};
  const auto [low, high] = farthest(step, counts);
  CHECK_EQ(low.inputs[0].offset, 0);
  CHECK_EQ(high.inputs[0].offset, 192);
  CHECK_EQ(low.outputs[0].offset, 448);
  CHECK_EQ(high.outputs[0].offset, 640);
}

TEST(prepare_refuses_what_repeats_cannot_do) {
  Step still = tile(64);
  still.inputs[0].advance = {64, 64};
  CHECK_THROWS_SAYING(InvalidArgument, "input 0 moves with 2 repeats, there are 1 around the step",
                      prepare(tiles(still, 4)));
  CHECK_THROWS_SAYING(InvalidArgument, "input 0 moves with 1 repeats, there are 0", prepare({"p", 2, 0, {tile(64)}}));
  CHECK_THROWS_SAYING(InvalidArgument, "moves beyond any card", prepare(tiles(tile(int64_t{1} << 47), 1 << 20)));
  Step kept = tile(64);
  kept.outputs[0].space = Space::Scratchpad;
  kept.outputs[0].advance = {1 << 20};
  CHECK_THROWS_SAYING(InvalidArgument, "of the scratchpad, which has", prepare(tiles(kept, 4)));
}

TEST(every_iteration_moves_its_operands) {
  Card& target = card(0);
  Block* source = target.allocate(8 * kStickBytes, 0);
  Block* result = target.allocate(8 * kStickBytes, 0);
  auto* in = reinterpret_cast<uint16_t*>(target.translate(source->address));
  auto* out = reinterpret_cast<uint16_t*>(target.translate(result->address));
  for (int i = 0; i < 8 * 64; ++i) in[i] = sen169_from_float(static_cast<float>(i)), out[i] = 0;
  const auto prepared = prepare(tiles(tile(128), 4));  // every other stick
  const std::vector<Address> addresses = {source->address, result->address};
  prepared->run(target, {addresses, {}, {}, {}});
  for (int i = 0; i < 8 * 64; ++i)
    CHECK_EQ(out[i], i / 64 % 2 == 0 ? sen169_from_float(2.0f * sen169_to_float(in[i])) : 0);
  target.free(source);
  target.free(result);
}
