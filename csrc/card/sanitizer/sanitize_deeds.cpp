#include "sanitizer/sanitize_deeds.h"

#include <algorithm>
#include <cstring>

namespace openspyre::sanitize {
namespace {

std::atomic<uint64_t> work_begun{0};
std::atomic<int> at_work{0};
std::atomic<Misdeed> misdeed_to_come{Misdeed::None};

template <typename Code>
int64_t count_equal(const std::byte* begin, int64_t elements, int pattern, const std::byte*& first) {
  Code wanted;
  std::memset(&wanted, pattern, sizeof wanted);
  int64_t count = 0;
  for (int64_t i = 0; i < elements; ++i) {
    Code code;
    std::memcpy(&code, begin + i * static_cast<int64_t>(sizeof code), sizeof code);
    count += code == wanted;
  }
  for (int64_t i = 0; count > 0 && i < elements; ++i) {
    first = begin + i * static_cast<int64_t>(sizeof wanted);
    if (std::memcmp(first, &wanted, sizeof wanted) == 0) break;
  }
  return count;
}

int64_t count_poisoned(const StoredRange& range, int pattern, const std::byte*& first) {
  const int64_t elements = (range.end - range.begin) / range.itemsize;
  switch (range.itemsize) {
    case 1:
      return count_equal<uint8_t>(range.begin, elements, pattern, first);
    case 2:
      return count_equal<uint16_t>(range.begin, elements, pattern, first);
    case 4:
      return count_equal<uint32_t>(range.begin, elements, pattern, first);
    default:
      return count_equal<uint64_t>(range.begin, elements, pattern, first);
  }
}

bool is_poison(const std::byte* element, int itemsize, int pattern) {
  return std::all_of(element, element + itemsize, [&](std::byte byte) { return byte == std::byte(pattern); });
}

}  // namespace

void misbehave_once(Misdeed misdeed) { misdeed_to_come = misdeed; }

Misdeed take_misdeed() {
  if (misdeed_to_come.load(std::memory_order_relaxed) == Misdeed::None) [[likely]]
    return Misdeed::None;
  return misdeed_to_come.exchange(Misdeed::None);
}

AtWork::AtWork() {
  at_work.fetch_add(1);
  work_begun.fetch_add(1);
}
AtWork::~AtWork() { at_work.fetch_sub(1); }
uint64_t AtWork::begun() { return work_begun.load(); }
int AtWork::now() { return at_work.load(); }

Deeds::Deeds(std::vector<StoredRange> stored, std::span<const Shadow::Extent> read, std::vector<Shadow::Extent> blocks)
    : stored_(std::move(stored)), begun_(AtWork::begun()), alone_(AtWork::now() <= 1) {
  merge();
  for (const StoredRange& range : stored_) {
    const bool is_read = std::any_of(read.begin(), read.end(), [&](const Shadow::Extent& extent) {
      return extent.begin < range.end && range.begin < extent.end;
    });
    if (!is_read) {
      poisoned_.push_back(range);
    } else {
      in_place_.push_back({range.begin, range.end - range.begin, copies_.size()});
      copies_.insert(copies_.end(), range.begin, range.end);
    }
  }
  if (alone_) {
    std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    const auto same = [](const auto& a, const auto& b) { return a.begin == b.begin; };
    blocks.erase(std::unique(blocks.begin(), blocks.end(), same), blocks.end());
    for (const Shadow::Extent& block : blocks) guard(block);
  }
  poison(kFirst);
}

void Deeds::merge() {
  std::sort(stored_.begin(), stored_.end(),
            [](const StoredRange& a, const StoredRange& b) { return a.begin < b.begin; });
  std::vector<StoredRange> merged;
  for (const StoredRange& range : stored_) {
    if (!merged.empty() && range.begin <= merged.back().end && range.operand == merged.back().operand)
      merged.back().end = std::max(merged.back().end, range.end);
    else
      merged.push_back(range);
  }
  stored_.swap(merged);
}

void Deeds::keep(const std::byte* begin, const std::byte* end) {
  if (begin >= end) return;
  around_.push_back({const_cast<std::byte*>(begin), end - begin, copies_.size()});
  copies_.insert(copies_.end(), begin, end);
}

void Deeds::guard(const Shadow::Extent& block) {
  const int64_t near = block.end - block.begin <= kWholeBlock ? kWholeBlock : kNear;
  const std::byte* done = block.begin;  // what lies before is stored, or kept, or too far from anything
  bool stores = false;
  for (const StoredRange& range : stored_) {
    if (range.end <= block.begin || range.begin >= block.end) continue;
    const std::byte* here = range.begin;
    if (here - done > 2 * near) {
      if (stores) keep(done, done + near);
      done = here - near;
    }
    keep(done, here);
    done = std::max(done, static_cast<const std::byte*>(range.end));
    stores = true;
  }
  if (stores || near == kWholeBlock) keep(done, block.end - done > near ? done + near : block.end);
}

void Deeds::poison(int pattern) const {
  for (const StoredRange& range : poisoned_)
    std::memset(range.begin, pattern, static_cast<size_t>(range.end - range.begin));
}

std::vector<Deeds::Unwritten> Deeds::holding(int pattern) const {
  std::vector<Unwritten> found;
  for (const StoredRange& range : poisoned_) {
    const std::byte* first = nullptr;
    if (const int64_t elements = count_poisoned(range, pattern, first)) found.push_back({range, first, elements});
  }
  return found;
}

std::vector<std::byte> Deeds::contents(std::span<const Unwritten> suspects) {
  std::vector<std::byte> all;
  for (const Unwritten& suspect : suspects) all.insert(all.end(), suspect.range.begin, suspect.range.end);
  return all;
}

std::vector<Deeds::Unwritten> Deeds::confirmed(std::span<const Unwritten> suspects, std::span<const std::byte> then) {
  std::vector<Unwritten> found;
  const std::byte* before = then.data();
  for (const Unwritten& suspect : suspects) {
    const int itemsize = suspect.range.itemsize;
    Unwritten sure = {suspect.range, nullptr, 0};
    for (const std::byte* now = suspect.range.begin; now < suspect.range.end; now += itemsize, before += itemsize) {
      if (!is_poison(before, itemsize, kFirst) || !is_poison(now, itemsize, kSecond)) continue;
      if (sure.elements++ == 0) sure.first = now;
    }
    if (sure.elements > 0) found.push_back(sure);
  }
  return found;
}

void Deeds::restore_in_place() const {
  for (const Kept& kept : in_place_)
    std::memcpy(kept.begin, copies_.data() + kept.copy, static_cast<size_t>(kept.bytes));
}

const std::byte* Deeds::changed_beyond() const {
  if (!alone_ || AtWork::begun() != begun_) return nullptr;
  for (const Kept& kept : around_) {
    const std::byte* copy = copies_.data() + kept.copy;
    if (std::memcmp(kept.begin, copy, static_cast<size_t>(kept.bytes)) == 0) continue;
    return std::mismatch(kept.begin, kept.begin + kept.bytes, copy).first;
  }
  return nullptr;
}

}  // namespace openspyre::sanitize
