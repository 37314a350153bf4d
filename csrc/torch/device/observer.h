// What passes between host and card, told to recorders: launches, copies, fallbacks. One load where nobody records.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace torch_spyre {

// What a real card would take for a program, by class of kernels: the clock's words, which the compiler brings.
struct PredictedTime {
  std::string kernel_class;
  double us = 0;
  double off = 0;  // share of it that it may be off
};
using PredictedTimes = std::shared_ptr<const std::vector<PredictedTime>>;

struct Observed {
  enum class What { Launch, CopyToCard, CopyFromCard, CopyWithin, Fallback };
  What what = What::Launch;
  std::string name;
  PredictedTimes predicted = nullptr;  // of a launch
  int64_t bytes_down = 0;              // from the card to the host; of a copy within the card those that move
  int64_t bytes_up = 0;                // to the card
  bool turned = false;                 // a copy within the card whose sticks run along another dim
};

// Remembers what the thread that started it does, and autograd's threads on its behalf; or what all threads do.
class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  explicit Recorder(bool all_threads);
  void start();
  void stop();
  std::vector<Observed> records() const;

 private:
  friend void tell(Observed observed);
  const bool all_threads_;
  const std::string key_;  // among what torch hands on to the threads that work for one
  mutable std::mutex mutex_;
  std::vector<Observed> records_;
};

extern std::atomic<int> recorders_at_work;
inline bool is_observed() { return recorders_at_work.load(std::memory_order_relaxed) != 0; }
void tell(Observed observed);

// What a fallback copies is part of it.
class Unobserved {
 public:
  Unobserved();
  ~Unobserved();
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
};

}  // namespace torch_spyre
