#include "device/generator.h"

#include <ATen/Utils.h>
#include <ATen/core/TensorBody.h>
#include <ATen/ops/empty.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "device/runtime.h"

namespace torch_spyre {
namespace {

constexpr uint64_t kBlock = 4;  // numbers of one block of Philox
constexpr int64_t kStateBytes = 2 * sizeof(uint64_t);

uint64_t whole_blocks(uint64_t numbers) { return (numbers + kBlock - 1) / kBlock * kBlock; }

}  // namespace

SpyreGenerator::SpyreGenerator(c10::DeviceIndex index)
    : GeneratorImpl(c10::Device(kSpyre, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

// Locking is the caller's, as in every generator of torch; only `take` is called by several threads without it.
void SpyreGenerator::set_current_seed(uint64_t seed) { place_ = {seed, 0}; }
void SpyreGenerator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % kBlock == 0, "a spyre generator's offset must be a multiple of ", kBlock,
              ", the numbers of a block, not ", offset);
  place_.offset = offset;
}
uint64_t SpyreGenerator::get_offset() const { return place_.offset; }
uint64_t SpyreGenerator::current_seed() const { return place_.seed; }
uint64_t SpyreGenerator::seed() {
  const uint64_t seed = c10::detail::getNonDeterministicRandom();
  set_current_seed(seed);
  return seed;
}

void SpyreGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes, "a spyre generator's state has ", kStateBytes,
              " bytes, seed and offset, but this one has ", state.numel(),
              "; states of CPU generators and of earlier versions do not fit, seed anew with manual_seed()");
  Place given{};
  std::memcpy(&given, state.data(), sizeof given);
  set_offset(given.offset);
  place_.seed = given.seed;
}

c10::intrusive_ptr<c10::TensorImpl> SpyreGenerator::get_state() const {
  const at::Tensor state = at::empty({kStateBytes}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  std::memcpy(state.data_ptr(), &place_, sizeof place_);
  return state.getIntrusivePtr();
}

SpyreGenerator::Place SpyreGenerator::take(uint64_t numbers) {
  std::lock_guard lock(mutex_);
  const Place first = place_;
  place_.offset += whole_blocks(numbers);
  return first;
}

SpyreGenerator* SpyreGenerator::clone_impl() const {
  auto* copy = new SpyreGenerator(device().index());
  copy->place_ = place_;
  return copy;
}

namespace {
std::atomic<uint64_t> initial_seed{c10::default_rng_seed_val};
}

void set_initial_seed(uint64_t seed) { initial_seed = seed; }

const at::Generator& default_generator(c10::DeviceIndex index) {
  static std::mutex mutex;
  static std::array<std::optional<at::Generator>, 8> generators;
  const c10::DeviceIndex device = resolve(c10::Device(kSpyre, index));
  std::lock_guard lock(mutex);
  auto& generator = generators[device];
  if (!generator) {
    generator = at::make_generator<SpyreGenerator>(device);
    generator->set_current_seed(initial_seed);
  }
  return *generator;
}

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<SpyreGenerator>(resolve(c10::Device(kSpyre, index)));
}

SpyreGenerator& generator_of(const std::optional<at::Generator>& given, c10::DeviceIndex device) {
  if (!given || !given->defined()) return *default_generator(device).get<SpyreGenerator>();
  TORCH_CHECK(given->device().type() == kSpyre, "Expected a 'spyre' device type for generator but found '",
              given->device().type(), "'; make one with torch.Generator(device='spyre')");
  return *given->get<SpyreGenerator>();
}

LaunchDraws::LaunchDraws(const CallPlan& plan, const std::optional<at::Generator>& given, c10::DeviceIndex device)
    : draws_(plan.draws) {
  if (draws_.empty()) return;
  uint64_t numbers = 0;
  for (const int64_t draw : draws_) numbers += whole_blocks(static_cast<uint64_t>(draw));
  first_ = generator_of(given, device).take(numbers);
}

uint32_t LaunchDraws::word(const ScalarPlan& scalar) const {
  using Encoding = ScalarPlan::Encoding;
  if (scalar.encoding == Encoding::SeedLow) return static_cast<uint32_t>(first_.seed);
  if (scalar.encoding == Encoding::SeedHigh) return static_cast<uint32_t>(first_.seed >> 32);
  uint64_t offset = first_.offset;
  for (int draw = 0; draw < scalar.argument; ++draw)
    offset += whole_blocks(static_cast<uint64_t>(draws_[static_cast<size_t>(draw)]));
  return static_cast<uint32_t>(scalar.encoding == Encoding::OffsetLow ? offset : offset >> 32);
}

}  // namespace torch_spyre
