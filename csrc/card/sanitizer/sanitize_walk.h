// The walks behind sanitize_step.h, one per kind of step. A value that is worthless may be computed with; it is
// reported where it becomes an element of a result or chooses an address.
#pragma once

#include <vector>

#include "memory/launch_memory.h"
#include "sanitizer/sanitize_code.h"
#include "sanitizer/sanitize_deeds.h"
#include "sanitizer/sanitize_races.h"

namespace openspyre::sanitize {

class StepWalk {
 public:
  StepWalk(Card& card, const Program& program, const Step& step, const LaunchArguments& launch, Findings& findings);

  void aim(int core);
  void choose_log() { sanitize::choose_log(step_, inputs_, outputs_, log_); }
  void report_races() { sanitize::report_races(log_, inputs_, outputs_); }

  void map(int core);
  void reduce(int core);
  void rows(int core);
  void contract(int core);
  void gather(int core);
  void scatter(int core);
  void ordered(int core);  // Scan and Sort

  // What the walked cores store and read, and the blocks all of that lies in.
  std::vector<StoredRange> stored() const;
  std::vector<Shadow::Extent> read() const;
  std::vector<Shadow::Extent> blocks() const;
  void report_unwritten(const Deeds::Unwritten& unwritten, Findings& findings);
  void report_undeclared(const std::byte* place, Findings& findings);
  void store_beyond() const;  // a misdeed: behind what the last output stores

 private:
  // Calls body(offsets, valid lanes) for the points of a core's loops; all of them, or those not reduced.
  template <typename Body>
  void each_point(int core, bool with_reduced, Body&& body) const;

  void read_inputs(const StreamOffsets& at, int valid);
  // The result's taint, with what reaches a valid lane reported.
  void follow(size_t result, const StreamOffsets& at, int valid);
  void report_wrap(size_t result, const StreamOffsets& at, int valid) const;
  void blame(const StreamOffsets& at, int lane, ByteState cause) const;
  int stored_lanes(size_t output, int valid) const;
  void write(size_t output, const StreamOffsets& at, int valid, bool whole_block);
  void require_clean_inputs(const StreamOffsets& at, int valid);
  bool load_index(const StreamOffsets& at, int valid);  // false: the step itself will refuse it
  int64_t chosen_by(int lane, const OperandAccess& table) const;
  void gather_lanes(const StreamOffsets& at, int valid);
  void scatter_into(const StreamOffsets& at, int valid);
  bool is_row_scalar(size_t output) const;
  void add_read(const Operand& operand, std::vector<Shadow::Extent>& read) const;
  OperandAccess& aimed(int number, int core, Findings& findings);

  Card& card_;
  const Step& step_;
  const LaunchArguments& launch_;
  Findings& findings_;
  AccessLog log_;
  std::vector<OperandAccess> inputs_, outputs_;
  std::vector<const std::byte*> bases_;
  std::vector<LaneTaint> taints_;
  FollowedCode code_;
  LaneTaint result_;
  Port index_port_;
  std::array<Lane, kChunkLanes> index_{};
  std::vector<StreamOffsets> strides_;
  const size_t block_stream_;
  int64_t last_block_ = 0;
};

}  // namespace openspyre::sanitize
