#include "operators/plans.h"

#include <algorithm>
#include <mutex>

#include "operators/launch.h"
#include "program/program_table.h"

namespace torch_spyre {

LoadedPlan::LoadedPlan(CallPlan compiled) : plan(std::move(compiled)) {
  if (plan.program) program = openspyre::published(plan.program);
}

LoadedPlan::~LoadedPlan() {
  if (plan.program) openspyre::withdraw(plan.program);
}

size_t KeyHash::operator()(const Key& key) const {
  uint64_t hash = 0x9E3779B97F4A7C15ull;
  for (const int64_t word : key)
    hash = (hash ^ static_cast<uint64_t>(word)) * 0xFF51AFD7ED558CCDull, hash ^= hash >> 32;
  return hash;
}

namespace {
thread_local int64_t thread_planning = -1;
}
int64_t planning_number() {
  if (thread_planning < 0) thread_planning = ask_planning_number();
  return thread_planning;
}
void forget_planning_number() { thread_planning = -1; }

LoadedPlanPtr PlanCache::find(const Key& key) const {
  std::shared_lock lock(mutex_);
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  found->second->last_use.store(launch_count(), std::memory_order_relaxed);
  return found->second;
}

LoadedPlanPtr PlanCache::keep(const Key& key, LoadedPlanPtr loaded, size_t limit) {
  std::unique_lock lock(mutex_);
  loaded->last_use.store(launch_count(), std::memory_order_relaxed);
  if (plans_.size() >= limit) forget_older_half();
  return plans_.emplace(key, std::move(loaded)).first->second;
}

size_t PlanCache::size() const {
  std::shared_lock lock(mutex_);
  return plans_.size();
}

void PlanCache::clear() {
  std::unique_lock lock(mutex_);
  plans_.clear();
}

void PlanCache::forget_constants() {
  std::unique_lock lock(mutex_);
  std::erase_if(plans_, [](const auto& entry) { return !entry.second->plan.tensors.empty(); });
}

void PlanCache::forget_older_half() {
  std::vector<int64_t> uses;
  for (const auto& [key, loaded] : plans_) uses.push_back(loaded->last_use.load(std::memory_order_relaxed));
  const auto middle = uses.begin() + static_cast<int64_t>(uses.size() / 2);
  std::nth_element(uses.begin(), middle, uses.end());
  std::erase_if(plans_,
                [&](const auto& entry) { return entry.second->last_use.load(std::memory_order_relaxed) <= *middle; });
}

}  // namespace torch_spyre
