// One operand of a step under the eyes of the sanitizer: its blocks of lanes are looked up in the shadow when they
// are read and marked there when they are written.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "program/nest.h"
#include "sanitizer/sanitize_findings.h"
#include "sanitizer/shadow.h"

namespace openspyre::sanitize {

// Per lane of a block: 0, or the ByteState that makes its value worthless.
struct LaneTaint {
  std::array<uint8_t, kChunkLanes> lane{};
  bool any = false;

  void clear(int lanes);
  void join(const LaneTaint& other, int lanes);
  int first(int valid) const;  // lane that is tainted, or -1
};

// Bytes that cores touch in one step, to be compared when all of them have been seen.
class AccessLog {
 public:
  struct Entry {
    const std::byte *begin, *end;
    int core, operand;
  };
  void note(std::vector<Entry>& entries, const Entry& entry);
  bool writes_wanted = false, reads_wanted = false;
  std::vector<Entry> writes, reads;
  std::vector<Entry> stored;  // always: what the step must be seen to do
};

class OperandAccess {
 public:
  OperandAccess(const Step& step, const Operand& operand, int number, std::string label, int lanes);

  // From here on for `core`: `base` where the operand has all indices 0, `tensor` where its symbol's buffer begins.
  void aim(int core, std::byte* base, const std::byte* tensor, Findings& findings, AccessLog& log);

  bool in_memory() const { return base_ != nullptr; }
  bool usable() const { return shadow_ != nullptr; }  // in memory that is allocated
  const std::byte* base() const { return base_; }
  const Operand& operand() const { return operand_; }
  int itemsize() const { return itemsize_; }
  const Shadow::Extent& block() const { return allowed_; }  // if usable

  // A block of lanes `offset` bytes from the base; lanes from `valid` on are padding.
  void read(int64_t offset, int valid, LaneTaint& taint) const;
  // Stores the first `stored` lanes, of which `valid` are elements.
  void write(int64_t offset, int valid, int stored, const LaneTaint& taint) const;
  // `count` elements one behind the other. read_run tells the first worthless one, or -1.
  int64_t read_run(int64_t offset, int64_t count) const;
  void require_run(int64_t offset, int64_t count) const;
  void write_run(int64_t offset, int64_t count) const;

  const std::byte* memory_of(int64_t offset, int lane) const;
  void report_taint(const std::byte* memory, ByteState cause) const;
  void walk_whole_sticks() { whole_sticks_ = true; }
  void report(FindingKind kind, const std::byte* memory, const std::string& what, int core = -1) const;

 private:
  bool in_written_stick(const std::byte* memory) const;
  bool inside(const std::byte* memory, int64_t bytes) const { return allowed_.holds(memory, bytes); }
  bool look_up(const std::byte* memory, int64_t lanes, int64_t needed, uint8_t* taint) const;
  bool may_write(const std::byte* memory, int64_t bytes) const;

  const Operand& operand_;
  const int number_;  // inputs from 0, outputs from kMaxOperands
  const std::string label_;
  const int lanes_, itemsize_, stick_lanes_;
  const int64_t tile_stride_;
  int core_ = 0;
  std::byte* base_ = nullptr;
  bool whole_sticks_ = false;
  const std::byte* tensor_ = nullptr;
  Shadow* shadow_ = nullptr;
  Shadow::Extent allowed_;
  Findings* findings_ = nullptr;
  AccessLog* log_ = nullptr;
};

}  // namespace openspyre::sanitize
