#include "sanitizer/sanitize_access.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace openspyre::sanitize {
namespace {

constexpr auto kClean = static_cast<uint8_t>(ByteState::Initialised);

bool all_clean(const ByteState* states, int64_t bytes) {
  constexpr uint64_t kCleanWord = 0x0101010101010101ull * kClean;
  uint64_t differs = 0;
  for (; bytes >= 8; bytes -= 8, states += 8) {
    uint64_t word;
    std::memcpy(&word, states, 8);
    differs |= word ^ kCleanWord;
  }
  for (; bytes > 0; --bytes, ++states) differs |= static_cast<uint8_t>(*states) ^ kClean;
  return differs == 0;
}

}  // namespace

void LaneTaint::clear(int lanes) {
  std::fill_n(lane.begin(), lanes, uint8_t{0});
  any = false;
}

void LaneTaint::join(const LaneTaint& other, int lanes) {
  if (!other.any) return;
  for (size_t l = 0; l < static_cast<size_t>(lanes); ++l) lane[l] = std::max(lane[l], other.lane[l]);
  any = true;
}

int LaneTaint::first(int valid) const {
  if (!any) return -1;
  const auto found = std::find_if(lane.begin(), lane.begin() + valid, [](uint8_t cause) { return cause != 0; });
  return found == lane.begin() + valid ? -1 : static_cast<int>(found - lane.begin());
}

void AccessLog::note(std::vector<Entry>& entries, const Entry& entry) {
  if (!entries.empty()) {
    Entry& last = entries.back();
    if (last.core == entry.core && last.operand == entry.operand && entry.begin >= last.begin &&
        entry.begin <= last.end) {
      last.end = std::max(last.end, entry.end);
      return;
    }
  }
  entries.push_back(entry);
}

OperandAccess::OperandAccess(const Step& step, const Operand& operand, int number, std::string label, int lanes)
    : operand_(operand),
      number_(number),
      label_(std::move(label)),
      lanes_(lanes > 0 ? lanes : step.lane.lanes),
      itemsize_(std::max(1, device_itemsize(operand.element.format))),
      stick_lanes_(std::max(1, std::min(lanes_, elems_per_stick(operand.element.format)))),
      tile_stride_(operand.tile_stride * itemsize_) {}

void OperandAccess::aim(int core, std::byte* base, const std::byte* tensor, Findings& findings, AccessLog& log) {
  core_ = core;
  base_ = base;
  tensor_ = tensor;
  findings_ = &findings;
  log_ = &log;
  if (!base) return;
  shadow_ = Shadow::of(tensor);
  const auto block = shadow_ ? shadow_->block_at(tensor) : std::nullopt;
  if (block) {
    allowed_ = *block;
  } else if (shadow_) {
    report(number_ < kMaxOperands ? FindingKind::FreedRead : FindingKind::FreedWrite, tensor,
           "its memory is not allocated (it was freed, or never handed out); keep the tensor until its last use");
    shadow_ = nullptr;
  }
}

const std::byte* OperandAccess::memory_of(int64_t offset, int lane) const {
  if (operand_.kind == OperandKind::Splat) return base_ + offset;
  if (operand_.kind == OperandKind::Strided) return base_ + offset + lane * tile_stride_;
  return base_ + offset + lane / stick_lanes_ * tile_stride_ + lane % stick_lanes_ * itemsize_;
}

void OperandAccess::report(FindingKind kind, const std::byte* memory, const std::string& what, int core) const {
  findings_->add(kind, number_, [&] {
    char place[96];
    std::snprintf(
        place, sizeof place,
        ", element %lld (%s 0x%llx, core %d): ", static_cast<long long>((memory - tensor_) / itemsize_),
        operand_.space == Space::Scratchpad ? "scratchpad address" : "device address",
        static_cast<unsigned long long>(operand_.space == Space::Scratchpad ? static_cast<uint64_t>(memory - tensor_)
                                                                            : shadow_->handle(memory)),
        core < 0 ? core_ : core);
    return label_ + place + what;
  });
}

// Sticks begin at multiples of their size, on the card and in scratchpads.
bool OperandAccess::in_written_stick(const std::byte* memory) const {
  const std::byte* stick = memory - (memory - tensor_) % kStickBytes;
  const ByteState* states = shadow_->at(stick);
  return std::any_of(states, states + kStickBytes, [](ByteState state) { return state > ByteState::Uninitialised; });
}

void OperandAccess::report_taint(const std::byte* memory, ByteState cause) const {
  if (whole_sticks_ && in_written_stick(memory)) return;
  if (operand_.space == Space::Scratchpad)
    return report(FindingKind::ScratchpadRead, memory,
                  "this core has not written it; what other cores keep in theirs it cannot see");
  if (cause == ByteState::Tainted)
    return report(FindingKind::TaintedElement, memory,
                  "padding, or a value computed from padding, becomes an element of the result");
  report(FindingKind::UninitialisedRead, memory,
         "nobody has written it since it was allocated, and it becomes an element of the result");
}

// False if something among the lanes is worthless. Only the first `needed` lanes are accesses of the program.
bool OperandAccess::look_up(const std::byte* memory, int64_t lanes, int64_t needed, uint8_t* taint) const {
  if (!inside(memory, lanes * itemsize_)) {
    std::fill_n(taint, lanes, static_cast<uint8_t>(ByteState::Uninitialised));
    if (needed > 0 && !inside(memory, needed * itemsize_)) {
      report(FindingKind::OutOfBounds, memory,
             "the step reads here, outside of the tensor's block of " + std::to_string(allowed_.end - allowed_.begin) +
                 " bytes");
      std::fill_n(taint, lanes, uint8_t{0});
    }
    return false;
  }
  if (needed > 0 && log_->reads_wanted) log_->note(log_->reads, {memory, memory + needed * itemsize_, core_, number_});
  const ByteState* states = shadow_->at(memory);
  if (all_clean(states, lanes * itemsize_)) {
    std::fill_n(taint, lanes, uint8_t{0});
    return true;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const ByteState state = states[lane * itemsize_];
    taint[lane] = state == ByteState::Initialised ? 0 : static_cast<uint8_t>(state);
    if (is_allocated(state)) continue;
    taint[lane] = 0;
    if (lane < needed) report(FindingKind::FreedRead, memory + lane * itemsize_, "it was freed before the step ran");
  }
  return false;
}

void OperandAccess::read(int64_t offset, int valid, LaneTaint& taint) const {
  taint.any = false;
  if (!usable()) return;
  if (operand_.kind == OperandKind::Splat) {
    uint8_t cause = 0;
    if (look_up(base_ + offset, 1, 1, &cause) || cause == 0) return taint.clear(lanes_);
    std::fill_n(taint.lane.begin(), lanes_, cause);
    taint.any = true;
    return;
  }
  if (operand_.kind == OperandKind::Strided) {
    std::fill_n(taint.lane.begin() + valid, lanes_ - valid, static_cast<uint8_t>(ByteState::Uninitialised));
    taint.any = valid < lanes_;
    for (int lane = 0; lane < valid; ++lane)
      if (!look_up(memory_of(offset, lane), 1, 1, taint.lane.data() + lane)) taint.any = true;
    return;
  }
  for (int first = 0; first < lanes_; first += stick_lanes_) {
    const int needed = std::clamp(valid - first, 0, stick_lanes_);
    if (!look_up(memory_of(offset, first), stick_lanes_, needed, taint.lane.data() + first)) taint.any = true;
  }
}

bool OperandAccess::may_write(const std::byte* memory, int64_t bytes) const {
  if (!inside(memory, bytes)) {
    report(FindingKind::OutOfBounds, memory,
           "the step writes here, outside of the tensor's block of " + std::to_string(allowed_.end - allowed_.begin) +
               " bytes");
    return false;
  }
  if (log_->writes_wanted) log_->note(log_->writes, {memory, memory + bytes, core_, number_});
  log_->note(log_->stored, {memory, memory + bytes, core_, number_});
  const ByteState* states = shadow_->at(memory);
  if (is_allocated(states[0]) && is_allocated(states[bytes - 1])) return true;
  report(FindingKind::FreedWrite, memory, "it was freed before the step ran");
  return false;
}

void OperandAccess::write(int64_t offset, int valid, int stored, const LaneTaint& taint) const {
  if (!usable()) return;
  const bool splat = operand_.kind == OperandKind::Splat;
  if (splat) stored = valid = std::min(1, valid);
  for (int first = 0; first < stored; first += stick_lanes_) {
    const int count = std::min(stick_lanes_, stored - first), elements = std::clamp(valid - first, 0, count);
    const std::byte* memory = memory_of(offset, first);
    if (!may_write(memory, int64_t{count} * itemsize_)) continue;
    shadow_->set(memory, static_cast<uint64_t>(elements * itemsize_), ByteState::Initialised);
    shadow_->set(memory + elements * itemsize_, static_cast<uint64_t>((count - elements) * itemsize_),
                 ByteState::Tainted);
    for (int lane = 0; taint.any && lane < elements; ++lane)
      if (taint.lane[static_cast<size_t>(first + lane)] != 0)
        shadow_->set(memory + lane * itemsize_, static_cast<uint64_t>(itemsize_),
                     static_cast<ByteState>(taint.lane[static_cast<size_t>(first + lane)]));
  }
}

int64_t OperandAccess::read_run(int64_t offset, int64_t count) const {
  std::array<uint8_t, kChunkLanes> taint;
  for (int64_t done = 0; usable() && done < count; done += kChunkLanes) {
    const int64_t n = std::min(kChunkLanes, count - done);
    if (look_up(base_ + offset + done * itemsize_, n, n, taint.data())) continue;
    const auto* found = std::find_if(taint.data(), taint.data() + n, [](uint8_t cause) { return cause != 0; });
    if (found != taint.data() + n) return done + (found - taint.data());
  }
  return -1;
}

void OperandAccess::require_run(int64_t offset, int64_t count) const {
  const int64_t bad = read_run(offset, count);
  if (bad < 0) return;
  const std::byte* memory = base_ + offset + bad * itemsize_;
  if (inside(memory, itemsize_)) report_taint(memory, *shadow_->at(memory));
}

void OperandAccess::write_run(int64_t offset, int64_t count) const {
  if (!usable() || count == 0 || !may_write(base_ + offset, count * itemsize_)) return;
  shadow_->set(base_ + offset, static_cast<uint64_t>(count * itemsize_), ByteState::Initialised);
}

}  // namespace openspyre::sanitize
