// Seeded faults: each kind of wrong access is found before the step runs, and right programs are left alone.
#include <algorithm>
#include <atomic>

#include "memory/scratchpad.h"
#include "sanitized_programs.h"

using namespace sanitized;

TEST(a_right_program_runs_and_its_padding_stays_what_it_was) {
  Tensor x(8, 70), y(8, 70);
  x.fill(1.5f);
  launch({twice(x, y, 4)}, x, y);
  const std::vector<float> result = y.read<float>();
  CHECK(std::all_of(result.begin(), result.end(), [](float value) { return value == 3.0f; }));
  const Shadow* shadow = Shadow::of(y.memory());
  CHECK(*shadow->at(y.memory() + (8 * 64 + 5) * 2) == ByteState::Initialised);
  CHECK(*shadow->at(y.memory() + (8 * 64 + 6) * 2) == ByteState::Uninitialised);
}

TEST(reading_or_writing_outside_of_the_block_names_operand_core_and_address) {
  Tensor x(8, 64), y(16, 64);
  x.fill(1.0f);
  Step wrong = twice(x, y, 4);
  REPORTS(PARTS("out-of-bounds", "program 'p', step 0 'twice'", "input 0 'x', element 512", "core 2", "0x",
                "block of 1024 bytes"),
          launch({wrong}, x, y));
  Tensor small(8, 64), large(16, 64);
  large.fill(1.0f);
  wrong = twice(large, small, 4);
  wrong.loops[1].extent = 16;
  REPORTS(PARTS("out-of-bounds", "output 0 'y', element 512", "core 2", "writes here"), launch({wrong}, large, small));
}

TEST(what_was_freed_is_neither_read_nor_written) {
  Tensor x(8, 64), y(8, 64);
  x.fill(1.0f);
  const Step right = twice(x, y, 2);
  const std::vector<Address> addresses = {x.block->address, y.block->address};
  x.free();
  REPORTS(PARTS("freed-read", "input 0 'x'"), launch(program({right}, {"x", "y"}), addresses));
  Tensor z(8, 64);
  z.fill(1.0f);
  y.free();
  REPORTS(PARTS("freed-write", "output 0 'y'"), launch(program({right}, {"x", "y"}), {z.block->address, addresses[1]}));
}

TEST(a_free_behind_a_launch_in_its_stream_is_no_fault) {
  Card& card = the_card();
  Tensor x(8, 64), y(8, 64);
  x.fill(1.0f);
  const auto prepared = prepare(program({twice(x, y)}, {"x", "y"}));
  const std::vector<Address> addresses = {x.block->address, y.block->address};
  std::atomic<bool> go{false};
  Stream& stream = card.stream(0);
  stream.submit("hold", [&] {
    while (!go) continue;
  });
  const Ticket ticket = stream.submit("launch", [&] { prepared->run(card, {addresses, {}, {}, {}}); });
  x.free();
  go = true;
  stream.wait(ticket);
  CHECK_EQ(y.at<float>(0), 2.0f);
  REPORTS(PARTS("freed-read"), launch(program({twice(y, y)}, {"x", "y"}), addresses));
}

TEST(an_element_nobody_wrote_does_not_become_a_result) {
  Tensor x(8, 64), y(8, 64);
  x.fill(1.0f, 5);
  REPORTS(PARTS("uninitialised-read", "input 0 'x', element 320", "core 2", "nobody has written it"),
          launch({twice(x, y, 4)}, x, y));
}

TEST(padding_does_not_become_a_result) {
  Tensor x(8, 70), y(8, 128);
  x.fill(1.0f);
  REPORTS(PARTS("uninitialised-read", "input 0 'x', element 518", "core 0"), launch({twice(x, y, 4)}, x, y));
  Tensor z(8, 70);
  Step stores = twice(x, z);
  stores.lane.store_padding = true;
  launch({stores}, x, z);
  REPORTS(PARTS("tainted-element", "input 0 'x', element 518", "padding"), launch({twice(z, y)}, z, y));
}

TEST(a_map_across_sticks_reads_its_elements_and_nothing_else) {
  Tensor x(80, 70), y(70, 80);  // y is x turned, whole sticks of y at first, then the last rows of x
  const auto turned = [&](int64_t first, int64_t rows) {
    Step made = step("turn", y, 1);
    made.loops = {{1, 1, false}, {64, 1, false}};
    made.lane = {64, rows, 0, false, false};
    made.inputs = {operand(0, x, OperandKind::Strided)};
    made.outputs = {operand(1, y)};
    made.inputs[0].stride = {0, 1};
    made.inputs[0].tile_stride = 64;
    made.inputs[0].offset = first * 64;
    made.outputs[0].offset = first / 64 * 70 * 64;
    made.code.instructions = {{Op::Add, 1, 0, 0}};
    made.code.results = {1};
    return made;
  };
  x.fill(1.0f, 70);
  y.fill(0.0f);
  launch({turned(0, 64)}, x, y);
  REPORTS(PARTS("uninitialised-read", "input 0 'x', element 4480", "nobody has written it"),
          launch({turned(64, 16)}, x, y));
  x.fill(3.0f);
  launch({turned(0, 64), turned(64, 16)}, x, y);
  CHECK_EQ(y.at<float>(63 * 80 + 79), 6.0f);
  REPORTS(PARTS("out-of-bounds", "input 0 'x'"), launch({turned(128, 64)}, x, y));
}

TEST(many_findings_become_few_lines_and_a_count) {
  Tensor x(8, 64), y(8, 64);
  REPORTS(PARTS("uninitialised-read", "and 7 more like these"), launch({twice(x, y)}, x, y));
}

TEST(a_selection_of_the_clean_side_is_clean) {
  Tensor x(8, 70), y(8, 70), nothing(8, 70);
  x.fill(3.0f);
  Step pick = step("pick", x, 2);
  pick.inputs = {operand(0, x), operand(2, nothing)};
  pick.outputs = {operand(1, y)};
  pick.code.constants = {{2, 0x40000000}};  // 2.0
  pick.code.instructions = {{Op::LtF, 3, 2, 0}, {Op::Select, 4, 3, 0, 1}};
  pick.code.results = {4};
  const Program right = program({pick}, {"x", "y", "nothing"});
  const std::vector<Address> addresses = {x.block->address, y.block->address, nothing.block->address};
  launch(right, addresses);
  CHECK_EQ(y.at<float>(0), 3.0f);
  x.fill(1.0f);
  REPORTS(PARTS("uninitialised-read", "input 1 'nothing'"), launch(right, addresses));
}

TEST(a_reduction_beyond_its_valid_lanes_is_found) {
  Tensor x(8, 70), y(8, 1);
  x.fill(1.0f);
  Step sum = step("sum", x, 2);
  sum.kind = StepKind::Reduce;
  sum.loops[0].reduced = sum.lane.reduced = true;
  sum.inputs = {operand(0, x)};
  Operand out = operand(1, y, OperandKind::Splat);
  out.stride[0] = 0;
  sum.outputs = {out};
  sum.code.results = {0};
  sum.finish.results = {0};
  launch({sum}, x, y);
  CHECK_EQ(y.at<float>(7), 70.0f);
  sum.lane.extent = 71;
  REPORTS(PARTS("uninitialised-read", "step 0 'sum'", "input 0 'x', element 518"), launch({sum}, x, y));
}

TEST(a_contraction_beyond_its_k_is_found_in_either_operand) {
  Tensor a(8, 70), b(70, 64), c(8, 64), tall(71, 64);
  a.fill(1.0f);
  b.fill(1.0f);
  tall.fill(1.0f);
  Step mm;
  mm.name = "mm";
  mm.kind = StepKind::Contract;
  mm.loops = {{8, 2, false}, {1, 1, false}, {2, 1, true}};
  mm.lane = {64, 64, 1, false, false};
  mm.k_extent = 70;
  mm.k_lanes = 64;
  mm.b_row_stride = 64;
  const auto with = [](int symbol, std::vector<int64_t> strides) {
    Operand made;
    made.symbol = symbol;
    made.stride = std::move(strides);
    made.tile_stride = 64;
    return made;
  };
  mm.inputs = {with(0, {64, 0, 8 * 64}), with(1, {0, 70 * 64, 64 * 64})};
  mm.outputs = {with(2, {64, 8 * 64, 0})};
  const auto run = [&](const Tensor& left, const Tensor& right) {
    launch(program({mm}, {"a", "b", "c"}), {left.block->address, right.block->address, c.block->address});
  };
  run(a, b);
  CHECK_EQ(c.at<float>(0), 70.0f);
  mm.k_extent = 71;
  REPORTS(PARTS("uninitialised-read", "step 0 'mm'", "input 0 'a', element 518"), run(a, tall));
  Tensor wide(8, 71);
  wide.fill(1.0f);
  REPORTS(PARTS("out-of-bounds", "input 1 'b', element 4480"), run(wide, b));
}

TEST(a_contraction_that_turns_its_second_operand_needs_k_elements_of_n_rows) {
  Tensor a(8, 70), b(30, 70), c(8, 30), low(29, 70);
  a.fill(1.0f);
  b.fill(1.0f);
  low.fill(1.0f);
  Step mm;
  mm.name = "mm";
  mm.kind = StepKind::Contract;
  mm.loops = {{8, 2, false}, {1, 1, false}, {2, 1, true}};
  mm.lane = {64, 30, 1, false, false};
  mm.k_extent = 70;
  mm.k_lanes = 64;
  mm.b_row_stride = 64;
  mm.b_along_k = true;
  const auto with = [](int symbol, std::vector<int64_t> strides) {
    Operand made;
    made.symbol = symbol;
    made.stride = std::move(strides);
    return made;
  };
  mm.outputs = {with(2, {64, 0, 0})};
  const auto run = [&](const Tensor& right, int64_t rows) {
    mm.inputs = {with(0, {64, 0, 8 * 64}), with(1, {0, 64 * 64, rows * 64})};
    launch(program({mm}, {"a", "b", "c"}), {a.block->address, right.block->address, c.block->address});
  };
  run(b, 30);
  CHECK_EQ(c.at<float>(0), 70.0f);
  REPORTS(PARTS("out-of-bounds", "input 1 'b', element 3712"), run(low, 29));
  Tensor narrow(30, 69);
  narrow.fill(1.0f);
  REPORTS(PARTS("uninitialised-read", "step 0 'mm'", "input 1 'b', element 1925"), run(narrow, 30));
}

TEST(an_index_nobody_wrote_chooses_no_address) {
  Tensor table(16, 64), y(4, 64), index(1, 4, DType::Int64);
  table.fill(1.0f);
  Step gather = step("gather", y, 2);
  gather.kind = StepKind::Gather;
  Operand rows = operand(2, index, OperandKind::Splat);
  rows.stride = {0, 1};
  Operand source = operand(0, table);
  source.stride[1] = 0;
  gather.inputs = {source, rows};
  gather.outputs = {operand(1, y)};
  gather.code.results = {0};
  gather.index_stride = 64;
  gather.index_bound = 16;
  const auto run = [&] {
    launch(program({gather}, {"table", "y", "index"}), {table.block->address, y.block->address, index.block->address});
  };
  REPORTS(PARTS("tainted-address", "input 1 'index', element 0", "chooses an address"), run());
  index.fill(int64_t{15});
  run();
  CHECK_EQ(y.at<float>(0), 1.0f);
  index.fill(int64_t{-16});
  run();
  for (const int64_t wrong : {16, -17}) {
    index.fill(wrong);
    CHECK_THROWS_SAYING(IndexOutOfRange, "index " + std::to_string(wrong) + " is out of bounds", run());
  }
}

TEST(two_cores_do_not_write_the_same_bytes) {
  Tensor x(8, 64), y(8, 64);
  x.fill(1.0f);
  Step wrong = twice(x, y, 4);
  wrong.outputs[0].stride[1] = 0;
  REPORTS(PARTS("write-race", "output 0 'y', element 0", "core 1 writes what core 0 writes"), launch({wrong}, x, y));
}

TEST(a_core_does_not_read_what_another_one_writes) {
  Tensor x(9, 64);
  x.fill(1.0f);
  Step shift = twice(x, x, 4);
  shift.loops[1].extent = 8;
  shift.outputs[0].symbol = 0;
  launch(program({shift}, {"x"}), {x.block->address});  // in place
  shift.inputs[0].offset = 64;                          // each row from the next one
  REPORTS(PARTS("read-race", "input 0 'x', element 128", "core 0 reads what core 1 writes"),
          launch(program({shift}, {"x"}), {x.block->address}));
}

TEST(cores_that_lie_between_each_other_do_not_meet) {
  Tensor x(8, 256), y(8, 256);
  x.fill(1.0f);
  Step in_place = twice(x, x, 8);
  in_place.outputs[0].symbol = 0;
  launch(program({in_place}, {"x"}), {x.block->address});
  CHECK_EQ(x.at<float>(0), 2.0f);
}

TEST(a_relayout_carries_along_what_is_known) {
  Tensor x(8, 70), y(8, 70), z(8, 70);
  x.fill(1.0f, 6);
  Step move;
  move.name = "move";
  move.kind = StepKind::Relayout;
  move.inputs = {operand(0, x)};
  move.outputs = {operand(1, y)};
  move.views = {{x.shape, DType::Float16, 0, {8, 70}, {70, 1}}, {y.shape, DType::Float16, 0, {8, 70}, {70, 1}}};
  launch({move}, x, y);
  REPORTS(PARTS("uninitialised-read", "element 384"), launch({twice(y, z)}, y, z));
  const std::vector<Address> addresses = {x.block->address, y.block->address};
  x.free();
  REPORTS(PARTS("freed-read", "program 'p', step 0 'move'", "a tensor of float16 [8, 70]"),
          launch(program({move}, {"x", "y"}), addresses));
}

TEST(vector_code_that_only_copies_carries_along_what_is_known) {
  Tensor x(8, 70), y(8, 70), z(8, 70);
  x.fill(1.0f, 6);
  Step move = step("move", x, 2);
  move.inputs = {operand(0, x)};
  move.outputs = {operand(1, y)};
  move.code.results = {0};
  launch({move}, x, y);
  const Shadow* shadow = Shadow::of(y.memory());
  CHECK(*shadow->at(y.memory()) == ByteState::Initialised);
  CHECK(*shadow->at(y.memory() + 6 * 64 * 2) == ByteState::Uninitialised);
  REPORTS(PARTS("uninitialised-read", "element 384"), launch({twice(y, z)}, y, z));
}

TEST(the_host_hears_of_what_it_reads_once_and_gets_it) {
  (void)take_notices();
  Tensor x(3, 70);
  x.fill(2.0f, 2);
  CHECK_EQ(x.at<float>(139), 2.0f);
  CHECK(has_notices());
  const std::vector<Notice> notices = take_notices();
  CHECK_EQ(notices.size(), size_t{1});
  CHECK(notices[0].text.find("the host reads element [2, 0] of a tensor of float16 [3, 70]") != std::string::npos);
  CHECK(notices[0].text.find("and 69 more") != std::string::npos);
  (void)x.read<float>();
  CHECK(!has_notices());
}

TEST(integers_that_wrap_are_told) {
  (void)take_notices();
  Tensor x(2, 40, DType::Int64), y(2, 40, DType::Int64);
  x.fill(int64_t{1} << 30);
  launch({twice(x, y)}, x, y);
  const std::vector<Notice> notices = take_notices();
  CHECK_EQ(notices.size(), size_t{1});
  for (const char* part : {"integer-wrap", "output 0 'y'", "add_i gives 2147483648, which wraps"})
    CHECK(notices.at(0).text.find(part) != std::string::npos);
  CHECK_EQ(y.at<int64_t>(0), -(int64_t{1} << 31));
}

TEST(integers_that_wrap_on_the_way_to_nothing_are_not_told) {
  (void)take_notices();
  Tensor x(2, 40, DType::Int64), y(2, 40, DType::Int64);
  x.fill(int64_t{1} << 30);
  Step pick = twice(x, y);
  pick.code.instructions = {{Op::AddI, 1, 0, 0}, {Op::EqI, 2, 0, 0}, {Op::Select, 3, 2, 0, 1}};
  pick.code.results = {3};
  launch({pick}, x, y);
  CHECK(!has_notices());
  CHECK_EQ(y.at<int64_t>(0), int64_t{1} << 30);
}

TEST(a_core_reads_only_what_it_wrote_into_its_own_scratchpad) {
  Tensor x(8, 64), y(8, 64);
  x.fill(1.0f);
  Step keep = twice(x, y, 4), take = twice(x, y, 4);
  keep.outputs[0].space = Space::Scratchpad;
  take.inputs[0].space = Space::Scratchpad;
  the_card().scratchpads().clear();
  REPORTS(PARTS("scratchpad-read", "step 0 'twice'", "has not written it"), launch({take}, x, y));
  launch({keep, take}, x, y);
  CHECK_EQ(y.at<float>(511), 4.0f);
  y.fill(0.0f);
  launch({take}, x, y);  // what a launch left there is there for the next one
  CHECK_EQ(y.at<float>(511), 4.0f);
  take.loops[1].split = 8;  // cores 4 to 7 have nothing there
  REPORTS(PARTS("scratchpad-read", "step 1 'twice'", "input 0 in the scratchpad, element 0", "core 4"),
          launch({keep, take}, x, y));
}

// --- deeds: what a step says is looked at once it has run
// ------------------------------------------------------------------------------------------

TEST(a_step_that_stores_nothing_is_found) {
  Tensor x(8, 70), y(8, 70);
  x.fill(1.0f);
  sanitize::misbehave_once(sanitize::Misdeed::Skip);
  REPORTS(PARTS("unwritten", "step 0 'twice'", "output 0 'y', element 0", "(518 of 518 here)", "did not"),
          launch({twice(x, y, 4)}, x, y));
  launch({twice(x, y, 4)}, x, y);
  CHECK_EQ(y.at<float>(0), 2.0f);
}

TEST(a_store_beyond_what_was_said_is_found) {
  Tensor x(8, 70), y(8, 70);
  x.fill(1.0f);
  sanitize::misbehave_once(sanitize::Misdeed::StoreBeyond);
  REPORTS(PARTS("undeclared-write", "output 0 'y', element", "does not say it stores it"), launch({twice(x, y)}, x, y));
}

TEST(a_result_that_looks_like_poison_is_a_result) {
  Tensor x(2, 64, DType::Int8), y(2, 64, DType::Int8);
  Step move = step("move", y, 1);
  move.inputs = {operand(0, x)};
  move.outputs = {operand(1, y)};
  move.code.results = {0};
  x.fill(int64_t{0x5A});
  launch({move}, x, y);
  CHECK_EQ(y.at<int64_t>(0), int64_t{0x5A});
  x.fill(int64_t{static_cast<int8_t>(0xA5)});
  launch({move}, x, y);
  CHECK_EQ(y.at<int64_t>(127), int64_t{static_cast<int8_t>(0xA5)});
}

TEST(what_a_step_reads_is_not_poisoned) {
  Tensor x(8, 70);
  x.fill(3.0f);
  Step in_place = twice(x, x);
  in_place.outputs[0].symbol = 0;
  launch(program({in_place}, {"x"}), {x.block->address});
  CHECK_EQ(x.at<float>(69), 6.0f);
  sanitize::misbehave_once(sanitize::Misdeed::StoreBeyond);
  REPORTS(PARTS("undeclared-write", "output 0 'x'"), launch(program({in_place}, {"x"}), {x.block->address}));
}

TEST(a_copy_that_stores_nothing_is_found) {
  Tensor x(8, 70), y(8, 70);
  x.fill(1.0f);
  Step move;
  move.name = "move";
  move.kind = StepKind::Relayout;
  move.inputs = {operand(0, x)};
  move.outputs = {operand(1, y)};
  move.views = {{x.shape, DType::Float16, 0, {70, 8}, {1, 70}}, {y.shape, DType::Float16, 0, {70, 8}, {1, 70}}};
  sanitize::misbehave_once(sanitize::Misdeed::Skip);
  REPORTS(PARTS("unwritten", "step 0 'move'", "element [0, 0] of a tensor of float16 [70, 8]"), launch({move}, x, y));
}

// A raw copy tells of itself only when it is done. It goes to a buffer of its own, though, and a step looks at nothing
// but the blocks of its operands.
TEST(bytes_written_next_to_a_steps_block_are_nobodys_mistake) {
  std::vector<std::byte> memory(3 * 128);
  std::byte* block = memory.data() + 128;
  sanitize::Deeds deeds({{block, block + 64, 0, 0, 2}}, {}, {{block, block + 128}});
  std::fill_n(memory.data(), 128, std::byte{1});
  std::fill_n(memory.data() + 256, 128, std::byte{1});
  CHECK(deeds.changed_beyond() == nullptr);
  block[64] = std::byte{1};
  CHECK(deeds.changed_beyond() == block + 64);
}
