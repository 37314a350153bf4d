// Random numbers: a generator is a seed and an offset into the numbers of that seed, which the card computes wherever a
// launch asks for them (Philox4x32-10). A draw of n elements takes the next n numbers, rounded up to whole blocks.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <optional>

#include "operators/plans.h"

namespace torch_spyre {

struct SpyreGenerator final : c10::GeneratorImpl {
  explicit SpyreGenerator(c10::DeviceIndex index);
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override;  // from its first number on
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  struct Place {
    uint64_t seed, offset;
  };
  Place take(uint64_t numbers);  // where they begin; the next draw begins behind them

 private:
  SpyreGenerator* clone_impl() const override;
  Place place_{c10::default_rng_seed_val, 0};  // guarded by mutex_
};

const at::Generator& default_generator(c10::DeviceIndex index);  // made on first use
void set_initial_seed(uint64_t seed);                            // for default generators that do not exist yet
at::Generator new_generator(c10::DeviceIndex index);

// The generator a call draws from: the given one, which must be of the card, or the card's own.
SpyreGenerator& generator_of(const std::optional<at::Generator>& given, c10::DeviceIndex device);

// The numbers a launch draws, taken from a generator all at once.
class LaunchDraws {
 public:
  LaunchDraws(const CallPlan& plan, const std::optional<at::Generator>& given, c10::DeviceIndex device);
  uint32_t word(const ScalarPlan& scalar) const;

 private:
  SpyreGenerator::Place first_{};
  const std::vector<int64_t>& draws_;
};

}  // namespace torch_spyre
