// Programs: what prepare() refuses, what a launch may reach, steps in order, relayouts.
#include "random_steps.h"

using namespace naive;

namespace {

Step double_step() {
  Step step;
  step.name = "double";
  step.loops = {{8, 4, false}};
  step.lane = {64, 64, -1, false, false};
  Operand operand;
  operand.stride = {64};
  step.inputs = {operand};
  operand.symbol = 1;
  step.outputs = {operand};
  step.code.instructions = {{Op::Add, 1, 0, 0}};
  step.code.results = {1};
  return step;
}

void refuses(const Step& step, const std::string& text) {
  CHECK_THROWS_SAYING(InvalidArgument, text, prepare({"p", 2, 1, {step}}));
}

}  // namespace

TEST(prepare_lists_every_problem) {
  Step step = double_step();
  step.loops[0].split = 3;
  step.inputs[0].symbol = 7;
  step.outputs[0].stride = {1, 2};
  try {
    prepare({"p", 2, 0, {double_step(), step}});
    CHECK(false);
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part : {"program 'p' cannot run", "step 1 'double'", "the split does not divide the extent",
                             "input 0: symbol 7 of 2", "output 0 has 2 strides for 1 dims"})
      CHECK(text.find(part) != std::string::npos);
  }
}

TEST(prepare_names_what_is_wrong) {
  Step step = double_step();
  step.loops[0] = {64, 64, false};
  refuses(step, "a split is 1 to 32");
  step = double_step();
  step.lane.lanes = 48;
  refuses(step, "48 lanes, a block has a multiple of 32");
  step = double_step();
  step.lane.lanes = 0;
  step.inputs[0].kind = OperandKind::Strided;
  refuses(step, "0 lanes, a block has a multiple of 32");
  step = double_step();
  step.inputs[0].element = kFp8;
  refuses(step, "blocks of 64 lanes are not whole sticks of 128");
  step = double_step();
  step.lane.extent = 65;
  refuses(step, "does not end in the last of 1 blocks");
  step = double_step();
  step.code.instructions = {{Op::Add, 1, 0, 5}};
  refuses(step, "instruction 0 (add) reads r5, which nothing has set");
  step = double_step();
  step.code.instructions = {{Op::AddI, 1, 0, 0}};
  refuses(step, "instruction 0 (add_i) needs int32 in r0, found fp32");
  step = double_step();
  step.outputs[0].element = {DType::Int64, DataFormat::IEEE_INT32};
  refuses(step, "output 0: fp32 has no way into int64");
  step = double_step();
  step.outputs[0].kind = OperandKind::Iota;
  refuses(step, "outputs are Vector or Splat");
  step = double_step();
  step.code.results = {1, 1};
  refuses(step, "2 results for 1 outputs");
  step = double_step();
  step.loops[0].reduced = true;
  refuses(step, "only reductions and rows have reduced dims");
  step = double_step();
  step.kind = StepKind::Rows;
  refuses(step, "there are no stages");
  step.stages = {{RowStage::Kind::Map, {0}, {{}, {}, {0}}, Combine::Sum, 1}};
  refuses(step, "stage 0: no instruction writes its row");
  step.stages = {{RowStage::Kind::Map, {0}, {{{Op::Copy, 1, 0}}, {}, {1}, {RegisterType::Int}}, Combine::Sum, 1}};
  refuses(step, "stage 0: result 0 is said to be int32, found fp32");
}

namespace {

// Eight rows of 64 halves onto themselves.
Step move_step() {
  const int64_t size[] = {8, 64}, stride[] = {64, 1};
  const Step::View view{intern_default(size, stride, DType::Float16), DType::Float16, 0, {8, 64}, {64, 1}};
  Step step;
  step.name = "move";
  step.kind = StepKind::Relayout;
  step.views = {view, view};
  Operand operand;
  step.inputs = {operand};
  operand.symbol = 1;
  step.outputs = {operand};
  return step;
}

Step contract_step() {
  Step step;
  step.name = "mm";
  step.kind = StepKind::Contract;
  step.loops = {{8, 1, false}, {1, 1, false}, {2, 1, true}};
  step.lane = {64, 64, 1, false, false};
  step.k_extent = 70;
  step.k_lanes = 64;
  step.b_row_stride = 64;
  Operand a, b, c;
  a.stride = {64, 0, 512};
  b.stride = {0, 0, 4096};
  c.stride = {64, 0, 0};
  c.symbol = 1;
  step.inputs = {a, b};
  step.outputs = {c};
  return step;
}

}  // namespace

// Why nobody saw it: a view's dtype was compared with nothing, and the DMA believed it.
TEST(a_view_of_another_width_than_its_buffer_is_refused) {
  prepare({"p", 2, 0, {move_step()}});
  for (const DType dtype : {DType::Int64, DType::Int32, DType::Float32, DType::Int8, DType::UInt8, DType::Float8E4M3FN})
    for (const size_t side : {0, 1}) {
      Step step = move_step();
      step.views[side].dtype = dtype;
      refuses(step, "elements of another width");
    }
}

TEST(a_view_that_leaves_its_buffer_is_refused) {
  Step step = move_step();
  step.views[0].offset = 1;
  refuses(step, "the source leaves its buffer");
  step = move_step();
  step.views[1].stride[0] = -64;
  refuses(step, "negative or beyond any card");
  step = move_step();
  step.views[1].stride[0] = int64_t{1} << 62;
  refuses(step, "negative or beyond any card");
  step = move_step();
  step.views[0].size = step.views[1].size = {1 << 20, 1 << 20};
  step.views[0].stride = step.views[1].stride = {0, 0};
  refuses(step, "more elements are moved than the target's buffer has");
}

TEST(strides_whose_products_wrap_are_refused) {
  Step step = double_step();
  step.loops[0].extent = 1 << 20;
  step.inputs[0].stride = {int64_t{1} << 45};
  refuses(step, "reach beyond any card");
  step.inputs[0].stride = {-(int64_t{1} << 62)};
  refuses(step, "reach beyond any card");
  step = double_step();
  step.loops = {{1 << 20, 1, false}, {1 << 20, 1, false}, {1 << 20, 1, false}};
  refuses(step, "more points together than a card could ever walk");
  step = double_step();
  step.loops[0] = {1 << 20, 1, false};
  step.inputs[0].stride = step.outputs[0].stride = {0};
  refuses(step, "1048576 points are stored in 64 elements");
}

TEST(a_contraction_reads_no_more_than_its_loops_say) {
  prepare({"p", 2, 0, {contract_step()}});
  Step step = contract_step();
  step.k_extent = 129;
  refuses(step, "a k of 129 does not end in the last of 2 blocks");
  step = contract_step();
  step.k_lanes = 0;
  refuses(step, "lanes along k");
  step = contract_step();
  step.inputs[1].kind = OperandKind::Iota;
  refuses(step, "as Vector");
  step = contract_step();
  step.inputs[1].element = {DType::Float32, DataFormat::IEEE_FP32};
  refuses(step, "convert one of them");
}

TEST(rows_in_order_are_in_memory) {
  Step step;
  step.kind = StepKind::Scan;
  step.loops = {{4, 1, false}, {64, 1, false}};
  step.lane = {32, 1, -1, false, false};
  Operand operand;
  operand.kind = OperandKind::Splat;
  operand.stride = {64, 1};
  step.inputs = {operand};
  operand.symbol = 1;
  step.outputs = {operand};
  prepare({"p", 2, 0, {step}});
  step.inputs[0].kind = OperandKind::Iota;
  refuses(step, "read one by one");
}

TEST(an_index_per_lane_reaches_over_its_whole_table) {
  Step step;
  step.kind = StepKind::Gather;
  step.loops = {{1, 1, false}};
  step.lane = {64, 64, 0, false, false};
  Operand table, index, out;
  table.kind = OperandKind::Splat;
  table.stride = index.stride = out.stride = {0};
  table.tile_stride = int64_t{1} << 20;
  index.element = {DType::Int32, DataFormat::IEEE_INT32};
  index.tile_stride = 32;
  step.inputs = {table, index};
  step.outputs = {out};
  step.code.results = {0};
  step.index_bound = 640;
  const ElementSpan span = operand_span(step, step.inputs[0]);
  CHECK_EQ(span.first, int64_t{0});
  CHECK_EQ(span.last, int64_t{9 << 20} + 63);
}

TEST(a_launch_is_checked_against_program_and_card) {
  with_threads([] {
    Launch launch(card(0));
    Random random(1);
    launch.add(random_bytes(random, kHalf, 512));
    launch.add(random_bytes(random, kHalf, 512));
    const auto program = prepare({"p", 2, 0, {double_step()}});
    CHECK_THROWS_SAYING(InvalidArgument, "was launched with 1 addresses, it has 2",
                        program->run(launch.card, {{launch.addresses.data(), 1}, {}, {}, {}}));
    const std::vector<Address> wrong = {launch.addresses[0], Address{128}};
    CHECK_THROWS_SAYING(InvalidArgument, "is not an address of spyre:0",
                        program->run(launch.card, {wrong, {}, {}, {}}));
    const Address end = launch.card.base_address() + launch.card.total_memory() - 128;
    const std::vector<Address> late = {launch.addresses[0], end};
    CHECK_THROWS_SAYING(InvalidArgument, "is not an address of spyre:0", program->run(launch.card, {late, {}, {}, {}}));
  });
}

TEST(the_span_of_an_operand_is_what_the_definition_touches) {
  with_threads([] {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Random random(seed);
      Launch launch(card(0));
      const Step step = random_nest(random, 64, 6);
      const bool across = pick(random, 0, 1) == 0;  // then padding lanes are not read: nothing may be there
      const Operand operand =
          random_operand(random, step, launch, pick(random, 0, 1) == 0 ? kHalf : kFloat,
                         across ? OperandKind::Strided : OperandKind::Vector, [](size_t) { return true; });
      for (int core = -1; core < core_count(step); ++core) {
        const CoreBox box = core_box(step, std::max(0, core));
        int64_t first = INT64_MAX, last = INT64_MIN;
        each_point(
            step.loops, [](size_t) { return true; }, {},
            [&](const Index& index) {
              for (size_t k = 0; core >= 0 && k < step.loops.size(); ++k)
                if (index[k] < box.begin[k] || index[k] >= box.begin[k] + box.extent[k]) return;
              for (int64_t lane = 0; lane < 64; ++lane) {
                if (across && !valid_lane(step, index, lane)) continue;
                first = std::min(first, place(operand, index, lane));
                last = std::max(last, place(operand, index, lane));
              }
            });
        const ElementSpan span = operand_span(step, operand, core);
        CHECK_EQ(span.first, first);
        CHECK_EQ(span.last, last);
      }
    }
  });
}

TEST(cores_take_slices_with_the_first_loop_fastest) {
  Step step;
  step.loops = {{6, 3, false}, {5, 1, false}, {8, 2, false}};
  CHECK_EQ(core_count(step), 6);
  const CoreBox box = core_box(step, 5);  // 5 = 2 + 3 * 1
  CHECK_EQ(box.begin[0], 4);
  CHECK_EQ(box.extent[0], 2);
  CHECK_EQ(box.begin[1], 0);
  CHECK_EQ(box.extent[1], 5);
  CHECK_EQ(box.begin[2], 4);
  CHECK_EQ(box.extent[2], 4);
}

TEST(steps_run_in_order_and_offsets_move_operands) {
  with_threads([] {
    Launch launch(card(0));
    std::vector<std::byte> zeros(3 * 512 * 2);
    launch.add(zeros);
    launch.add(zeros);
    launch.upload();
    auto* source = reinterpret_cast<uint16_t*>(launch.card.translate(launch.addresses[0]));
    for (int i = 0; i < 512; ++i) source[512 + i] = sen169_from_float(static_cast<float>(i % 64));
    Step again = double_step();
    again.inputs[0].symbol = 1;
    const std::vector<int64_t> offsets = {512, 1024};
    prepare({"p", 2, 0, {double_step(), again}})->run(launch.card, {launch.addresses, offsets, {}, {}});
    const auto* target = reinterpret_cast<const uint16_t*>(launch.card.translate(launch.addresses[1]));
    for (int i = 0; i < 512; ++i) CHECK_EQ(target[1024 + i], sen169_from_float(static_cast<float>(4 * (i % 64))));
    for (int i = 0; i < 1024; ++i) CHECK_EQ(target[i], 0);
  });
}

TEST(a_relayout_moves_elements_between_layouts) {
  with_threads([] {
    const std::vector<int64_t> size = {40, 70}, stride = {70, 1};
    const std::vector<int64_t> by_rows = {0, 1}, by_columns = {1, 0};
    const Layout rows = tiled_layout(size, stride, DataFormat::SEN169_FP16, by_rows);
    const Layout columns = tiled_layout(size, stride, DataFormat::SEN169_FP16, by_columns);
    Step step;
    step.kind = StepKind::Relayout;
    step.inputs.resize(1);
    step.outputs.resize(1);
    step.outputs[0].symbol = 1;
    step.views = {{intern(size, stride, DType::Float16, rows), DType::Float16, 0, size, stride},
                  {intern(size, stride, DType::Float16, columns), DType::Float16, 0, size, stride}};
    Launch launch(card(0));
    for (const Step::View& view : step.views) {
      std::vector<std::byte> bytes(static_cast<size_t>(view.shape->device_bytes()));
      for (int64_t i = 0; i < 40 * 70; ++i) {
        const uint16_t code = static_cast<uint16_t>(&view == &step.views[0] ? i + 1 : 0);
        std::memcpy(bytes.data() + view.shape->device_offset(i) * 2, &code, 2);
      }
      launch.add(bytes);
    }
    launch.upload();
    prepare({"p", 2, 0, {step}})->run(launch.card, {launch.addresses, {}, {}, {}});
    const std::vector<std::byte> result = launch.download(1);
    for (int64_t i = 0; i < 40 * 70; ++i) {
      uint16_t code;
      std::memcpy(&code, result.data() + step.views[1].shape->device_offset(i) * 2, 2);
      CHECK_EQ(code, i + 1);
    }
  });
}

TEST(the_configured_instruction_set_is_a_limit) {
  CHECK_EQ(static_cast<int>(*isa_limit("baseline")), static_cast<int>(Isa::Baseline));
  CHECK(!isa_limit("sse9").has_value());
  const int status = check::run_in_child([] {
    Configuration configuration;
    configuration.isa = "baseline";
    configure(configuration);
    CHECK_EQ(static_cast<int>(active_isa()), static_cast<int>(Isa::Baseline));
    configuration.isa = "sse9";
    CHECK_THROWS_SAYING(InvalidArgument, "isa is \"sse9\"", (configure(configuration), 0));
  });
  CHECK_EQ(status, 0);
}
