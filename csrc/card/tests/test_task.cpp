#include <cstdlib>
#include <memory>
#include <new>

#include "check.h"
#include "streams/task.h"

using openspyre::Task;

namespace {

struct Counted {
  explicit Counted(int* alive) : alive(alive) { ++*alive; }
  Counted(Counted&& other) noexcept : alive(other.alive) { ++*alive; }
  Counted(const Counted&) = delete;
  ~Counted() { --*alive; }
  int* alive;
};

}  // namespace

TEST(a_task_runs_a_move_only_closure) {
  auto value = std::make_unique<int>(41);
  int seen = 0;
  Task task([value = std::move(value), &seen] { seen = *value + 1; });
  Task moved = std::move(task);
  CHECK(!task);
  moved();
  CHECK_EQ(seen, 42);
}

TEST(closures_are_destroyed_exactly_once_inline_and_on_the_heap) {
  int alive = 0;
  {
    Task small([counted = Counted(&alive)] { (void)counted; });
    struct Padding {
      char bytes[2 * Task::kInlineBytes];
    };
    Task large([counted = Counted(&alive), padding = Padding{}] { (void)counted, (void)padding; });
    CHECK_EQ(alive, 2);
    Task other = std::move(small);
    other = std::move(large);
    CHECK_EQ(alive, 1);
  }
  CHECK_EQ(alive, 0);
}

TEST(what_fits_inline_is_what_the_size_says) {
  struct Exact {
    char bytes[Task::kInlineBytes];
  };
  struct Larger {
    char bytes[Task::kInlineBytes + 1];
  };
  CHECK(Task::fits<Exact>());
  CHECK(!Task::fits<Larger>());
}
