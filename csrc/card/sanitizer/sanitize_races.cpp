#include "sanitizer/sanitize_races.h"

#include <algorithm>

namespace openspyre::sanitize {
namespace {

using Entry = AccessLog::Entry;

// An operand's memory is the same for all cores, but for scratchpads, where cores cannot meet.
bool shared(const OperandAccess& access) { return access.usable() && access.operand().space == Space::Memory; }

void add_reaches(const Step& step, const std::vector<OperandAccess>& operands, bool only_stores,
                 std::vector<Entry>& reaches) {
  const int cores = core_count(step);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!shared(operands[i])) continue;
    const Operand& operand = operands[i].operand();
    for (int core = 0; core < cores; ++core) {
      if (only_stores && !stores(step, core)) continue;
      const ElementSpan span = operand_span(step, operand, core);
      const std::byte* begin = operands[i].base() + (span.first - operand.offset) * operands[i].itemsize();
      reaches.push_back({begin, begin + (span.last - span.first + 1) * operands[i].itemsize(), core, 0});
    }
  }
}

// Whether any of `some` meets one of `others`, which are sorted, of another core.
bool meet(const std::vector<Entry>& some, const std::vector<Entry>& others) {
  for (const Entry& one : some)
    for (const Entry& other : others) {
      if (other.begin >= one.end) break;
      if (other.core != one.core && other.end > one.begin) return true;
    }
  return false;
}

void sort_by_place(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
}

std::string cores_text(const char* what, int one, int other) {
  return std::string("core ") + std::to_string(one) + what + "core " + std::to_string(other) +
         " writes in the same step; the result depends on which comes first";
}

}  // namespace

bool stores(const Step& step, int core) {
  for (const Loop& loop : step.loops) {
    if (loop.reduced && core % loop.split != 0) return false;
    core /= loop.split;
  }
  return true;
}

void choose_log(const Step& step, std::vector<OperandAccess>& inputs, std::vector<OperandAccess>& outputs,
                AccessLog& log) {
  if (core_count(step) == 1) return;
  std::vector<Entry> writes, reads;
  add_reaches(step, outputs, true, writes);
  add_reaches(step, inputs, false, reads);
  sort_by_place(writes);
  log.reads_wanted = meet(reads, writes);
  log.writes_wanted = log.reads_wanted || meet(writes, writes);
}

void report_races(AccessLog& log, const std::vector<OperandAccess>& inputs, const std::vector<OperandAccess>& outputs) {
  sort_by_place(log.writes);
  Entry furthest{};
  for (const Entry& write : log.writes) {
    if (furthest.end > write.begin && furthest.core != write.core)
      outputs[static_cast<size_t>(write.operand - kMaxOperands)].report(
          FindingKind::WriteRace, write.begin, cores_text(" writes what ", write.core, furthest.core), write.core);
    if (write.end > furthest.end) furthest = write;
  }
  int64_t longest = 0;
  for (const Entry& write : log.writes) longest = std::max<int64_t>(longest, write.end - write.begin);
  for (const Entry& read : log.reads) {
    auto write = std::lower_bound(log.writes.begin(), log.writes.end(), read.begin - longest,
                                  [](const Entry& entry, const std::byte* place) { return entry.begin < place; });
    for (; write != log.writes.end() && write->begin < read.end; ++write)
      if (write->core != read.core && write->end > read.begin)
        inputs[static_cast<size_t>(read.operand)].report(FindingKind::ReadRace, std::max(read.begin, write->begin),
                                                         cores_text(" reads what ", read.core, write->core), read.core);
  }
}

}  // namespace openspyre::sanitize
