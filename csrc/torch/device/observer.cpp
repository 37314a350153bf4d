#include "device/observer.h"

#include <ATen/ThreadLocalPythonObjects.h>

#include <algorithm>

namespace torch_spyre {
namespace {

using Inherited = at::impl::ThreadLocalPythonObjects;  // autograd takes these along to its threads

struct Recorders {
  std::mutex mutex;
  std::vector<std::shared_ptr<Recorder>> at_work;
};
Recorders& recorders() {
  static auto* instance = new Recorders;
  return *instance;
}

std::string new_key() {
  static std::atomic<uint64_t> number{0};
  return "openspyre.recorder." + std::to_string(number.fetch_add(1));
}

thread_local int unobserved = 0;

}  // namespace

std::atomic<int> recorders_at_work{0};

Recorder::Recorder(bool all_threads) : all_threads_(all_threads), key_(new_key()) {}

void Recorder::start() {
  if (!all_threads_) Inherited::set(key_, std::make_shared<c10::SafePyObject>(nullptr, nullptr));
  std::lock_guard lock(recorders().mutex);
  recorders().at_work.push_back(shared_from_this());
  recorders_at_work.fetch_add(1);
}

void Recorder::stop() {
  if (Inherited::contains(key_)) Inherited::erase(key_);
  std::lock_guard lock(recorders().mutex);
  auto& list = recorders().at_work;
  const auto found = std::find(list.begin(), list.end(), shared_from_this());
  if (found == list.end()) return;
  list.erase(found);
  recorders_at_work.fetch_sub(1);
}

std::vector<Observed> Recorder::records() const {
  std::lock_guard lock(mutex_);
  return records_;
}

void tell(Observed observed) {
  if (unobserved > 0) return;
  std::lock_guard lock(recorders().mutex);
  for (const std::shared_ptr<Recorder>& recorder : recorders().at_work) {
    if (!recorder->all_threads_ && !Inherited::contains(recorder->key_)) continue;
    std::lock_guard records(recorder->mutex_);
    recorder->records_.push_back(observed);
  }
}

Unobserved::Unobserved() { ++unobserved; }
Unobserved::~Unobserved() { --unobserved; }

}  // namespace torch_spyre
