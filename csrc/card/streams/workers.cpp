#include "streams/workers.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>

#include "formats/floating_point.h"
#include "memory/fork.h"
#include "streams/card.h"
#include "streams/futex.h"

namespace openspyre {
namespace {

constexpr auto kSpin = std::chrono::microseconds(50);
constexpr size_t kJobs = 16;  // callers served at once; one more runs its loop alone

thread_local bool inside_parallel_for = false;
std::atomic<bool> abandoned{false};

struct InsideScope {
  InsideScope() { inside_parallel_for = true; }
  ~InsideScope() { inside_parallel_for = false; }
};

int available_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// A loop that is being spread. Jobs live in the pool and are reused: a worker first enters, then looks whether the job
// is open; the caller first closes, then waits until nobody is inside. So neither can miss the other (seq_cst
// throughout).
struct alignas(64) Job {
  std::atomic<bool> taken{false}, open{false}, caller_sleeps{false}, failed{false};
  std::atomic<uint32_t> inside{0};
  std::atomic<size_t> next{0}, count{0};
  size_t step = 1;
  void (*body)(void*, size_t) = nullptr;
  void* context = nullptr;
  std::exception_ptr error;

  bool has_work() const { return open.load() && next.load(std::memory_order_relaxed) < count.load(); }

  void work() noexcept {
    const size_t end = count.load(std::memory_order_relaxed);
    for (size_t start; (start = next.fetch_add(step, std::memory_order_relaxed)) < end;) {
      try {
        for (size_t i = start; i < std::min(end, start + step) && !loops_abandoned(); ++i) body(context, i);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
        next.store(end, std::memory_order_relaxed);
      }
    }
  }

  void join() {
    inside.fetch_add(1);
    if (open.load()) work();
    inside.fetch_sub(1);
    if (caller_sleeps.load()) futex_wake(inside, 1);
  }

  void close() {
    open.store(false);
    if (spin_until([this] { return inside.load() == 0; }, kSpin)) return;
    caller_sleeps.store(true);
    for (uint32_t workers; (workers = inside.load()) != 0;) futex_wait(inside, workers);
    caller_sleeps.store(false);
  }
};

class Pool {
 public:
  static Pool& instance() {
    static Pool* pool = new Pool(worker_threads());  // never destroyed: its threads sleep until the process ends
    return *pool;
  }

  explicit Pool(int threads) {
    watch_forks();
    started.store(true);
    try {
      for (; workers_ < threads - 1; ++workers_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
      // A host that gives no more threads makes loops slower, not wrong.
    }
  }

  Job* take_job() {
    for (Job& job : jobs_)
      if (!job.taken.load(std::memory_order_relaxed) && !job.taken.exchange(true)) return &job;
    return nullptr;
  }

  void run(Job& job, size_t count, void (*body)(void*, size_t), void* context) {
    job.step = std::max<size_t>(1, count / (static_cast<size_t>(workers_ + 1) * 8));
    job.body = body;
    job.context = context;
    job.next.store(0, std::memory_order_relaxed);
    job.count.store(count, std::memory_order_relaxed);
    job.open.store(true);
    if (sleepers_.load() > 0) {
      epoch_.fetch_add(1);
      futex_wake(epoch_, static_cast<int>(std::min<size_t>(count - 1, static_cast<size_t>(workers_))));
    }
    job.work();
    job.close();
    std::exception_ptr error;
    if (job.failed.exchange(false)) error = std::exchange(job.error, nullptr);
    job.taken.store(false);
    if (error) std::rethrow_exception(error);
  }

  int workers() const { return workers_; }
  static inline std::atomic<bool> started{false};

 private:
  Job* find_work() {
    for (Job& job : jobs_)
      if (job.has_work()) return &job;
    return nullptr;
  }

  void serve() {
    FloatingPointScope::enter_forever();
    inside_parallel_for = true;
    for (;;) {
      Job* job = nullptr;
      if (spin_until([&] { return (job = find_work()) != nullptr; }, kSpin)) {
        job->join();
        continue;
      }
      sleepers_.fetch_add(1);
      const uint32_t epoch = epoch_.load();
      if (!find_work()) futex_wait(epoch_, epoch);
      sleepers_.fetch_sub(1);
    }
  }

  std::array<Job, kJobs> jobs_;
  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  int workers_ = 0;
};

}  // namespace

void abandon_loops() { abandoned.store(true); }
bool loops_abandoned() { return abandoned.load(std::memory_order_relaxed); }

int worker_threads() {
  if (threads_gone.load(std::memory_order_relaxed)) return 1;
  if (Pool::started.load()) return Pool::instance().workers() + 1;
  static const int processors = available_processors();
  return configuration().threads > 0 ? configuration().threads : processors;
}

void parallel_for(size_t count, void (*body)(void* context, size_t i), void* context) {
  if (count == 0) return;
  FloatingPointScope card_state;
  const bool alone = count == 1 || inside_parallel_for || threads_gone.load(std::memory_order_relaxed);
  Pool* pool = alone ? nullptr : &Pool::instance();
  Job* job = pool && pool->workers() > 0 ? pool->take_job() : nullptr;
  if (!job) {
    for (size_t i = 0; i < count && !loops_abandoned(); ++i) body(context, i);
    return;
  }
  InsideScope inside;
  pool->run(*job, count, body, context);
}

}  // namespace openspyre
