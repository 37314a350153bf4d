// Programs for Python: the frozen model of openspyre/program/model.py becomes the card's own, and can be run.
#include "programs.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "program/program.h"
#include "program/program_table.h"
#include "python_site.h"
#include "sanitizer/sanitize_deeds.h"

namespace py = pybind11;
using namespace openspyre;

namespace {

template <typename Enum>
Enum by_name(const py::handle& value) {
  const auto text = py::cast<std::string>(py::str(value));
  if (const std::optional<Enum> found = named<Enum>(text)) return *found;
  fail(Fault::InvalidArgument, "'" + text.substr(0, 80) + "' is not one of this program model's words");
}

template <typename Value>
Value field(const py::handle& object, const char* name) {
  try {
    return py::cast<Value>(object.attr(name));
  } catch (const py::cast_error&) {  // a number beyond its C++ type, or no number at all
    fail(Fault::InvalidArgument, std::string("the program's field '") + name + "' cannot be " +
                                     py::cast<std::string>(py::repr(object.attr(name))).substr(0, 80));
  }
}

DType dtype_named(const std::string& text) {
  if (const auto found = named<DType>(text)) return *found;
  fail(Fault::UnsupportedFormat, "no dtype '" + text + "' on the card");
}

DataFormat format_named(const std::string& text) {
  if (const auto found = named<DataFormat>(text)) return *found;
  fail(Fault::UnsupportedFormat, "no data format '" + text + "'");
}

const std::unordered_map<std::string_view, Op>& opcodes() {
  static const auto* table = [] {
    auto* made = new std::unordered_map<std::string_view, Op>;
    for (int i = 0; i < kOpCount; ++i) (*made)[name(static_cast<Op>(i))] = static_cast<Op>(i);
    return made;
  }();
  return *table;
}

VectorCode code_of(const py::handle& model) {
  VectorCode code;
  auto target = static_cast<uint8_t>(py::len(model.attr("inputs")));
  for (const uint32_t bits : field<std::vector<uint32_t>>(model, "constants"))
    code.constants.push_back({target++, bits});
  for (const py::handle item : model.attr("instructions")) {
    const auto opcode = field<std::string>(item, "opcode");
    const auto found = opcodes().find(opcode);
    if (found == opcodes().end()) fail(Fault::InvalidArgument, "the vector unit has no primitive '" + opcode + "'");
    const auto sources = field<std::vector<uint8_t>>(item, "sources");
    Instruction instruction{found->second, field<uint8_t>(item, "target")};
    uint8_t* places[] = {&instruction.a, &instruction.b, &instruction.c, &instruction.d, &instruction.e};
    for (size_t i = 0; i < std::min(sources.size(), std::size(places)); ++i) *places[i] = sources[i];
    code.instructions.push_back(instruction);
  }
  code.results = field<std::vector<uint8_t>>(model, "results");
  for (const py::handle lane : model.attr("result_lanes"))
    code.types.push_back(kRegisterOfLane[static_cast<size_t>(by_name<LaneType>(lane))]);
  return code;
}

Operand operand_of(const py::handle& model) {
  Operand operand;
  operand.kind = by_name<OperandKind>(model.attr("kind"));
  operand.space = by_name<Space>(model.attr("space"));
  operand.owner = field<int32_t>(model, "owner");
  operand.symbol = field<int32_t>(model, "symbol");
  operand.offset = field<int64_t>(model, "offset");
  operand.stride = field<std::vector<int64_t>>(model, "strides");
  operand.tile_stride = field<int64_t>(model, "tile_stride");
  operand.advance = field<std::vector<int64_t>>(model, "advance");
  operand.element = {dtype_named(field<std::string>(model, "dtype")),
                     format_named(field<std::string>(model, "data_format"))};
  return operand;
}

Step::View view_of(const py::handle& model) {
  const py::object layout = model.attr("layout");
  const Layout tiled{field<std::vector<int64_t>>(layout, "device_size"),
                     field<std::vector<int64_t>>(layout, "stride_map"),
                     static_cast<DataFormat>(field<int>(layout, "device_dtype")),
                     static_cast<ElementArrangement>(field<int>(layout, "element_arrangement"))};
  const DType dtype = dtype_named(field<std::string>(model, "dtype"));
  Step::View view;
  view.shape =
      intern(field<std::vector<int64_t>>(model, "buffer_size"), field<std::vector<int64_t>>(model, "buffer_stride"),
             dtype_named(field<std::string>(model, "buffer_dtype")), tiled);
  view.dtype = dtype;
  view.offset = field<int64_t>(model, "offset");
  view.size = field<std::vector<int64_t>>(model, "size");
  view.stride = field<std::vector<int64_t>>(model, "stride");
  return view;
}

void read_lane(const py::handle& model, LaneBlock& lane) {
  lane.lanes = field<int32_t>(model, "lanes");
  lane.extent = field<int64_t>(model, "extent");
  lane.block_loop = field<int32_t>(model, "block_dim");
  lane.reduced = field<bool>(model, "reduced");
  lane.store_padding = field<bool>(model, "store_padding");
}

RowStage stage_of(const py::handle& model) {
  const py::object combine = model.attr("combine");
  RowStage stage;
  stage.kind = combine.is_none() ? RowStage::Kind::Map : RowStage::Kind::Reduce;
  stage.rows = field<std::vector<uint8_t>>(model, "rows");
  stage.code = code_of(model.attr("code"));
  stage.target = field<uint8_t>(model, "target");
  if (!combine.is_none()) stage.combine = by_name<Combine>(combine);
  return stage;
}

VectorCode optional_code(const py::handle& model) { return model.is_none() ? VectorCode{} : code_of(model); }

void read_index(const py::handle& model, Step& step) {
  step.code = code_of(model.attr("code"));
  step.index_stride = field<int64_t>(model, "index_stride");
  step.index_bound = field<int64_t>(model, "index_bound");
}

// What a step of its kind has of its own.
void read_own(const py::handle& model, Step& step) {
  switch (step.kind) {
    case StepKind::Map:
      step.code = code_of(model.attr("code"));
      break;
    case StepKind::Reduce:
      step.code = code_of(model.attr("code"));
      step.combine = by_name<Combine>(model.attr("combine"));
      step.finish = code_of(model.attr("finish"));
      break;
    case StepKind::Rows:
      for (const py::handle stage : model.attr("stages")) step.stages.push_back(stage_of(stage));
      step.row_results = field<std::vector<uint8_t>>(model, "results");
      break;
    case StepKind::Contract:
      step.k_extent = field<int64_t>(model, "k_extent");
      step.k_lanes = field<int32_t>(model, "k_lanes");
      step.b_row_stride = field<int64_t>(model, "b_row_stride");
      step.b_along_k = field<bool>(model, "b_along_k");
      step.a_code = optional_code(model.attr("a_code"));
      step.b_code = optional_code(model.attr("b_code"));
      break;
    case StepKind::Relayout:
      step.views = {view_of(model.attr("source")), view_of(model.attr("target"))};
      break;
    case StepKind::Gather:
      read_index(model, step);
      break;
    case StepKind::Scatter:
      read_index(model, step);
      step.accumulate = field<bool>(model, "accumulate");
      break;
    case StepKind::Scan:
    case StepKind::Sort:
      step.combine = by_name<Combine>(model.attr("combine"));
      break;
  }
}

Step step_of(const py::handle& model) {
  Step step;
  step.name = field<std::string>(model, "name");
  step.kind = by_name<StepKind>(py::type::of(model).attr("__name__"));
  for (const py::handle operand : model.attr("inputs")) step.inputs.push_back(operand_of(operand));
  for (const py::handle operand : model.attr("outputs")) step.outputs.push_back(operand_of(operand));
  if (step.kind != StepKind::Relayout) {
    for (const py::handle dim : model.attr("dims"))
      step.loops.push_back({field<int64_t>(dim, "extent"), field<int32_t>(dim, "split"), field<bool>(dim, "reduced")});
    read_lane(model.attr("lane"), step.lane);
    step.cores = field<std::vector<int32_t>>(model, "cores");
  }
  read_own(model, step);
  return step;
}

void read_nodes(const py::handle& body, Program& program, size_t depth) {
  for (const py::handle node : body) {
    if (!py::hasattr(node, "body")) {
      program.steps.push_back(step_of(node));
      continue;
    }
    if (depth == kMaxDepth)
      fail(Fault::InvalidArgument, "more than " + std::to_string(kMaxDepth) + " repeats in each other");
    const size_t number = program.repeats.size();
    program.repeats.push_back({program.steps.size(), 0, field<int64_t>(node, "count")});
    read_nodes(node.attr("body"), program, depth + 1);
    program.repeats[number].end = program.steps.size();
  }
}

LaunchWork work_from(const std::vector<uint64_t>& words) {
  if (words.size() != kLaunchWorkWords) fail(Fault::InvalidArgument, "the work of a launch has other counts");
  std::array<uint64_t, kLaunchWorkWords> given;
  std::copy(words.begin(), words.end(), given.begin());
  return std::bit_cast<LaunchWork>(given);
}

uint64_t load(const py::object& model, const std::optional<std::vector<uint64_t>>& work) {
  Program program;
  if (work) program.work = work_from(*work);
  program.name = field<std::string>(model, "name");
  if (const auto pool = field<int64_t>(model, "pool_bytes"); pool < 0)
    fail(Fault::InvalidArgument,
         "program '" + program.name + "' asks for a pool of " + std::to_string(pool) + " bytes");
  program.symbols =
      static_cast<int32_t>(py::len(model.attr("symbols"))) + (field<int64_t>(model, "pool_bytes") > 0 ? 1 : 0);
  program.whole_sticks = field<bool>(model, "whole_sticks");
  program.symbol_names = field<std::vector<std::string>>(model, "symbols");
  program.scalars = static_cast<int32_t>(py::len(model.attr("scalars")));
  read_nodes(model.attr("body"), program, 0);
  return publish(prepare(std::move(program)));
}

// Offsets, where none are given, are 0; the program's name stands in errors where the launch has none of its own.
void run(uint64_t id, int card_index, int64_t stream_id, const std::vector<Address>& addresses,
         const std::vector<uint32_t>& scalars, std::vector<int64_t> offsets, std::vector<int64_t> host_offsets,
         const std::string& launched_as) {
  const auto prepared = published(id);
  Card& target = card(card_index);
  Stream& stream = target.stream(stream_id);
  offsets.resize(addresses.size());
  host_offsets.resize(addresses.size());
  {
    const py::gil_scoped_release unlocked;
    // The caller may leave before it is done.
    auto work = [prepared, &target, addresses, scalars, offsets, host_offsets] {
      prepared->run(target, {addresses, offsets, host_offsets, scalars});
    };
    const std::string& name = launched_as.empty() ? prepared->program().name : launched_as;
    stream.wait(stream.submit(name.c_str(), std::move(work), prepared->lengthy(), &prepared->program().work));
  }
  warn_of_notices();
}

}  // namespace

void bind_programs(py::module_& m) {
  m.def("load_program", &load, py::arg("program"), py::arg("work") = py::none());
  m.def("unload_program", [](uint64_t id) { withdraw(id); });
  m.def("run_program", &run, py::arg("number"), py::arg("card"), py::arg("stream"), py::arg("addresses"),
        py::arg("scalars"), py::arg("offsets") = std::vector<int64_t>{},
        py::arg("host_offsets") = std::vector<int64_t>{}, py::arg("launched_as") = "");
  m.def(
      "misbehave_once",
      [](const std::string& how) { sanitize::misbehave_once(by_name<sanitize::Misdeed>(py::str(how))); },
      "For tests of the sanitizer: the next step or copy on a sanitized card does not do what it says.");
}
