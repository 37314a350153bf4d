#include "profiler/trace.h"

#include <ThreadUtil.h>
#include <c10/util/ApproximateClock.h>

#include <algorithm>

namespace torch_spyre {
namespace {

struct Sessions {
  std::mutex mutex;
  std::vector<std::shared_ptr<TraceSession>> open;
};
Sessions& sessions() {
  static auto* instance = new Sessions;  // threads of torch may outlive static destruction
  return *instance;
}

std::atomic<bool> wants_steps{true}, wants_predicted{true};
std::atomic<int32_t> correlations{0};
thread_local std::vector<uint64_t> operators, ranges;

}  // namespace

std::atomic<int> traces_at_work{0};

int64_t trace_time() { return c10::getTime(); }

TraceOptions trace_options() { return {wants_steps.load(), wants_predicted.load()}; }
void set_trace_options(TraceOptions options) {
  wants_steps.store(options.steps);
  wants_predicted.store(options.predicted);
}

void TraceSession::open() {
  std::lock_guard lock(sessions().mutex);
  sessions().open.push_back(shared_from_this());
  traces_at_work.fetch_add(1);
}

void TraceSession::close() {
  std::lock_guard lock(sessions().mutex);
  auto& list = sessions().open;
  const auto found = std::find(list.begin(), list.end(), shared_from_this());
  if (found == list.end()) return;
  list.erase(found);
  traces_at_work.fetch_sub(1);
}

std::vector<TracedWorkPtr> TraceSession::work() const {
  std::lock_guard lock(mutex_);
  return work_;
}

void enter_operator(uint64_t id) { operators.push_back(id); }
void leave_operator() {
  if (!operators.empty()) operators.pop_back();
}
void enter_range(uint64_t id) { ranges.push_back(id); }
void leave_range() {
  if (!ranges.empty()) ranges.pop_back();
}

TracedWorkPtr trace_call(TracedWork::Kind kind, const char* name, int card, int64_t stream) {
  auto work = std::make_shared<TracedWork>();
  work->kind = kind;
  work->name = name;
  work->card = card;
  work->stream = stream;
  work->correlation = correlations.fetch_add(1) + 1;
  work->external = operators.empty() ? 0 : operators.back();
  work->ranges = ranges;
  work->thread = libkineto::systemThreadId();
  work->times.with_steps = wants_steps.load(std::memory_order_relaxed);
  work->called = trace_time();
  std::lock_guard lock(sessions().mutex);
  for (const std::shared_ptr<TraceSession>& session : sessions().open) {
    std::lock_guard own(session->mutex_);
    session->work_.push_back(work);
  }
  return work;
}

void returned(const TracedWorkPtr& work) {
  if (work) work->returned.store(trace_time(), std::memory_order_release);
}

openspyre::Task traced_task(openspyre::Task task, const TracedWorkPtr& work) {
  if (!work) return task;
  return [task = std::move(task), work]() mutable {
    const TracedRun run(work.get());
    task();
  };
}

}  // namespace torch_spyre
