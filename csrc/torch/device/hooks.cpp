// The accelerator hooks: torch's generic questions to the device.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "device/generator.h"
#include "device/host_memory_pinned.h"
#include "device/record.h"
#include "device/views.h"

namespace torch_spyre {
namespace {

struct SpyreHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override {
    try {
      return device_count() > 0;
    } catch (...) {
      return false;  // must not throw; torch.spyre.device_count() tells the reason
    }
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return openspyre::cards_started(); }
  void init() const override {
    translated([] { ensure_configured(); });
  }

  c10::DeviceIndex deviceCount() const override {
    return translated([] { return static_cast<c10::DeviceIndex>(device_count()); });
  }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    translated([&] { set_current_device(index); });
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex before = current_device();
    if (index != before) setCurrentDevice(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device() : exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return translated([&]() -> const at::Generator& { return default_generator(index); });
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return translated([&] { return new_generator(index); });
  }

  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(kSpyre); }
  at::Device getDeviceFromPtr(void*) const override { return {kSpyre, current_device()}; }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    translated([&] { resize_bytes(storage, bytes); });
  }
};

struct RegisterHooks {
  RegisterHooks() { at::RegisterPrivateUse1HooksInterface(new SpyreHooks); }  // lives as long as the process
} register_hooks;

}  // namespace
}  // namespace torch_spyre
