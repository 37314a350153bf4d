// Random numbers: a spyre generator drives a CPU generator of its own, which the fallbacks of random operators are
// given.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace torch_spyre {

struct SpyreGenerator final : c10::GeneratorImpl {
  explicit SpyreGenerator(c10::DeviceIndex index);
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  at::Generator host;  // the CPU generator behind this one

 private:
  SpyreGenerator* clone_impl() const override;
};

const at::Generator& default_generator(c10::DeviceIndex index);  // made on first use
void set_initial_seed(uint64_t seed);                            // for default generators that do not exist yet
at::Generator new_generator(c10::DeviceIndex index);

}  // namespace torch_spyre
