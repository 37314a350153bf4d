// Runs a scenario in a process of its own: for what ends a process, forks it, or needs its own configuration.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "check.h"

namespace check {

constexpr int kTimedOut = -1;
inline bool in_child = false;

// The exit status of a child, 128 + signal if one killed it, or kTimedOut after `seconds` (it is killed then).
inline int status_of(pid_t child, int seconds = 60) {
  for (int i = 0; i < seconds * 100; ++i) {
    int status;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return kTimedOut;
}

// Runs `scenario` in a fork and leaves it through exit(); 1 if a CHECK failed or an exception escaped.
inline int run_in_child(const std::function<void()>& scenario) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return status_of(child);
  in_child = true;
  failures = 0;
  try {
    scenario();
  } catch (const std::exception& error) {
    report("child process", 0, std::string("unexpected exception: ") + error.what());
  }
  std::fflush(stdout);
  std::exit(failures != 0);
}

}  // namespace check

#if defined(__SANITIZE_ADDRESS__)
// The leak checker cannot look at the threads a forked child does not have.
extern "C" int __lsan_is_turned_off() { return check::in_child; }
#endif
