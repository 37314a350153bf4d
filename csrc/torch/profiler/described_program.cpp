#include "profiler/described_program.h"

#include <cctype>
#include <charconv>

namespace torch_spyre {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

template <typename Number>
Number number(std::string_view text) {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<BusyResource> busy(std::string_view text) {
  std::vector<BusyResource> found;
  if (text.empty()) return found;
  for (const std::string_view part : split(text, ';')) {
    const size_t at = part.rfind('=');
    if (at != std::string_view::npos)
      found.push_back({std::string(part.substr(0, at)), number<double>(part.substr(at + 1))});
  }
  return found;
}

// Whether a text has a name that is no part of a longer one.
bool names(std::string_view text, std::string_view name) {
  const auto goes_on = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' || text[at] == '.');
  };
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1))
    if (!(at > 0 && goes_on(at - 1)) && !goes_on(at + name.size())) return true;
  return false;
}

}  // namespace

DescribedProgram read_description(std::string_view text) {
  DescribedProgram program;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> field = split(line, '\t');
    if (field[0] == "launch" && field.size() == 2) {
      program.launch_us = number<double>(field[1]);
    } else if (field[0] == "kernel" && field.size() == 3) {
      program.kernel = field[1], program.key = field[2];
    } else if (field[0] == "bundle" && field.size() == 2) {
      program.bundle = field[1];
    } else if (field[0] == "step" && field.size() == 2) {
      program.steps.emplace_back(field[1]);
    } else if (field[0] == "op" && field.size() == 22) {
      DescribedOp op;
      op.step = number<size_t>(field[1]);
      op.name = field[2], op.op = field[3], op.dims = field[4];
      op.cores = number<int>(field[5]), op.runs = number<int64_t>(field[6]);
      op.read = number<int64_t>(field[7]), op.written = number<int64_t>(field[8]);
      op.scratchpad = number<int64_t>(field[9]), op.ring = number<int64_t>(field[10]);
      op.host_link = number<int64_t>(field[11]), op.macs = number<int64_t>(field[12]);
      op.elements = number<int64_t>(field[13]);
      op.bound = field[14], op.us = number<double>(field[15]);
      op.ideal_us = number<double>(field[16]), op.busy = busy(field[17]);
      op.operator_name = field[18], op.source = field[19], op.module = field[20], op.handles = field[21];
      program.ops.push_back(std::move(op));
    }
  }
  return program;
}

std::string origin_in_error(std::string_view description, std::string_view error) {
  const DescribedProgram program = read_description(description);
  for (size_t step = 0; step < program.steps.size(); ++step) {
    if (!names(error, program.steps[step])) continue;
    std::string told;
    for (const DescribedOp& op : program.ops) {
      if (op.step != step || (op.operator_name + op.source + op.module).empty()) continue;
      std::string one = "\n  " + op.name + " comes from " + (op.operator_name.empty() ? op.op : op.operator_name);
      if (!op.source.empty()) one += " at " + op.source;
      if (!op.module.empty()) one += " in " + op.module;
      told += one;
    }
    return told;
  }
  return "";
}

}  // namespace torch_spyre
