// What the torch half shares: device state of the calling thread, lazy start, and translation of the card's errors.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>

#include <limits>
#include <optional>
#include <utility>

#include "formats/formats.h"
#include "streams/card.h"
#include "streams/interrupt.h"

namespace torch_spyre {

constexpr c10::DeviceType kSpyre = c10::DeviceType::PrivateUse1;

// Reads the environment and configures the cards on first use (through Python, which owns the switches).
void ensure_configured();

int device_count();
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex index);
void set_default_device(c10::DeviceIndex index);              // where a thread starts: LOCAL_RANK
c10::DeviceIndex resolve(std::optional<c10::Device> device);  // checked; the current device if none is named

openspyre::Card& card_of(c10::DeviceIndex index);
openspyre::Stream& current_stream(c10::DeviceIndex index);
c10::Stream exchange_stream(c10::Stream stream);
openspyre::Stream& stream_of(const c10::Stream& stream);
c10::Stream as_torch(openspyre::Stream& stream);

// The operator that is at work in this thread, for errors to name: the outermost one, which the user called.
class OperatorAtWork {
 public:
  explicit OperatorAtWork(const char* name);  // must outlive this
  ~OperatorAtWork();
  OperatorAtWork(const OperatorAtWork&) = delete;
  OperatorAtWork& operator=(const OperatorAtWork&) = delete;

 private:
  bool outermost_;
};

// The card's view of a torch dtype; raises UnsupportedFormat naming it and the operator at work.
openspyre::DType dtype_of(c10::ScalarType type);
c10::ScalarType scalar_type_of(openspyre::DType dtype);
bool is_supported(c10::ScalarType type);

// A dtype that the card has no format for is held as the host's bytes and computed on the CPU: said once.
void announce_foreign(c10::ScalarType type);

// Whether int64 -> int32 is warned of, once.
bool downcast_warning();
void set_downcast_warning(bool enabled);

// What the sanitizer only warns of becomes Python warnings; called where the host meets the card.
void deliver_notices();

// Errors of the card become the catalogue's Python classes, out-of-memory torch's own OutOfMemoryError.
[[noreturn]] void rethrow(const openspyre::Error& error);
[[noreturn]] void rethrow(const openspyre::Interrupted& interrupted);  // as the signal's handler raised it

template <typename Body>
decltype(auto) translated(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const openspyre::Error& error) {
    rethrow(error);
  } catch (const openspyre::Interrupted& interrupted) {
    rethrow(interrupted);
  }
}

// Wraps a kernel for registration: TORCH_FN(Translated<&kernel>::call).
template <auto kernel>
struct Translated;
template <typename Result, typename... Arguments, Result (*kernel)(Arguments...)>
struct Translated<kernel> {
  static Result call(Arguments... arguments) {
    return translated([&]() -> Result { return kernel(std::forward<Arguments>(arguments)...); });
  }
};

// The two ends of int64 stand for "below and above everything", as in torch.masked. Numbers that are one of them become
// the ends of what the card holds (N8).
inline int64_t ends_of_int32(int64_t number) {
  if (number == std::numeric_limits<int64_t>::min()) return std::numeric_limits<int32_t>::min();
  return number == std::numeric_limits<int64_t>::max() ? std::numeric_limits<int32_t>::max() : number;
}

}  // namespace torch_spyre
