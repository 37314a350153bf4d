#include "sanitizer/sanitize_findings.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "streams/card.h"

namespace openspyre {
namespace {

std::atomic<SiteSource> site_source{nullptr};
thread_local const Site* task_site = nullptr;

struct Notices {
  std::mutex mutex;
  std::vector<Notice> waiting;
  std::set<std::pair<int, std::string>> told;  // kind and line
};
Notices& notices() {
  static auto* instance = new Notices;
  return *instance;
}
std::atomic<bool> notices_wait{false};

}  // namespace

const char* name(FindingKind kind) {
  constexpr const char* names[kFindingKinds] = {
      "out-of-bounds",    "freed-read", "freed-write", "uninitialised-read", "tainted-element",
      "tainted-address",  "write-race", "read-race",   "scratchpad-read",    "unwritten",
      "undeclared-write", "host-read",  "integer-wrap"};
  return names[static_cast<int>(kind)];
}

bool is_notice(FindingKind kind) {
  return (kind == FindingKind::HostRead || kind == FindingKind::IntegerWrap) && !configuration().sanitize_strict;
}

std::string Site::text() const {
  if (!known()) return "from outside Python";
  return "at " + file + ":" + std::to_string(line) + (function.empty() ? "" : " in " + function);
}

void set_site_source(SiteSource source) { site_source = source; }

Site site_now() {
  if (task_site) return *task_site;
  const SiteSource source = site_source.load(std::memory_order_relaxed);
  return source ? source() : Site{};
}

SiteScope::SiteScope(const Site& site) : before_(std::exchange(task_site, &site)) {}
SiteScope::~SiteScope() { task_site = before_; }

bool Findings::is_news(FindingKind kind, int operand) {
  const bool told = std::any_of(told_.begin(), told_.end(),
                                [&](const Told& other) { return other.kind == kind && other.operand == operand; });
  if (!told && told_.size() < kMostTold) return true;
  ++more_;
  return false;
}

bool Findings::harmless() const {
  return std::all_of(told_.begin(), told_.end(), [](const Told& told) { return is_notice(told.kind); });
}

std::string Findings::report(const Site& site, bool wanted) const {
  std::string text = "the sanitizer found in " + where_ + ", launched " + site.text() + ":";
  for (const Told& told : told_)
    if (is_notice(told.kind) == wanted) text += std::string("\n  ") + name(told.kind) + ": " + told.text;
  if (more_ > 0) text += "\n  and " + std::to_string(more_) + " more like these";
  return text;
}

void Findings::settle() {
  if (told_.empty()) return;
  const Site site = site_now();
  if (!harmless()) fail(Fault::SanitizerFinding, report(site, false));
  std::lock_guard lock(notices().mutex);
  if (!notices().told.emplace(static_cast<int>(told_[0].kind), site.text()).second) return;
  notices().waiting.push_back({site, report(site, true)});
  notices_wait.store(true, std::memory_order_release);
}

void add_notice(std::string text) {
  std::lock_guard lock(notices().mutex);
  notices().waiting.push_back({{}, std::move(text), false});
  notices_wait.store(true, std::memory_order_release);
}

bool has_notices() { return notices_wait.load(std::memory_order_acquire); }

std::vector<Notice> take_notices() {
  std::lock_guard lock(notices().mutex);
  notices_wait.store(false, std::memory_order_relaxed);
  return std::exchange(notices().waiting, {});
}

}  // namespace openspyre
