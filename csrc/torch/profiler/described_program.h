// What the compiler says of a program's steps: which ops of the bundle each does, and what a real card would take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torch_spyre {

// A resource of the card that an op keeps busy.
struct BusyResource {
  std::string resource;
  double us = 0;
};

// One execution of the bundle, for all its runs in loops. Times are the clock's.
struct DescribedOp {
  size_t step = 0;  // of the card's program, that does it
  std::string name, op, dims, bound, operator_name, source, module, handles;
  int cores = 1;
  int64_t runs = 1, read = 0, written = 0, scratchpad = 0, ring = 0, host_link = 0, macs = 0, elements = 0;
  double us = 0;
  double ideal_us = 0;  // of the arrays at their peak
  std::vector<BusyResource> busy;
};

struct DescribedProgram {
  std::string kernel, key;  // as openspyre/artifact/kernel_key.py names it
  std::string bundle;       // of a graph: as reports and torch's provenance files call it
  double launch_us = 0;
  std::vector<std::string> steps;  // names
  std::vector<DescribedOp> ops;    // in order
};

// The text is torch_spyre/ops/described_steps.py's: a line each, fields separated by tabs. Lines that are none are left
// out.
DescribedProgram read_description(std::string_view text);

// Where the step came from that an error speaks of, in words; empty if none is named.
std::string origin_in_error(std::string_view description, std::string_view error);

}  // namespace torch_spyre
