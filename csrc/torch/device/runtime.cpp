#include "device/runtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

namespace torch_spyre {

using openspyre::fail;
using openspyre::Fault;

namespace {

c10::DeviceIndex default_device = 0;
std::atomic<bool> warn_of_downcast{true};
thread_local const char* operator_at_work = nullptr;
thread_local c10::DeviceIndex thread_device = -1;  // -1: never chosen in this thread
thread_local std::array<int64_t, openspyre::kMaxCards> thread_stream{};

[[noreturn]] void no_such_device(int index) {
  fail(Fault::InvalidDevice,
       "there is no device spyre:" + std::to_string(index) + ": " + std::to_string(device_count()) +
           " card(s) visible, numbered from 0; OPENSPYRE_CARDS sets how many the host has (1 to 8), "
           "SPYRE_DEVICES and AIU_WORLD_SIZE may hide some, LOCAL_RANK chooses the one a process starts with");
}

}  // namespace

bool downcast_warning() { return warn_of_downcast.load(std::memory_order_relaxed); }
void set_downcast_warning(bool enabled) { warn_of_downcast = enabled; }

int device_count() {
  ensure_configured();
  return openspyre::card_count();
}

c10::DeviceIndex current_device() { return thread_device < 0 ? default_device : thread_device; }

void set_current_device(c10::DeviceIndex index) {
  if (index < 0 || index >= device_count()) no_such_device(index);
  thread_device = index;
}

void set_default_device(c10::DeviceIndex index) { default_device = index; }

c10::DeviceIndex resolve(std::optional<c10::Device> device) {
  const c10::DeviceIndex index = device && device->has_index() ? device->index() : current_device();
  if (index < 0 || index >= device_count()) no_such_device(index);
  return index;
}

openspyre::Card& card_of(c10::DeviceIndex index) {
  ensure_configured();
  return openspyre::card(index);
}

openspyre::Stream& current_stream(c10::DeviceIndex index) { return card_of(index).stream(thread_stream[index]); }

c10::Stream exchange_stream(c10::Stream stream) {
  stream_of(stream);  // checks device and id
  const int64_t before = std::exchange(thread_stream[stream.device_index()], stream.id());
  return c10::Stream(c10::Stream::UNSAFE, stream.device(), before);
}

openspyre::Stream& stream_of(const c10::Stream& stream) {
  return card_of(resolve(stream.device())).stream(stream.id());
}

c10::Stream as_torch(openspyre::Stream& stream) {
  const auto index = static_cast<c10::DeviceIndex>(stream.card().index());
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kSpyre, index), stream.id());
}

namespace {
constexpr c10::ScalarType torch_type(openspyre::DType dtype) {
  using openspyre::DType;
  switch (dtype) {
    case DType::Bool:
      return c10::ScalarType::Bool;
    case DType::UInt8:
      return c10::ScalarType::Byte;
    case DType::Int8:
      return c10::ScalarType::Char;
    case DType::Int16:
      return c10::ScalarType::Short;
    case DType::Int32:
      return c10::ScalarType::Int;
    case DType::Int64:
      return c10::ScalarType::Long;
    case DType::Float16:
      return c10::ScalarType::Half;
    case DType::BFloat16:
      return c10::ScalarType::BFloat16;
    case DType::Float32:
      return c10::ScalarType::Float;
    case DType::Float8E4M3FN:
      return c10::ScalarType::Float8_e4m3fn;
    case DType::Float8E5M2FNUZ:
      return c10::ScalarType::Float8_e5m2fnuz;
  }
  return c10::ScalarType::Undefined;
}

constexpr auto kScalarTypes = [] {
  std::array<c10::ScalarType, openspyre::kDTypeCount> types{};
  for (size_t i = 0; i < types.size(); ++i) types[i] = torch_type(static_cast<openspyre::DType>(i));
  return types;
}();

std::optional<openspyre::DType> find_dtype(c10::ScalarType type) {
  const auto* found = std::find(std::begin(kScalarTypes), std::end(kScalarTypes), type);
  if (found == std::end(kScalarTypes)) return std::nullopt;
  return static_cast<openspyre::DType>(found - kScalarTypes.begin());
}
}  // namespace

c10::ScalarType scalar_type_of(openspyre::DType dtype) { return kScalarTypes[static_cast<size_t>(dtype)]; }

bool is_supported(c10::ScalarType type) { return find_dtype(type).has_value(); }

openspyre::DType dtype_of(c10::ScalarType type) {
  if (const auto dtype = find_dtype(type)) return *dtype;
  const std::string who = operator_at_work ? std::string(operator_at_work) + ": " : "";
  fail(Fault::UnsupportedFormat,
       who + "Spyre backend does not support dtype " + std::string(c10::getDtypeNames(type).first) +
           " here: the card has formats and layouts for bool, uint8, int8, int16, int32, int64 (as int32), float16, "
           "bfloat16, float32, float8_e4m3fn and float8_e5m2fnuz; other dtypes are held as the host has them and "
           "computed "
           "on the CPU, without a layout; convert first, for example x.to(torch.float32)");
}

OperatorAtWork::OperatorAtWork(const char* name) : outermost_(operator_at_work == nullptr) {
  if (outermost_) operator_at_work = name;
}
OperatorAtWork::~OperatorAtWork() {
  if (outermost_) operator_at_work = nullptr;
}

}  // namespace torch_spyre
