// Deeds, not declarations: what a step says it stores is poisoned before it runs and looked at afterwards, and what
// lies around it must be as it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/names.h"
#include "sanitizer/shadow.h"

namespace openspyre::sanitize {

// A step or copy that does not do what it says, for tests of the sanitizer: the next one on a sanitized card.
enum class Misdeed : uint8_t { None, Skip, StoreBeyond };
}  // namespace openspyre::sanitize

template <>
struct openspyre::Names<openspyre::sanitize::Misdeed> {
  static constexpr const char* of[] = {"none", "skip", "store_beyond"};
};

namespace openspyre::sanitize {
void misbehave_once(Misdeed misdeed);
Misdeed take_misdeed();

// Bytes that a step stores, element by element.
struct StoredRange {
  std::byte *begin, *end;
  int core, operand, itemsize;
};

// Somebody is writing to a card's memory. Others may, next to a step: then what lies around it says nothing.
class AtWork {
 public:
  AtWork();
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  static uint64_t begun();
  static int now();
};

class Deeds {
 public:
  // A byte that is read cannot be poisoned: of in-place steps only what lies around is looked at.
  // `blocks` are those the step has to do with, in any order, perhaps repeated.
  Deeds(std::vector<StoredRange> stored, std::span<const Shadow::Extent> read, std::vector<Shadow::Extent> blocks);

  struct Unwritten {
    StoredRange range;
    const std::byte* first;
    int64_t elements;
  };
  // What still holds the poison. A result may look like it: `again` runs the step once more, on another one, and an
  // element must have held both.
  template <typename Again>
  std::vector<Unwritten> unwritten(Again&& again) {
    const std::vector<Unwritten> suspects = holding(kFirst);
    if (suspects.empty()) return {};
    const std::vector<std::byte> then = contents(suspects);
    restore_in_place();
    poison(kSecond);
    again();
    return confirmed(suspects, then);
  }

  // The first byte that changed though the step did not say so, or nullptr.
  const std::byte* changed_beyond() const;

 private:
  static constexpr int kFirst = 0x5A, kSecond = 0xA5;
  static constexpr int64_t kWholeBlock = 64 << 10;  // larger blocks are looked at near what is stored
  static constexpr int64_t kNear = 256;

  void merge();
  void guard(const Shadow::Extent& block);
  void keep(const std::byte* begin, const std::byte* end);
  void poison(int pattern) const;
  std::vector<Unwritten> holding(int pattern) const;
  static std::vector<std::byte> contents(std::span<const Unwritten> suspects);
  static std::vector<Unwritten> confirmed(std::span<const Unwritten> suspects, std::span<const std::byte> then);
  void restore_in_place() const;

  struct Kept {
    std::byte* begin;
    int64_t bytes;
    size_t copy;  // where it is kept
  };
  std::vector<StoredRange> stored_;  // sorted, merged
  std::vector<StoredRange> poisoned_;
  std::vector<Kept> in_place_, around_;
  std::vector<std::byte> copies_;
  uint64_t begun_;
  bool alone_;
};

}  // namespace openspyre::sanitize
