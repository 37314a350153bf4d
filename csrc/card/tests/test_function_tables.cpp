// Tables of functions of one SEN169 number against the code that they stand for: every code, every NaN, every
// instruction set.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "check.h"
#include "formats/formats.h"
#include "steps/vector_code.h"

using namespace openspyre;

namespace {

constexpr int64_t kMany = 1 << 20;

Lane bits(float value) { return std::bit_cast<Lane>(value); }

bool same(Lane a, Lane b) {
  return a == b || (std::isnan(std::bit_cast<float>(a)) && std::isnan(std::bit_cast<float>(b)));
}

// What loading gives of every code, then infinities and NaNs with other bits: quiet ones, as arithmetic makes them.
std::vector<Lane> all_numbers() {
  std::vector<Lane> found;
  for (uint32_t code = 0; code < 0x10000; ++code) found.push_back(bits(sen169_to_float(static_cast<uint16_t>(code))));
  for (const Lane nan : {0x7FC00001u, 0xFFC12345u, 0x7FC00000u, 0xFFC00000u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    found.push_back(nan);
  for (const Lane infinity : {0x7F800000u, 0xFF800000u}) found.push_back(infinity);
  while (found.size() % kChunkLanes != 0) found.push_back(0);
  return found;
}

// All results of the code on lanes of its inputs.
std::vector<std::vector<Lane>> run(const CompiledCode& code, const std::vector<std::vector<Lane>>& inputs) {
  const Slots& slots = RegisterFile::mine().slots();
  std::vector<std::vector<Lane>> found(code.results.size());
  for (size_t done = 0; done < inputs[0].size(); done += kChunkLanes) {
    set_constants(code, slots);
    for (size_t i = 0; i < inputs.size(); ++i) std::copy_n(inputs[i].data() + done, kChunkLanes, slots[code.inputs[i]]);
    execute(code, slots, kChunkLanes);
    for (size_t i = 0; i < found.size(); ++i)
      found[i].insert(found[i].end(), slots[code.results[i]], slots[code.results[i]] + kChunkLanes);
  }
  return found;
}

// With tables and without: the same bits, and as many look-ups as are expected.
void compare(const VectorCode& code, const std::vector<CodeInput>& inputs, size_t tables,
             const std::vector<Lane>& others = {}) {
  std::vector<std::vector<Lane>> lanes{all_numbers()};
  std::copy(others.begin(), others.end(), lanes[0].begin() + 777);
  while (lanes.size() < inputs.size()) {
    lanes.push_back(lanes[0]);
    std::rotate(lanes.back().begin(), lanes.back().begin() + 12345 * static_cast<int64_t>(lanes.size()),
                lanes.back().end());
  }
  for (int isa = 0; isa < kIsaCount; ++isa) {
    if (!available(static_cast<Isa>(isa))) continue;
    const VectorKernels& kernels = vector_kernels(static_cast<Isa>(isa));
    const CompiledCode plain = compile(code, inputs, kernels), tabled = compile(code, inputs, kernels, kMany);
    CHECK_EQ(plain.tables.size(), size_t{0});
    CHECK_EQ(tabled.tables.size(), tables);
    const auto expected = run(plain, lanes), found = run(tabled, lanes);
    for (size_t i = 0; i < expected.size(); ++i)
      for (size_t lane = 0; lane < expected[i].size(); ++lane) CHECK(same(found[i][lane], expected[i][lane]));
  }
}

constexpr CodeInput kNumber{RegisterType::Float, false, true}, kFloat{RegisterType::Float, false, false};

// x * 0.5 * erfc(x * -sqrt(0.5)) of register `from` into register 7; 4 and 5 are constants.
std::vector<Instruction> gelu(uint8_t from) {
  return {{Op::Mul, 6, from, 4, 0}, {Op::Mul, 7, from, 5, 0}, {Op::Erfc, 7, 7, 0, 0}, {Op::Mul, 7, 6, 7, 0}};
}
const std::vector<Constant> kGelu = {{4, bits(0.5f)}, {5, bits(-0.70710678f)}};

VectorCode code_of(std::vector<Instruction> instructions, std::vector<uint8_t> results) {
  VectorCode code;
  code.instructions = std::move(instructions);
  code.constants = kGelu;
  code.results = std::move(results);
  return code;
}

}  // namespace

TEST(every_costly_function_of_one_number_is_its_table) {
  for (int op = 0; op < kOpCount; ++op) {
    const Op each = static_cast<Op>(op);
    if (each > Op::RoundSen169 || arity(each) != 1) continue;
    const bool costly = each == Op::Exp2 || each == Op::Expm1 || (each >= Op::Log && each <= Op::Erfc);
    compare(code_of({{each, 7, 0, 0, 0}}, {7}), {kNumber}, costly ? 1 : 0);
  }
  compare(code_of(gelu(0), {7}), {kNumber}, 1);
}

TEST(numbers_that_were_rounded_are_looked_up_and_others_are_not) {
  std::vector<Instruction> rounded = gelu(2);
  rounded.insert(rounded.begin(), {{Op::Add, 2, 0, 1, 0}, {Op::RoundSen169, 2, 2, 0, 0}});
  compare(code_of(rounded, {7}), {kFloat, kFloat}, 1);
  std::vector<Instruction> alone = gelu(2);
  alone.insert(alone.begin(), {Op::RoundSen169, 2, 0, 0, 0});
  compare(code_of(alone, {7}), {kFloat}, 1, {0x7F800001u, 0xFF800001u, 0x7FABCDEFu, 0xFF803FFFu});
  std::vector<Instruction> exact = gelu(2);
  exact.insert(exact.begin(), {Op::Add, 2, 0, 1, 0});
  compare(code_of(exact, {7}), {kNumber, kNumber}, 0);
  compare(code_of(gelu(0), {7}), {kFloat}, 0);
}

TEST(what_is_read_elsewhere_as_well_is_still_there) {
  std::vector<Instruction> several = gelu(0);
  several.push_back({Op::Mul, 3, 7, 1, 0});          // with another input
  several.push_back({Op::Add, 2, 6, 3, 0});          // with what is inside of the table
  several.push_back({Op::RoundSen169, 3, 7, 0, 0});  // a table, too, of the same number
  several.push_back({Op::Tanh, 6, 3, 0, 0});         // through the rounding
  compare(code_of(several, {2, 7, 3, 6}), {kNumber, kNumber}, 3);
}

TEST(selections_and_comparisons_belong_to_a_function) {
  compare(code_of({{Op::LeF, 2, 0, 4, 0}, {Op::Expm1, 3, 0, 0, 0}, {Op::Select, 7, 2, 3, 0}}, {7}), {kNumber}, 1);
  compare(code_of({{Op::IsNan, 2, 0, 0, 0}, {Op::Log1p, 3, 0, 0, 0}, {Op::Select, 7, 2, 4, 3}}, {7}), {kNumber}, 1);
  compare(code_of({{Op::Pow, 7, 0, 5, 0}}, {7}), {kNumber}, 1);
  compare(code_of({{Op::Pow, 7, 0, 1, 0}}, {7}), {kNumber, kNumber}, 0);
}

TEST(a_table_is_shared_and_ends_with_the_last_code_that_needs_it) {
  const CodeInput inputs[] = {kNumber};
  const VectorKernels& kernels = vector_kernels(Isa::Baseline);
  std::weak_ptr<const FunctionTable> table;
  {
    const CompiledCode one = compile(code_of(gelu(0), {7}), inputs, kernels, kMany);
    const CompiledCode other = compile(code_of(gelu(0), {7}), inputs, kernels, kMany);
    CHECK(one.tables.at(0) == other.tables.at(0));
    table = one.tables[0];
    VectorCode scaled = code_of(gelu(0), {7});
    scaled.constants[0].bits = bits(0.25f);
    CHECK(compile(scaled, inputs, kernels, kMany).tables.at(0) != one.tables[0]);
  }
  CHECK(table.expired());
}
