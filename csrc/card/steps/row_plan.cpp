#include <algorithm>
#include <array>

#include "program/prepared_step.h"
#include "program/step_inputs.h"
#include "steps/row_phrases.h"
#include "steps/rows.h"

namespace openspyre {
namespace {

struct RowTypes {
  std::array<RegisterType, kMaxRowRegisters> rows{};
  std::array<RegisterType, kMaxRowScalars> scalars{};
  std::array<bool, kMaxRowRegisters> row_known{};
  std::array<bool, kMaxRowScalars> scalar_known{};

  explicit RowTypes(const Step& step) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      rows[i] = register_type(step.inputs[i]);
      row_known[i] = true;
    }
  }
  bool known(uint8_t name) const {
    if (name >= kRowScalar) return name - kRowScalar < kMaxRowScalars && scalar_known[name - kRowScalar];
    return name < kMaxRowRegisters && row_known[name];
  }
  RegisterType type(uint8_t name) const { return name >= kRowScalar ? scalars[name - kRowScalar] : rows[name]; }
  void set(const RowStage& stage, RegisterType type) {
    if (stage.kind == RowStage::Kind::Map) {
      rows[stage.target] = type;
      row_known[stage.target] = true;
    } else {
      scalars[stage.target] = type;
      scalar_known[stage.target] = true;
    }
  }
};

// What a stage's code gets. All of it is kept: row registers are read again by other stages.
std::vector<CodeInput> stage_inputs(const RowStage& stage, const RowTypes& types) {
  std::vector<CodeInput> inputs;
  for (const uint8_t row : stage.rows) inputs.push_back({types.type(row), true});
  if (stage.kind == RowStage::Kind::Reduce) inputs[0].type = folded_type(stage.combine, inputs[0].type);
  return inputs;
}

uint8_t target_name(const RowStage& stage) {
  return static_cast<uint8_t>(stage.kind == RowStage::Kind::Map ? stage.target : kRowScalar + stage.target);
}

// One value for all rows, set before the first: a finish may read it like a row scalar.
bool is_launch_scalar(const Step& step, uint8_t row) {
  return row < step.inputs.size() && step.inputs[row].kind == OperandKind::Scalar;
}

// Whether an instruction makes the result: a row that is another's, or a constant's, is copied in so many words.
bool is_written(const VectorCode& code) {
  return std::all_of(code.results.begin(), code.results.end(), [&](uint8_t result) {
    return std::any_of(code.instructions.begin(), code.instructions.end(),
                       [&](const Instruction& instruction) { return instruction.target == result; });
  });
}

bool check_stage(const Step& step, const RowStage& stage, const RowTypes& types, const std::string& where,
                 std::vector<std::string>& problems) {
  const size_t inputs = step.inputs.size();
  const size_t before = problems.size();
  const auto require = [&](bool holds, const std::string& otherwise) {
    if (!holds) problems.push_back(where + ": " + otherwise);
  };
  const bool maps = stage.kind == RowStage::Kind::Map;
  require(maps || stage.kind == RowStage::Kind::Reduce, "is neither Map nor Reduce");
  require(stage.target < (maps ? kMaxRowRegisters : kMaxRowScalars),
          "the target " + std::to_string(stage.target) + " is beyond the last row register or scalar");
  require(!maps || stage.target >= inputs, "writes row register " + std::to_string(stage.target) + ", an input");
  require(maps || (!stage.rows.empty() && stage.rows[0] < kRowScalar), "folds no row register");
  require(maps || (!is_arg(stage.combine) && !is_truth(stage.combine)), "rows are folded by Sum, Prod, Max or Min");
  require(!maps || is_written(stage.code), "no instruction writes its row; copy what it shall be");
  require(stage.rows.size() <= kMaxRegisters, "reads more than " + std::to_string(kMaxRegisters) + " registers");
  for (size_t i = 0; i < stage.rows.size(); ++i) {
    require(types.known(stage.rows[i]), "reads " + std::to_string(stage.rows[i]) + ", which nothing has set");
    require(maps || i == 0 || stage.rows[i] >= kRowScalar || is_launch_scalar(step, stage.rows[i]),
            "a finish reads row scalars and the launch's scalars only");
  }
  return problems.size() == before;
}

}  // namespace

void check_row_stages(const Step& step, std::vector<std::string>& problems) {
  RowTypes types(step);
  size_t constants = 0;
  if (step.stages.empty()) problems.push_back("there are no stages");
  for (size_t i = 0; i < step.stages.size(); ++i) {
    const RowStage& stage = step.stages[i];
    const std::string where = "stage " + std::to_string(i);
    if (!check_stage(step, stage, types, where, problems)) return;
    const auto results = check_code(stage.code, stage_inputs(stage, types), where, problems);
    if (results.size() != 1) {
      problems.push_back(where + " has " + std::to_string(results.size()) + " results, one is needed");
      return;
    }
    types.set(stage, results[0]);
    constants += stage.code.constants.size();
  }
  if (constants > kMaxStageConstants)
    problems.push_back("the stages have more than " + std::to_string(kMaxStageConstants) + " constants");
  const std::vector<uint8_t>& results = step.row_results;
  if (results.size() != step.outputs.size())
    problems.push_back(std::to_string(results.size()) + " row results for " + std::to_string(step.outputs.size()) +
                       " outputs");
  for (size_t i = 0; i < std::min(results.size(), step.outputs.size()); ++i) {
    const bool written = std::any_of(step.stages.begin(), step.stages.end(),
                                     [&](const RowStage& stage) { return target_name(stage) == results[i]; });
    if (std::find(results.begin(), results.begin() + static_cast<int64_t>(i), results[i]) !=
        results.begin() + static_cast<int64_t>(i))
      problems.push_back("output " + std::to_string(i) + " repeats the row result of another");
    if (!written)
      problems.push_back("output " + std::to_string(i) + " is not the target of a stage");
    else if (!can_store(step.outputs[i], types.type(results[i])))
      problems.push_back("output " + std::to_string(i) + ": its format cannot hold the row result");
  }
}

namespace {

class Planner {
 public:
  Planner(const Step& step, const VectorKernels& kernels) : step_(step), kernels_(kernels), types_(step) {
    plan_.results = step.row_results;
    plan_.stored_row.assign(kMaxRowRegisters, -1);
    plan_.passes.emplace_back();
    row_bytes_ = step.lane.lanes * static_cast<int64_t>(sizeof(Lane));
    for (const Loop& loop : step.loops)
      if (loop.reduced) row_bytes_ *= loop.extent;
  }

  RowPlan run() {
    for (const RowStage& stage : step_.stages) add(stage);
    for (const uint8_t result : plan_.results) plan_.types.push_back(types_.type(result));
    find_stored_rows();
    for (RowPass& pass : plan_.passes) {
      pass.whole = pass_phrases(step_, plan_, pass, kernels_);
      for (const uint8_t row : pass.whole.fractions) plan_.fractions[row] = true;
      for (const uint8_t scalar : pass.whole.reciprocals) plan_.reciprocals[scalar] = true;
    }
    return std::move(plan_);
  }

 private:
  void add(const RowStage& stage) {
    // A finish runs behind those of the stages before it, so that a fold waits for no scalar.
    const bool waits = stage.kind == RowStage::Kind::Map &&
                       std::any_of(stage.rows.begin(), stage.rows.end(), [&](uint8_t row) { return is_pending(row); });
    if (waits) plan_.passes.emplace_back();
    RowPass& pass = plan_.passes.back();
    CompiledStage compiled;
    compiled.kind = stage.kind;
    compiled.rows = stage.rows;
    compiled.target = stage.target;
    compiled.number = static_cast<size_t>(&stage - step_.stages.data());
    compiled.code = compile(stage.code, stage_inputs(stage, types_), kernels_);
    compiled.first_constant = plan_.constants.size();
    for (const Constant& constant : compiled.code.constants) plan_.constants.push_back(constant.bits);
    if (stage.kind == RowStage::Kind::Reduce)
      compiled.folding = Folding(stage.combine, types_.type(stage.rows[0]), step_.lane, kernels_);
    compiled.binds_target = may_bind(compiled);
    for (const uint8_t row : stage.rows)
      if (row < step_.inputs.size()) load(row);
    types_.set(stage, compiled.code.types[0]);
    compiled.output = output_of(stage);
    compiled.only_stored =
        std::none_of(&stage + 1, step_.stages.data() + step_.stages.size(), [&](const RowStage& later) {
          return std::find(later.rows.begin(), later.rows.end(), target_name(stage)) != later.rows.end();
        });
    pass.stages.push_back(std::move(compiled));
  }

  // An input that an earlier pass has loaded stays in row memory, if there is room for it.
  void load(uint8_t input) {
    const auto loads = [&](const RowPass& pass) {
      return std::find(pass.loads.begin(), pass.loads.end(), input) != pass.loads.end();
    };
    if (loads(plan_.passes.back()) || plan_.stored_row[input] >= 0) return;
    const bool again = std::any_of(plan_.passes.begin(), plan_.passes.end(), loads);
    const bool moves = step_.inputs[input].kind == OperandKind::Vector;
    if (again && moves && (plan_.stored_rows + 2) * row_bytes_ <= kRowMemoryBytes / kMostRows)
      plan_.stored_row[input] = plan_.stored_rows++;
    else
      plan_.passes.back().loads.push_back(input);
  }

  bool is_pending(uint8_t row) const {
    if (row < kRowScalar) return false;
    const auto& stages = plan_.passes.back().stages;
    return std::any_of(stages.begin(), stages.end(), [&](const CompiledStage& stage) {
      return stage.kind == RowStage::Kind::Reduce && stage.target == row - kRowScalar;
    });
  }

  static bool may_bind(const CompiledStage& stage) {
    const uint8_t slot = stage.code.results[0];
    const std::vector<uint8_t>& inputs = stage.code.inputs;
    const bool computed = std::find(inputs.begin(), inputs.end(), slot) == inputs.end() &&
                          std::none_of(stage.code.constants.begin(), stage.code.constants.end(),
                                       [&](const Constant& constant) { return constant.target == slot; });
    return computed && std::find(stage.rows.begin(), stage.rows.end(), stage.target) == stage.rows.end();
  }

  // The last stage that writes a result stores it.
  int output_of(const RowStage& stage) const {
    const bool again = std::any_of(&stage + 1, step_.stages.data() + step_.stages.size(),
                                   [&](const RowStage& later) { return target_name(later) == target_name(stage); });
    const auto found = std::find(plan_.results.begin(), plan_.results.end(), target_name(stage));
    return again || found == plan_.results.end() ? -1 : static_cast<int>(found - plan_.results.begin());
  }

  // A computed row register that a later pass reads must be kept in full.
  void find_stored_rows() {
    std::array<size_t, kMaxRowRegisters> written_in{};
    for (size_t p = 0; p < plan_.passes.size(); ++p) {
      for (const CompiledStage& stage : plan_.passes[p].stages) {
        for (const uint8_t row : stage.rows) {
          if (row >= kRowScalar || row < step_.inputs.size()) continue;
          if (written_in[row] != p && plan_.stored_row[row] < 0) plan_.stored_row[row] = plan_.stored_rows++;
        }
        if (stage.kind == RowStage::Kind::Map) written_in[stage.target] = p;
      }
    }
  }

  const Step& step_;
  const VectorKernels& kernels_;
  RowTypes types_;
  RowPlan plan_;
  int64_t row_bytes_ = 0;
};

}  // namespace

RowPlan plan_rows(const Step& step, const VectorKernels& kernels) { return Planner(step, kernels).run(); }

}  // namespace openspyre
