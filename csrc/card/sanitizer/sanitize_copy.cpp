#include "sanitizer/sanitize_copy.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>

#include "formats/layout_text.h"
#include "sanitizer/sanitize_deeds.h"
#include "sanitizer/sanitize_findings.h"
#include "sanitizer/shadow.h"
#include "streams/workers.h"

namespace openspyre::sanitize {
namespace {

thread_local int reads_allowed = 0;
thread_local const std::string* copy_name = nullptr;

int64_t count_elements(const DeviceView& view) {
  int64_t elements = 1;
  for (const int64_t n : view.size) elements *= n;
  return elements;
}

int itemsize_of(const DeviceView& view) { return device_itemsize(view.shape->layout().format); }

DeviceView shadow_of(const DeviceView& view, const Shadow& shadow) {
  DeviceView states = view;
  states.memory = reinterpret_cast<std::byte*>(shadow.at(view.memory));
  return states;
}

// What is known of each element, in the order of the view.
class ElementStates {
 public:
  ElementStates(int64_t elements, int itemsize)
      : elements_(elements),
        itemsize_(itemsize),
        bytes_(std::make_unique_for_overwrite<ByteState[]>(static_cast<size_t>(elements * itemsize))) {}
  ElementStates(const DeviceView& view, const Shadow& shadow) : ElementStates(count_elements(view), itemsize_of(view)) {
    read_codes(shadow_of(view, shadow), reinterpret_cast<std::byte*>(bytes_.get()));
  }
  void write(const DeviceView& view, const Shadow& shadow) const {
    write_codes(reinterpret_cast<const std::byte*>(bytes_.get()), shadow_of(view, shadow));
  }

  void fill(ByteState state) { std::fill_n(bytes_.get(), elements_ * itemsize_, state); }
  ByteState operator[](int64_t element) const { return bytes_[static_cast<size_t>(element * itemsize_)]; }
  int64_t elements() const { return elements_; }

  // The same elements in another item size; what is not initialised in full is not initialised.
  ElementStates resized(int itemsize) const {
    ElementStates other(elements_, itemsize);
    for (int64_t i = 0; i < elements_; ++i) std::fill_n(other.bytes_.get() + i * itemsize, itemsize, (*this)[i]);
    return other;
  }

 private:
  int64_t elements_;
  int itemsize_;
  std::unique_ptr<ByteState[]> bytes_;
};

// The elements themselves, in the order of the view.
class ElementCodes {
 public:
  explicit ElementCodes(const DeviceView& view)
      : itemsize_(itemsize_of(view)), bytes_(static_cast<size_t>(count_elements(view) * itemsize_)) {}
  void fill(int pattern) { std::memset(bytes_.data(), pattern, bytes_.size()); }
  void write(const DeviceView& view) const { write_codes(bytes_.data(), view); }
  void read(const DeviceView& view) { read_codes(view, bytes_.data()); }

  // The elements that consist of the pattern, in order.
  std::vector<int64_t> all_of(int pattern) const {
    const auto wanted = static_cast<std::byte>(pattern);
    const auto itemsize = static_cast<size_t>(itemsize_);
    std::vector<int64_t> found;
    for (size_t at = 0; at < bytes_.size(); at += itemsize) {
      size_t same = 0;
      while (same < itemsize && bytes_[at + same] == wanted) ++same;
      if (same == itemsize) found.push_back(static_cast<int64_t>(at / itemsize));
    }
    return found;
  }

 private:
  int itemsize_;
  std::vector<std::byte> bytes_;
};

std::string address_text(const Shadow& shadow, const std::byte* memory) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(shadow.handle(memory)));
  return text;
}

std::string tensor_text(const DeviceView& view) {
  return std::string("a tensor of ") + name(view.dtype) + ' ' + list_text(view.size);
}

Findings findings_here(const char* copy) { return Findings(copy_name ? *copy_name : copy); }

// The whole buffer must be allocated, as one block.
void check_block(const DeviceView& view, const Shadow& shadow, FindingKind freed, Findings& findings) {
  const auto block = shadow.block_at(view.memory);
  if (!block) {
    findings.add(freed, 0, [&] {
      return tensor_text(view) + " at device address " + address_text(shadow, view.memory) +
             ": the memory is not allocated (it was freed, or never handed out); keep the tensor until its last use";
    });
  } else if (!block->holds(view.memory, view.shape->device_bytes())) {
    findings.add(FindingKind::OutOfBounds, 0, [&] {
      return tensor_text(view) + " at device address " + address_text(shadow, view.memory) + " takes " +
             std::to_string(view.shape->device_bytes()) + " bytes, its block ends after " +
             std::to_string(block->end - view.memory);
    });
  }
}

std::vector<int64_t> index_of(int64_t element, const std::vector<int64_t>& size) {
  std::vector<int64_t> index(size.size());
  for (size_t dim = size.size(); dim-- > 0; element /= size[dim]) index[dim] = element % size[dim];
  return index;
}

}  // namespace

void copying_in(const DeviceView& target) {
  const Shadow* shadow = Shadow::of(target.memory);
  if (!shadow) return;
  Findings findings = findings_here("copy host to device");
  check_block(target, *shadow, FindingKind::FreedWrite, findings);
  findings.settle();
}

void copied_in(const DeviceView& target) {
  const Shadow* shadow = Shadow::of(target.memory);
  if (!shadow) return;
  ElementStates states(count_elements(target), itemsize_of(target));
  states.fill(ByteState::Initialised);
  states.write(target, *shadow);
}

void copying_out(const DeviceView& source) {
  const Shadow* shadow = Shadow::of(source.memory);
  if (!shadow) return;
  Findings findings = findings_here("copy device to host");
  check_block(source, *shadow, FindingKind::FreedRead, findings);
  findings.settle();
  if (reads_allowed > 0) return;
  const ElementStates states(source, *shadow);
  for (int64_t i = 0; i < states.elements(); ++i) {
    if (states[i] == ByteState::Initialised) continue;
    findings.add(FindingKind::HostRead, 0, [&] {
      const bool tainted = states[i] == ByteState::Tainted;
      return "the host reads element " + list_text(index_of(i, source.size)) + " of " + tensor_text(source) +
             " (buffer at device address " + address_text(*shadow, source.memory) + "), which " +
             (tainted ? "was computed from padding or from memory nobody wrote"
                      : "nobody has written since it was allocated; fill the tensor first (torch.zeros)");
    });
  }
  findings.settle();
}

void copying_across(const DeviceView& source, const DeviceView& target) {
  const Shadow* from = Shadow::of(source.memory);
  const Shadow* to = Shadow::of(target.memory);
  if (!from || !to) return;
  Findings findings = findings_here("copy device to device");
  check_block(source, *from, FindingKind::FreedRead, findings);
  check_block(target, *to, FindingKind::FreedWrite, findings);
  findings.settle();
  const ElementStates states(source, *from);
  if (itemsize_of(source) == itemsize_of(target))
    states.write(target, *to);
  else
    states.resized(itemsize_of(target)).write(target, *to);
}

AllowUninitialisedReads::AllowUninitialisedReads() { ++reads_allowed; }
AllowUninitialisedReads::~AllowUninitialisedReads() { --reads_allowed; }

CopyName::CopyName(std::string name) : name_(std::move(name)) { copy_name = &name_; }
CopyName::~CopyName() { copy_name = nullptr; }

void watch_copy(const DeviceView& target, const std::function<void()>& copy) {
  const Shadow* shadow = Shadow::of(target.memory);
  if (!shadow) return copy();
  const bool skips = take_misdeed() == Misdeed::Skip;
  const auto unwritten = [&](int pattern) {
    ElementCodes codes(target);
    codes.fill(pattern);
    codes.write(target);
    if (!skips) copy();
    codes.read(target);
    return codes.all_of(pattern);
  };
  const std::vector<int64_t> once = unwritten(0x5A);
  if (once.empty()) return;
  // An element may look like one poison, and another like the other: none looks like both.
  std::vector<int64_t> twice;
  std::ranges::set_intersection(once, unwritten(0xA5), std::back_inserter(twice));
  if (twice.empty() || loops_abandoned()) return;  // a process that ends leaves its copies half done
  const int64_t element = twice.front();
  Findings findings = findings_here("copy within the card");
  findings.add(FindingKind::Unwritten, 0, [&] {
    return "element " + list_text(index_of(element, target.size)) + " of " + tensor_text(target) +
           ": the copy says it stores this element, and did not";
  });
  findings.settle();
}

void wrote_bytes(const std::byte* memory, size_t bytes) {
  Shadow* shadow = Shadow::of(memory);
  if (!shadow) return;
  const AtWork at_work;
  shadow->set(memory, bytes, ByteState::Initialised);
}

void copied_bytes(const std::byte* source, const std::byte* target, size_t bytes) {
  const Shadow *from = Shadow::of(source), *to = Shadow::of(target);
  if (!from || !to) return;
  const AtWork at_work;
  std::memcpy(to->at(target), from->at(source), bytes);
}

}  // namespace openspyre::sanitize
