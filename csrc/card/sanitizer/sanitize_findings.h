// What the sanitizer finds, and how it says so: a few findings in full, the rest counted, with the step and the
// line of Python that launched it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "error.h"

namespace openspyre {

enum class FindingKind : uint8_t {
  OutOfBounds,
  FreedRead,
  FreedWrite,
  UninitialisedRead,
  TaintedElement,
  TaintedAddress,
  WriteRace,
  ReadRace,
  ScratchpadRead,
  Unwritten,        // a step did not store what it says it stores
  UndeclaredWrite,  // or stored what it does not say
  HostRead,         // of what nobody wrote: torch allows it, so it is a notice unless the sanitizer is strict
  IntegerWrap,      // arithmetic of int64 tensors beyond int32 (N8): a notice too
};
constexpr int kFindingKinds = 13;
const char* name(FindingKind kind);  // "out-of-bounds", "freed-read", ...
bool is_notice(FindingKind kind);

// Where in Python something was launched.
struct Site {
  std::string file;
  int line = 0;
  std::string function;
  bool known() const { return line > 0; }
  std::string text() const;
};

// The Python half tells where it is; asked once per task while a card is sanitized.
using SiteSource = Site (*)();
void set_site_source(SiteSource source);
Site site_now();  // of the task this thread runs, else of the caller

// A task runs as launched from `site`.
class SiteScope {
 public:
  explicit SiteScope(const Site& site);
  ~SiteScope();

 private:
  const Site* before_;
};

// Findings of one step or copy. At most one of a kind and operand is told in full.
class Findings {
 public:
  explicit Findings(std::string where) : where_(std::move(where)) {}
  template <typename Text>
  void add(FindingKind kind, int operand, Text&& text) {
    if (is_news(kind, operand)) told_.push_back({kind, operand, text()});
  }
  bool harmless() const;  // nothing was found but notices
  // Throws SanitizerFinding if something was found; notices are put aside for take_notices instead.
  void settle();

 private:
  struct Told {
    FindingKind kind;
    int operand;
    std::string text;
  };
  static constexpr size_t kMostTold = 4;
  bool is_news(FindingKind kind, int operand);
  std::string report(const Site& site, bool notices) const;

  std::string where_;
  std::vector<Told> told_;
  int64_t more_ = 0;
};

// What is worth a warning, once per kind and line.
struct Notice {
  Site site;
  std::string text;
  bool finding = true;  // of the sanitizer
};
void add_notice(std::string text);  // of something else
bool has_notices();                 // cheap
std::vector<Notice> take_notices();

}  // namespace openspyre
