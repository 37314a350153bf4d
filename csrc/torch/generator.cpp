#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "runtime.h"

namespace torch_spyre {

SpyreGenerator::SpyreGenerator(c10::DeviceIndex index)
    : GeneratorImpl(c10::Device(kSpyre, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      host(at::detail::createCPUGenerator()) {}

void SpyreGenerator::set_current_seed(uint64_t seed) { host.set_current_seed(seed); }
void SpyreGenerator::set_offset(uint64_t offset) { host.set_offset(offset); }
uint64_t SpyreGenerator::get_offset() const { return host.get_offset(); }
uint64_t SpyreGenerator::current_seed() const { return host.current_seed(); }
uint64_t SpyreGenerator::seed() { return host.seed(); }
void SpyreGenerator::set_state(const c10::TensorImpl& state) { host.unsafeGetGeneratorImpl()->set_state(state); }
c10::intrusive_ptr<c10::TensorImpl> SpyreGenerator::get_state() const {
  return host.unsafeGetGeneratorImpl()->get_state();
}

SpyreGenerator* SpyreGenerator::clone_impl() const {
  auto* copy = new SpyreGenerator(device().index());
  copy->host = host.clone();
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

}  // namespace torch_spyre
