// Devices, streams and events as c10 sees them.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "device/autograd_rest.h"
#include "device/record.h"
#include "profiler/trace.h"

namespace torch_spyre {
namespace {

openspyre::Event* event_of(void* event) { return static_cast<openspyre::Event*>(event); }

struct SpyreGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kSpyre; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device.index() != before.index()) setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kSpyre, current_device()}; }
  void setDevice(c10::Device device) const override {
    translated([&] { set_current_device(device.index()); });
    device_chosen(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    try {
      set_current_device(device.index());
    } catch (const openspyre::Error&) {
      // A guard only restores a device that was current before, so there is nothing to report here.
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    try {
      return static_cast<c10::DeviceIndex>(device_count());
    } catch (...) {
      return 0;  // c10 forbids throwing; torch.spyre.device_count() tells the reason
    }
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    for (int type = 0; type < static_cast<int>(c10::NUMBER_OF_DEVICE_CAPABILITIES); ++type) {
      if (is_supported(static_cast<c10::ScalarType>(type))) capability.capability_data.capability_bits |= 1ull << type;
    }
    return capability;
  }

  c10::Stream getStream(c10::Device device) const override {
    return translated([&] { return as_torch(current_stream(resolve(device))); });
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return translated([&] { return as_torch(card_of(resolve(device)).stream(openspyre::kDefaultStream)); });
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return translated([&] {
      openspyre::Card& card = card_of(resolve(device));
      return as_torch(card.stream(card.next_stream(high_priority)));
    });
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return getStreamFromGlobalPool(device, priority != 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return translated([&] { return exchange_stream(stream); });
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return translated([&]() -> void* { return &stream_of(stream); });
  }
  bool queryStream(const c10::Stream& stream) const override {
    return translated([&] { return stream_of(stream).query(); });
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    translated([&] {
      openspyre::Stream& waited = stream_of(stream);
      const TracedWait traced(TracedWork::Kind::Wait, "aiuStreamSynchronize", waited.card().index(), waited.id());
      waited.synchronize();
    });
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    translated([&] {
      openspyre::Card& card = card_of(resolve(c10::Device(kSpyre, index)));
      const TracedWait traced(TracedWork::Kind::Wait, "aiuDeviceSynchronize", card.index(), 0);
      card.synchronize();
    });
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    translated([&] {
      openspyre::Stream& target = stream_of(stream);
      if (!*event) *event = new openspyre::Event(flag == c10::EventFlag::BACKEND_DEFAULT);
      event_of(*event)->record(target);
    });
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) translated([&] { event_of(event)->block(stream_of(stream)); });
  }
  bool queryEvent(void* event) const override {
    return !event || translated([&] { return event_of(event)->query(); });
  }
  void synchronizeEvent(void* event) const override {
    if (event) translated([&] { event_of(event)->synchronize(); });
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    return translated([&] {
      if (!start || !end) {
        openspyre::fail(openspyre::Fault::InvalidArgument,
                        "both events must be recorded before elapsed_time is asked for");
      }
      return event_of(start)->elapsed_ms(*event_of(end));
    });
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete event_of(event); }

  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override {
    translated([&] { use_on_stream(pointer, stream); });
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, SpyreGuard)

}  // namespace
}  // namespace torch_spyre
