// Scratchpads without the sanitizer: programs that keep values there, and those that do not fit. Such a card has no
// shadow.
#include "sanitized_programs.h"

using namespace sanitized;

namespace {

Card& plain_card() { return the_card(false); }

void refuses(const Step& wrong, const char* text) {
  CHECK_THROWS_SAYING(InvalidArgument, text, prepare(program({wrong}, {"x", "y"})));
}

}  // namespace

TEST(a_card_without_sanitizer_reserves_no_shadow) {
  Card& card = plain_card();
  CHECK(card.settled_shadow() == nullptr);
  const Tensor x(8, 64, DType::Float16, card);
  CHECK(Shadow::of(x.memory()) == nullptr);
  CHECK(Shadow::of(card.scratchpads().of(0)) == nullptr);
}

TEST(values_kept_in_scratchpads_are_there_in_the_next_step) {
  Card& card = plain_card();
  for (const int32_t split : {1, 2, 8}) {
    Tensor x(8, 200, DType::Float16, card), y(8, 200, DType::Float16, card);
    std::vector<float> values(8 * 200);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 512);
    copy_in({values.data(), DType::Float32, {8, 200}, {200, 1}}, x.view());
    Step keep = twice(x, y, split), take = twice(x, y, split);
    for (Operand* place : {&keep.outputs[0], &take.inputs[0]}) {
      place->space = Space::Scratchpad;
      place->offset = 1024;
    }
    launch(program({keep, take}, {"x", "y"}), {x.block->address, y.block->address}, card);
    const std::vector<float> result = y.read<float>();
    for (size_t i = 0; i < values.size(); ++i) CHECK_EQ(result[i], 4 * values[i]);
  }
}

TEST(cores_do_not_share_their_scratchpads) {
  Scratchpads pads(2 << 20, false);
  CHECK_EQ(pads.of(1) - pads.of(0), 2 << 20);
  CHECK_EQ(pads.of(kCardCores - 1) - pads.of(0), int64_t{kCardCores - 1} * (2 << 20));
}

TEST(a_scratchpad_that_overflows_is_refused) {
  Card& card = plain_card();
  const Tensor x(8, 64, DType::Float16, card), y(8, 64, DType::Float16, card);
  Step wrong = twice(x, y, 4);
  wrong.outputs[0].space = Space::Scratchpad;
  wrong.outputs[0].offset = (2 << 20) / 2 - 127;
  refuses(wrong, "lies in bytes 2096898 to 2097154 of the scratchpad, which has 2097152 per core");
  wrong.outputs[0].offset = -64;
  refuses(wrong, "lies in bytes -128 to 128 of the scratchpad");
}

TEST(cores_that_share_a_sum_cannot_keep_it_in_scratchpads) {
  Card& card = plain_card();
  const Tensor x(8, 64, DType::Float16, card), y(1, 64, DType::Float16, card);
  Step sum = twice(x, y, 1);
  sum.kind = StepKind::Reduce;
  sum.loops[1] = {8, 4, true};
  sum.inputs = {operand(0, x)};
  sum.outputs[0].stride[1] = 0;
  sum.finish.results = {0};
  CHECK(prepare(program({sum}, {"x", "y"})) != nullptr);
  sum.outputs[0].space = Space::Scratchpad;
  refuses(sum, "they would have to see each other's");
}

TEST(a_core_reaches_at_most_256_mib_of_a_tensor) {
  Card& card = plain_card();
  const Tensor x(8, 64, DType::Float16, card), y(8, 64, DType::Float16, card);
  Step far = twice(x, y, 4);
  far.inputs[0].stride[1] = (256 << 20) / 2 - 64;  // two rows per core, just in reach
  CHECK(prepare(program({far}, {"x", "y"})) != nullptr);
  far.inputs[0].stride[1] += 64;
  refuses(far, "input 0: each core reaches over 256.00 MiB of it, a core's span in one tensor is at most 256.00 MiB");
}
