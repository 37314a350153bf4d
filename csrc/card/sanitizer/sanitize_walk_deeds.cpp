// The walk's part in the look at deeds: what was declared, and how a report names what was not done.
#include <algorithm>

#include "memory/scratchpad.h"
#include "sanitizer/sanitize_walk.h"

namespace openspyre::sanitize {

std::vector<StoredRange> StepWalk::stored() const {
  std::vector<StoredRange> ranges;
  ranges.reserve(log_.stored.size());
  for (const AccessLog::Entry& entry : log_.stored)
    ranges.push_back({const_cast<std::byte*>(entry.begin), const_cast<std::byte*>(entry.end), entry.core, entry.operand,
                      outputs_[static_cast<size_t>(entry.operand - kMaxOperands)].itemsize()});
  return ranges;
}

void StepWalk::add_read(const Operand& operand, std::vector<Shadow::Extent>& read) const {
  const int64_t itemsize = device_itemsize(operand.element.format);
  for (int core = 0; core < (operand.space == Space::Scratchpad ? core_count(step_) : 1); ++core) {
    const std::byte* base = locate(card_, step_, operand, launch_, core);
    if (base == nullptr) return;
    const ElementSpan span = operand_span(step_, operand, operand.space == Space::Scratchpad ? core : -1);
    const std::byte* first = base + (span.first - operand.offset) * itemsize;
    read.push_back({first, first + (span.last - span.first + 1) * itemsize});
  }
}

std::vector<Shadow::Extent> StepWalk::read() const {
  std::vector<Shadow::Extent> read;
  for (const Operand& operand : step_.inputs) add_read(operand, read);
  if (step_.accumulate) add_read(step_.outputs[0], read);
  return read;
}

std::vector<Shadow::Extent> StepWalk::blocks() const {
  std::vector<Shadow::Extent> blocks;
  for (const auto* accesses : {&inputs_, &outputs_})
    for (const OperandAccess& access : *accesses)
      if (access.usable() && access.operand().space == Space::Memory) blocks.push_back(access.block());
  return blocks;
}

OperandAccess& StepWalk::aimed(int number, int core, Findings& findings) {
  const bool is_input = number < kMaxOperands;
  const auto at = static_cast<size_t>(is_input ? number : number - kMaxOperands);
  OperandAccess& access = is_input ? inputs_[at] : outputs_[at];
  const Operand& operand = access.operand();
  access.aim(core, locate(card_, step_, operand, launch_, core), locate_tensor(card_, step_, operand, launch_, core),
             findings, log_);
  return access;
}

void StepWalk::report_unwritten(const Deeds::Unwritten& unwritten, Findings& findings) {
  const StoredRange& range = unwritten.range;
  aimed(range.operand, range.core, findings)
      .report(FindingKind::Unwritten, unwritten.first,
              "the step says it stores this element, and did not" +
                  (unwritten.elements > 1 ? " (" + std::to_string(unwritten.elements) + " of " +
                                                std::to_string((range.end - range.begin) / range.itemsize) + " here)"
                                          : std::string()));
}

void StepWalk::report_undeclared(const std::byte* place, Findings& findings) {
  const auto owns = [&](const OperandAccess& access) {
    return access.usable() && access.operand().space == Space::Memory && access.block().holds(place, 1);
  };
  for (const auto* accesses : {&outputs_, &inputs_}) {
    const auto owner = std::find_if(accesses->begin(), accesses->end(), owns);
    if (owner == accesses->end()) continue;
    const int first = accesses == &outputs_ ? kMaxOperands : 0;
    return aimed(first + static_cast<int>(owner - accesses->begin()), 0, findings)
        .report(FindingKind::UndeclaredWrite, place, "the step changed this element, and does not say it stores it");
  }
}

void StepWalk::store_beyond() const {
  if (!log_.stored.empty()) *const_cast<std::byte*>(log_.stored.back().end) ^= std::byte{0xFF};
}

}  // namespace openspyre::sanitize
