// Work of the cards, remembered with its times while somebody traces: one load where nobody does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "operators/plans.h"
#include "sanitizer/sanitize_findings.h"
#include "streams/stream.h"

namespace torch_spyre {

// One call of the host and what a stream did for it. Times are nanoseconds since the epoch; what is 0 has not happened.
struct TracedWork {
  enum class Kind { Launch, CopyToCard, CopyFromCard, CopyWithin, Wait, Compile };
  Kind kind = Kind::Launch;
  std::string name;
  int card = 0;
  int64_t stream = 0;
  int32_t correlation = 0;           // a number of its own
  uint64_t external = 0;             // the operator that the call was made in
  std::vector<uint64_t> ranges;      // record_function's, outermost first
  int32_t thread = 0;                // of the host, as the system numbers it
  int64_t called = 0;                // on the host
  std::atomic<int64_t> returned{0};  // to the host
  int64_t start = 0;                 // on the card
  std::atomic<int64_t> end{0};       // set last: what comes before can be read then
  int64_t bytes = 0;                 // of a copy
  LoadedPlanPtr loaded;              // of a launch
  openspyre::LaunchTimes times;      // of a launch
  openspyre::Site site;              // of an operator's launch: the line of Python
};
using TracedWorkPtr = std::shared_ptr<TracedWork>;

int64_t trace_time();  // now

struct TraceOptions {
  bool steps = true;      // an event per step of a launch
  bool predicted = true;  // what a real card would take, beside what the host took
};
TraceOptions trace_options();
void set_trace_options(TraceOptions options);

// Work that was called for between open() and close(). Work that has not ended by then is not in it.
class TraceSession : public std::enable_shared_from_this<TraceSession> {
 public:
  void open();
  void close();
  std::vector<TracedWorkPtr> work() const;

 private:
  friend TracedWorkPtr trace_call(TracedWork::Kind kind, const char* name, int card, int64_t stream);
  mutable std::mutex mutex_;
  std::vector<TracedWorkPtr> work_;
};

extern std::atomic<int> traces_at_work;
inline bool is_traced() { return traces_at_work.load(std::memory_order_relaxed) != 0; }

// The calling thread's operators and ranges, as the profiler numbers them.
void enter_operator(uint64_t id);
void leave_operator();
void enter_range(uint64_t id);
void leave_range();

// Begins a call of the host; null where nobody traces.
TracedWorkPtr trace_call(TracedWork::Kind kind, const char* name, int card, int64_t stream);
void returned(const TracedWorkPtr& work);

// Around what a stream does: as a scope within its task.
class TracedRun {
 public:
  explicit TracedRun(TracedWork* work) : work_(work) {
    if (work_ != nullptr) work_->start = trace_time();
  }
  ~TracedRun() {
    if (work_ == nullptr) return;
    const openspyre::LaunchTimes& times = work_->times;
    if (times.began != 0) work_->start = times.began;  // until then it may have waited for another stream's launch
    work_->end.store(times.steps.empty() ? trace_time() : times.steps.back().end, std::memory_order_release);
  }
  TracedRun(const TracedRun&) = delete;
  TracedRun& operator=(const TracedRun&) = delete;

 private:
  TracedWork* const work_;
};

// A task with its time; itself where nobody traces.
openspyre::Task traced_task(openspyre::Task task, const TracedWorkPtr& work);

// A call that the host waits in, without work of a stream: waiting, compiling.
class TracedWait {
 public:
  TracedWait(TracedWork::Kind kind, const char* name, int card, int64_t stream)
      : work_(is_traced() ? trace_call(kind, name, card, stream) : nullptr) {}
  ~TracedWait() { returned(work_); }
  TracedWait(const TracedWait&) = delete;
  TracedWait& operator=(const TracedWait&) = delete;

 private:
  const TracedWorkPtr work_;
};

}  // namespace torch_spyre
