// What can be wrong with a step, all of it, in words.
#include <algorithm>
#include <string>

#include "formats/byte_text.h"
#include "program/nest.h"
#include "program/prepared_step.h"
#include "steps/contract.h"
#include "steps/vector_code.h"

namespace openspyre {
namespace {

class StepCheck {
 public:
  StepCheck(const Step& step, int32_t symbols, int32_t scalars) : step_(step), symbols_(symbols), scalars_(scalars) {}

  std::vector<std::string> run() {
    if (step_.kind == StepKind::Relayout) {
      check_relayout(step_, symbols_, problems_);
      return std::move(problems_);
    }
    check_loops();
    check_lanes();
    check_operands();
    if (problems_.empty()) check_kind();
    if (problems_.empty()) check_points();
    return std::move(problems_);
  }

 private:
  void require(bool holds, const std::string& otherwise) {
    if (!holds) problems_.push_back(otherwise);
  }

  static int64_t product(int64_t a, int64_t b, int64_t most) {
    return b > most / a ? most : a * std::max<int64_t>(1, b);
  }

  void check_loops() {
    require(step_.loops.size() <= kMaxLoops,
            std::to_string(step_.loops.size()) + " dims, a step has at most " + std::to_string(kMaxLoops));
    int64_t cores = 1, points = 1;
    for (size_t k = 0; k < step_.loops.size(); ++k) {
      const Loop& loop = step_.loops[k];
      const std::string where = "dim " + std::to_string(k) + " (extent " + std::to_string(loop.extent) + ", split " +
                                std::to_string(loop.split) + ")";
      require(loop.extent >= 1 && loop.extent <= kMaxLoopPasses, where + ": the extent is out of range");
      require(loop.split >= 1 && loop.split <= kCardCores, where + ": a split is 1 to " + std::to_string(kCardCores));
      require(loop.split < 1 || loop.extent % loop.split == 0, where + ": the split does not divide the extent");
      cores = std::min<int64_t>(cores * std::clamp(loop.split, 1, kCardCores + 1), 1 << 20);
      points = product(points, loop.extent, kMaxPoints + 1);
    }
    require(points <= kMaxPoints, "its dims have more points together than a card could ever walk");
    require(cores <= kCardCores,
            "the splits ask for " + std::to_string(cores) + " cores, a card has " + std::to_string(kCardCores));
    check_cores(cores);
  }

  void check_cores(int64_t slices) {
    if (step_.cores.empty()) return;
    require(static_cast<int64_t>(step_.cores.size()) == slices,
            std::to_string(step_.cores.size()) + " cores for " + std::to_string(slices) + " slices");
    uint64_t taken = 0;
    for (const int32_t core : step_.cores) {
      const bool is_core = core >= 0 && core < kCardCores;
      require(is_core, "core " + std::to_string(core) + ", a card has " + std::to_string(kCardCores));
      require(!is_core || (taken >> core & 1) == 0, "core " + std::to_string(core) + " has two slices");
      if (is_core) taken |= uint64_t{1} << core;
    }
  }

  void check_lanes() {
    const LaneBlock& lane = step_.lane;
    require(lane.lanes >= kLaneUnit && lane.lanes <= kChunkLanes && lane.lanes % kLaneUnit == 0,
            std::to_string(lane.lanes) + " lanes, a block has a multiple of 32 up to " + std::to_string(kChunkLanes));
    require(lane.block_loop >= -1 && lane.block_loop < static_cast<int>(step_.loops.size()),
            "block_dim " + std::to_string(lane.block_loop) + " is not a dim");
    if (!problems_.empty()) return;
    const int64_t blocks = lane.block_loop < 0 ? 1 : step_.loops[static_cast<size_t>(lane.block_loop)].extent;
    require(lane.extent <= lane.lanes * blocks && lane.extent > lane.lanes * (blocks - 1),
            "a lane extent of " + std::to_string(lane.extent) + " does not end in the last of " +
                std::to_string(blocks) + " blocks of " + std::to_string(lane.lanes));
  }

  void check_operands() {
    require(step_.inputs.size() <= kMaxOperands && step_.outputs.size() <= kMaxOperands,
            "more than " + std::to_string(kMaxOperands) + " inputs or outputs");
    require(!step_.outputs.empty(), "there is no output");
    for (size_t i = 0; i < step_.inputs.size(); ++i) {
      check_operand(step_.inputs[i], "input " + std::to_string(i),
                    step_.kind == StepKind::Contract && (i == 0 || step_.b_along_k));
      require(step_.kind == StepKind::Contract || can_load(step_.inputs[i]),
              "input " + std::to_string(i) + ": " + element_text(step_.inputs[i]) + " cannot be loaded");
    }
    for (size_t i = 0; i < step_.outputs.size(); ++i) {
      const OperandKind kind = step_.outputs[i].kind;
      check_operand(step_.outputs[i], "output " + std::to_string(i), false);
      require(kind == OperandKind::Vector || kind == OperandKind::Splat,
              "output " + std::to_string(i) + " is not in memory; outputs are Vector or Splat");
    }
  }

  void check_operand(const Operand& operand, const std::string& where, bool along_k) {
    if (operand.kind == OperandKind::Scalar) {
      require(operand.symbol >= 0 && operand.symbol < scalars_,
              where + ": scalar " + std::to_string(operand.symbol) + " of " + std::to_string(scalars_));
      return;
    }
    require(operand.stride.size() == step_.loops.size(), where + " has " + std::to_string(operand.stride.size()) +
                                                             " strides for " + std::to_string(step_.loops.size()) +
                                                             " dims");
    if (problems_.empty())
      require(!reaches_too_far(step_, operand), where + ": its offset and strides reach beyond any card");
    if (operand.kind == OperandKind::Iota) return;
    if (operand.space == Space::Memory)
      require(operand.symbol >= 0 && operand.symbol < symbols_,
              where + ": symbol " + std::to_string(operand.symbol) + " of " + std::to_string(symbols_));
    const int stick = elems_per_stick(operand.element.format);
    const int lanes = along_k ? step_.k_lanes : step_.lane.lanes;
    require(device_itemsize(operand.element.format) > 0, where + ": no tensor is in " + element_text(operand));
    require(operand.kind != OperandKind::Vector || stick == 0 || lanes % stick == 0,
            where + ": blocks of " + std::to_string(lanes) + " lanes are not whole sticks of " + std::to_string(stick) +
                " (" + element_text(operand) + ")");
    if (operand.kind == OperandKind::Strided) check_strided(where);
    if (problems_.empty())
      operand.space == Space::Scratchpad ? check_scratchpad(operand, where) : check_span(operand, where);
  }

  // Beyond the last element there is nothing that could be read for padding.
  void check_strided(const std::string& where) {
    const LaneBlock& lane = step_.lane;
    const bool maps = step_.kind == StepKind::Map;
    require(maps || step_.kind == StepKind::Reduce || step_.kind == StepKind::Rows,
            where + " has its lanes a stride apart; maps, reductions and rows read such operands");
    if (lane.lanes < 1) return;  // which is a problem already
    const bool ends = maps && (!lane.store_padding || lane.extent < lane.lanes);
    require(lane.extent % lane.lanes == 0 || ends,
            where + " has its lanes a stride apart: blocks of " + std::to_string(lane.lanes) +
                " must be whole; only a map has a shorter last one, without storing padding behind it");
  }

  // Every core has its slice at the same place, so the first stands for all.
  void check_scratchpad(const Operand& operand, const std::string& where) {
    const ElementSpan span = operand_span(step_, operand, 0);
    const int64_t itemsize = device_itemsize(operand.element.format);
    const auto limit = static_cast<int64_t>(configuration().scratchpad_bytes);
    require(span.first >= 0 && (span.last + 1) * itemsize <= limit,
            where + " lies in bytes " + std::to_string(span.first * itemsize) + " to " +
                std::to_string((span.last + 1) * itemsize) + " of the scratchpad, which has " + std::to_string(limit) +
                " per core; use smaller slices or more cores");
    require(operand.owner >= -1 && operand.owner < kCardCores, where + " lies in the scratchpad of core " +
                                                                   std::to_string(operand.owner) + ", a card has " +
                                                                   std::to_string(kCardCores));
    require(operand.owner < 0 || core_count(step_) == 1,
            where + " lies in the scratchpad of one core: the step must have one core too");
    for (size_t k = 0; k < step_.loops.size(); ++k)
      require(!step_.loops[k].reduced || step_.loops[k].split == 1,
              where + " lies in the scratchpad, but dim " + std::to_string(k) +
                  " splits the reduction over cores: they would have to see each other's");
  }

  // All cores reach equally far. What an index chooses is reached a row at a time: a table may be of any size.
  void check_span(const Operand& operand, const std::string& where) {
    const ElementSpan span = operand_span(step_, operand, 0);
    const auto bytes = static_cast<uint64_t>((span.last - span.first + 1) * device_itemsize(operand.element.format));
    const uint64_t limit = configuration().core_span_bytes;
    require(is_table(step_, operand) || bytes <= limit,
            where + ": each core reaches over " + byte_text(bytes) + " of it, a core's span in one tensor is at most " +
                byte_text(limit) +
                "; divide the step over more cores or the tensor into parts, or have a card that reaches further "
                "(OPENSPYRE_CORE_SPAN_MIB)");
  }

  static std::string element_text(const Operand& operand) {
    return std::string(openspyre::name(operand.element.dtype)) + " in " + openspyre::name(operand.element.format);
  }

  void check_kind() {
    switch (step_.kind) {
      case StepKind::Map:
        return check_map();
      case StepKind::Reduce:
        return check_reduce();
      case StepKind::Rows:
        return check_rows();
      case StepKind::Gather:
        return check_gather();
      case StepKind::Scatter:
        return check_scatter();
      case StepKind::Contract:
        return check_contract();
      case StepKind::Scan:
        return check_runs(1, Combine::Sum, Combine::Prod);
      case StepKind::Sort:
        return check_runs(2, Combine::Max, Combine::Min);
      case StepKind::Relayout:
        return;
    }
    require(false, "unknown kind of step " + std::to_string(static_cast<int>(step_.kind)));
  }

  std::vector<CodeInput> input_registers() const {
    std::vector<CodeInput> inputs;
    for (const Operand& operand : step_.inputs) inputs.push_back({register_type(operand), false});
    return inputs;
  }

  void check_results(const std::vector<RegisterType>& types) {
    require(types.size() == step_.outputs.size(),
            std::to_string(types.size()) + " results for " + std::to_string(step_.outputs.size()) + " outputs");
    for (size_t i = 0; i < std::min(types.size(), step_.outputs.size()); ++i)
      require(can_store(step_.outputs[i], types[i]), "output " + std::to_string(i) + ": " + openspyre::name(types[i]) +
                                                         " has no way into " + element_text(step_.outputs[i]) +
                                                         "; convert it in the code first");
  }

  void forbid_reduced() {
    require(!step_.lane.reduced &&
                std::none_of(step_.loops.begin(), step_.loops.end(), [](const Loop& loop) { return loop.reduced; }),
            "only reductions and rows have reduced dims or lanes");
  }

  void check_map() {
    forbid_reduced();
    check_results(check_code(step_.code, input_registers(), "code", problems_));
  }

  // Lanes and the loop that counts their blocks are reduced together.
  void check_reduced_lanes() {
    const int block_loop = step_.lane.block_loop;
    require(block_loop < 0 || step_.loops[static_cast<size_t>(block_loop)].reduced == step_.lane.reduced,
            "the lanes and the dim over their blocks must both be reduced, or neither");
  }

  void check_reduce() {
    check_reduced_lanes();
    for (size_t i = 0; i < step_.outputs.size(); ++i)
      for (size_t k = 0; k < step_.loops.size(); ++k)
        require(!step_.loops[k].reduced || step_.outputs[i].stride[k] == 0,
                "output " + std::to_string(i) + " moves with the reduced dim " + std::to_string(k));
    const auto types = check_code(step_.code, input_registers(), "code", problems_);
    require(types.size() == 1, "the code of a reduction has one result, found " + std::to_string(types.size()));
    if (!problems_.empty()) return;
    check_results(check_code(step_.finish, reduce_finish_registers(step_, types[0]), "finish", problems_));
  }

  void check_rows() {
    check_reduced_lanes();
    check_row_stages(step_, problems_);
    check_row_length();
    bool outermost = true;  // its slices are runs of the row
    for (size_t k = 0; k < step_.loops.size(); ++k) {
      require(!step_.loops[k].reduced || outermost || step_.loops[k].split == 1,
              "dim " + std::to_string(k) + " runs along the rows, of which only the outermost dim can be split");
      if (step_.loops[k].reduced && step_.loops[k].extent > 1) outermost = false;
    }
  }

  // Rows are kept whole, in 32-bit lanes. No row is longer than what a core reaches, however often it reads it.
  void check_row_length() {
    const auto most = static_cast<int64_t>(configuration().core_span_bytes);
    int64_t length = step_.lane.lanes;
    for (const Loop& loop : step_.loops)
      if (loop.reduced) length = product(length, loop.extent, most + 1);
    require(length <= most, "a row has more elements than a core reaches bytes, " + std::to_string(most));
  }

  // A step stores every element once, or it would never end. An index may choose a place again.
  void check_points() {
    if (step_.kind == StepKind::Scatter || step_.kind == StepKind::Scan || step_.kind == StepKind::Sort) return;
    int64_t points = 1;
    for (const Loop& loop : step_.loops)
      if (!loop.reduced) points *= loop.extent;
    for (size_t i = 0; i < step_.outputs.size(); ++i) {
      const ElementSpan span = operand_span(step_, step_.outputs[i]);
      require(points <= span.last - span.first + 1, "output " + std::to_string(i) + ": " + std::to_string(points) +
                                                        " points are stored in " +
                                                        std::to_string(span.last - span.first + 1) + " elements");
    }
  }

  void check_index(size_t values) {
    forbid_reduced();
    require(step_.inputs.size() == 2 && step_.outputs.size() == 1,
            "needs two inputs (" + std::string(values == 0 ? "table" : "values") + " and index) and one output");
    if (!problems_.empty()) return;
    const Operand& index = step_.inputs[1];
    require(index.kind != OperandKind::Scalar && register_type(index) == RegisterType::Int,
            "the index must be an integer operand");
    require(step_.index_bound >= 1, "index_bound is " + std::to_string(step_.index_bound) + ", at least 1 is needed");
    const OperandKind kind = step_.inputs[0].kind;
    require(kind == OperandKind::Vector || kind == OperandKind::Splat, "its values must be in memory");
    const CodeInput value{register_type(step_.inputs[0]), false};
    check_results(check_code(step_.code, {&value, 1}, "code", problems_));
  }

  void check_gather() {
    check_index(0);
    require(!step_.accumulate, "a gather cannot accumulate");
    if (problems_.empty()) check_index_per_lane(step_.inputs[0], "read");
  }

  void check_index_per_lane(const Operand& table, const std::string& used) {
    if (step_.inputs[1].kind != OperandKind::Vector) return;
    require(table.kind == OperandKind::Splat, "an index per lane needs a table " + used + " as Splat");
    require(!step_.lane.store_padding, "padding lanes have no index: an index per lane cannot store them");
  }

  // Cores must not meet in a target: what chooses the row stays on one core.
  void check_scatter() {
    check_index(1);
    if (!problems_.empty()) return;
    for (size_t k = 0; k < step_.loops.size(); ++k)
      require(step_.loops[k].split == 1 || step_.outputs[0].stride[k] != 0,
              "dim " + std::to_string(k) + " chooses the scattered row and cannot be split over cores");
    check_index_per_lane(step_.outputs[0], "written");
    require(!step_.accumulate || can_load(step_.outputs[0]),
            "output 0: " + element_text(step_.outputs[0]) + " cannot be loaded, so nothing can be added to it");
  }

  // Rows go from front to back: neighbours in a row are neighbours in memory.
  void check_runs(size_t outputs, Combine one, Combine other) {
    require(step_.inputs.size() == 1 && step_.outputs.size() == outputs && step_.loops.size() == outputs + 1,
            "needs one input, " + std::to_string(outputs) + " output(s) and " + std::to_string(outputs + 1) + " dims");
    require(step_.combine == one || step_.combine == other, "this combination of elements is none of its own");
    if (!problems_.empty()) return;
    const size_t last = step_.loops.size() - 1;
    require(step_.inputs[0].kind == OperandKind::Splat, "the elements of an input row are read one by one, as Splat");
    require(step_.loops[1].extent <= INT32_MAX, "a row has more elements than an int32 can count");
    require(can_store(step_.outputs[0], register_type(step_.inputs[0])),
            "output 0: " + element_text(step_.outputs[0]) + " cannot be stored");
    require(step_.inputs[0].stride[1] == 1, "the elements of an input row must lie one behind the other");
    for (const Operand& output : step_.outputs)
      require(output.stride[last] == 1 && output.kind == OperandKind::Splat,
              "the elements of an output row must lie one behind the other");
    require(step_.outputs[0].element == step_.inputs[0].element, "values keep their format");
    require(step_.loops[last].split == 1 && step_.loops[1].split == 1, "a row cannot be split over cores");
    if (outputs == 1) return;
    require(step_.loops[2].extent <= step_.loops[1].extent, "more elements are kept than a row has");
    require(step_.outputs[1].element == DeviceElement{DType::Int32, DataFormat::IEEE_INT32} ||
                step_.outputs[1].element == DeviceElement{DType::Int64, DataFormat::IEEE_INT32},
            "places are int32");
  }

  void check_contract() {
    if (const std::string problem = contract::problem_of(step_); !problem.empty()) problems_.push_back(problem);
    check_operand_code(step_.a_code, "the code of A");
    check_operand_code(step_.b_code, "the code of B");
  }

  void check_operand_code(const VectorCode& code, const std::string& where) {
    if (code.results.empty() && code.instructions.empty()) return;
    const CodeInput element{RegisterType::Float, false};
    const auto types = check_code(code, {&element, 1}, where, problems_);
    require(types.size() == 1 && types[0] != RegisterType::Int, where + " has one result, a number to be multiplied");
  }

  const Step& step_;
  const int32_t symbols_, scalars_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_step(const Step& step, int32_t symbols, int32_t scalars) {
  return StepCheck(step, symbols, scalars).run();
}

}  // namespace openspyre
