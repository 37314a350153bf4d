#include "program/port.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "dma/transpose.h"
#include "program/nest.h"

namespace openspyre {
namespace {

constexpr DeviceElement kFloatRegister{DType::Float32, DataFormat::IEEE_FP32};
constexpr DeviceElement kIntRegister{DType::Int32, DataFormat::IEEE_INT32};

bool is_float(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16 || dtype == DType::Float32 ||
         dtype == DType::Float8E4M3FN || dtype == DType::Float8E5M2FNUZ;
}

std::optional<HotFormat> hot_format(DeviceElement element) {
  switch (element.format) {
    case DataFormat::SEN169_FP16:
      if (is_float(element.dtype)) return HotFormat::Sen169;
      if (element.dtype == DType::Bool) return HotFormat::BoolSen169;
      return std::nullopt;
    case DataFormat::IEEE_FP32:
      return is_float(element.dtype) ? std::optional(HotFormat::Fp32) : std::nullopt;
    case DataFormat::IEEE_INT32:
      return element.dtype == DType::Int32 || element.dtype == DType::Int64 ? std::optional(HotFormat::Word)
                                                                            : std::nullopt;
    case DataFormat::SENUINT32:
      return element.dtype == DType::UInt8 ? std::optional(HotFormat::UInt8Word) : std::nullopt;
    case DataFormat::SENINT16:
      return element.dtype == DType::Int16 ? std::optional(HotFormat::Int16) : std::nullopt;
    case DataFormat::SENINT8:
      return element.dtype == DType::Int8 ? std::optional(HotFormat::Int8) : std::nullopt;
    case DataFormat::SEN143_FP8:
      return element.dtype == DType::Float8E4M3FN ? std::optional(HotFormat::Fp8E4M3) : std::nullopt;
    case DataFormat::SEN152_FP8:
      return element.dtype == DType::Float8E5M2FNUZ ? std::optional(HotFormat::Fp8E5M2) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool is_only_loaded(HotFormat format) { return format == HotFormat::Fp8E4M3 || format == HotFormat::Fp8E5M2; }

DeviceElement register_element(RegisterType type) { return type == RegisterType::Int ? kIntRegister : kFloatRegister; }

Port memory_port(const Operand& operand, int lanes) {
  Port port;
  port.kind = operand.kind;
  port.itemsize = device_itemsize(operand.element.format);
  port.lanes = lanes;
  port.stick_lanes = std::min(lanes, elems_per_stick(operand.element.format));
  port.stick_bytes = int64_t{port.stick_lanes} * port.itemsize;
  port.tile_stride = operand.tile_stride * port.itemsize;
  port.dense = port.stick_lanes == lanes || port.tile_stride == port.stick_bytes;
  const auto hot = hot_format(operand.element);
  port.bits = hot == HotFormat::Word || hot == HotFormat::Int16 || hot == HotFormat::Int8;
  return port;
}

void load_run(const Port& port, const std::byte* source, Lane* target, int64_t n) {
  if (port.load != nullptr) return port.load(source, target, n);
  port.convert(source, target, static_cast<size_t>(n));
}

void store_run(const Port& port, const Lane* source, std::byte* target, int64_t n) {
  if (port.store == nullptr || n % kLaneUnit != 0) {
    alignas(64) std::array<std::byte, kChunkLanes * 4> converted;
    if (port.store != nullptr) {
      port.store(source, converted.data(), (n + kLaneUnit - 1) / kLaneUnit * kLaneUnit);
    } else if (port.convert(source, converted.data(), static_cast<size_t>(n)) != static_cast<size_t>(n)) {
      fail(Fault::ValueOutOfRange, "a result has no place in the output's format; clamp it or use a wider type");
    }
    std::memcpy(target, converted.data(), static_cast<size_t>(n * port.itemsize));
    return;
  }
  port.store(source, target, n);
}

// Blocks at one place, as of an operand that all rows share, are converted once.
int repeats(const int64_t* offsets, int blocks) {
  int count = 1;
  while (count < blocks && offsets[count] == offsets[0]) ++count;
  return count;
}

void load_vectors(const Port& port, const std::byte* base, const int64_t* offsets, int blocks, Lane* target) {
  for (int i = 0; i < blocks;) {
    const std::byte* source = base + offsets[i];
    if (port.dense) {
      const int run = contiguous_blocks(port, offsets + i, blocks - i);
      const int alike = run > 1 ? 1 : repeats(offsets + i, blocks - i);
      load_run(port, source, target, int64_t{run} * port.lanes);
      for (int copy = 1; copy < alike; ++copy) std::copy_n(target, port.lanes, target + copy * port.lanes);
      target += run * alike * port.lanes;
      i += run * alike;
      continue;
    }
    for (int lane = 0; lane < port.lanes; lane += port.stick_lanes, source += port.tile_stride) {
      load_run(port, source, target, port.stick_lanes);
      target += port.stick_lanes;
    }
    ++i;
  }
}

// Blocks whose lanes are neighbours: their elements lie side by side in every stick.
int neighbouring_blocks(const Port& port, const int64_t* offsets, int blocks) {
  int length = 1;
  while (length < blocks && offsets[length] == offsets[length - 1] + port.itemsize) ++length;
  return length;
}

void load_strided(const Port& port, const std::byte* base, const int64_t* offsets, int blocks, Lane* target,
                  int valid) {
  const int lanes = std::min(valid, port.lanes);
  alignas(64) std::array<std::byte, kChunkLanes * 8> codes;
  const int64_t block_bytes = int64_t{port.lanes} * port.itemsize;
  for (int i = 0, run; i < blocks; i += run, target += run * port.lanes) {
    run = neighbouring_blocks(port, offsets + i, blocks - i);
    if (lanes < port.lanes) std::memset(codes.data(), 0, static_cast<size_t>(run * block_bytes));
    transpose({base + offsets[i], port.tile_stride, codes.data(), block_bytes, lanes, run}, port.itemsize);
    load_run(port, codes.data(), target, int64_t{run} * port.lanes);
  }
}

void load_splats(const Port& port, const std::byte* base, const int64_t* offsets, int blocks, Lane* target) {
  alignas(64) std::array<std::byte, kLaneUnit * 8> codes{};
  alignas(64) std::array<Lane, kLaneUnit> values;
  for (int i = 0; i < blocks; ++i)
    std::memcpy(codes.data() + i * port.itemsize, base + offsets[i], static_cast<size_t>(port.itemsize));
  load_run(port, codes.data(), values.data(), port.load != nullptr ? kLaneUnit : blocks);
  for (int i = 0, run; i < blocks; i += run) {
    run = repeats(offsets + i, blocks - i);
    std::fill_n(target + i * port.lanes, run * port.lanes, values[static_cast<size_t>(i)]);
  }
}

void load_iota(const Port& port, const int64_t* offsets, int blocks, Lane* target) {
  const auto step = static_cast<Lane>(port.tile_stride);
  for (int i = 0; i < blocks; ++i) {
    const auto first = static_cast<Lane>(port.first + offsets[i]);
    for (int lane = 0; lane < port.lanes; ++lane) *target++ = first + static_cast<Lane>(lane) * step;
  }
}

}  // namespace

RegisterType register_type(const Operand& operand) {
  if (operand.kind == OperandKind::Scalar) return RegisterType::Any;
  if (operand.kind == OperandKind::Iota) return RegisterType::Int;
  return is_float(operand.element.dtype) || operand.element.dtype == DType::Bool ? RegisterType::Float
                                                                                 : RegisterType::Int;
}

bool is_sen169(const Operand& operand) {
  return operand.kind != OperandKind::Scalar && operand.kind != OperandKind::Iota && is_float(operand.element.dtype) &&
         operand.element.format == DataFormat::SEN169_FP16;
}

bool can_load(const Operand& operand) {
  if (operand.kind == OperandKind::Scalar || operand.kind == OperandKind::Iota) return true;
  return device_itemsize(operand.element.format) > 0 &&
         (hot_format(operand.element) || between(operand.element, register_element(register_type(operand))));
}

bool can_store(const Operand& operand, RegisterType type) {
  if (operand.kind != OperandKind::Vector && operand.kind != OperandKind::Splat) return false;
  if (device_itemsize(operand.element.format) == 0) return false;
  if (operand.element.dtype != DType::Bool && type != RegisterType::Any && type != register_type(operand)) return false;
  const auto hot = hot_format(operand.element);
  return (hot && !is_only_loaded(*hot)) || between(register_element(type), operand.element);
}

Port load_port(const Operand& operand, int lanes, const VectorKernels& kernels) {
  if (operand.kind == OperandKind::Scalar || operand.kind == OperandKind::Iota) {
    Port port;
    port.kind = operand.kind;
    port.lanes = lanes;
    port.tile_stride = operand.tile_stride;
    port.first = operand.offset;
    return port;
  }
  Port port = memory_port(operand, lanes);
  if (const auto hot = hot_format(operand.element))
    port.load = kernels.load[static_cast<size_t>(*hot)];
  else
    port.convert = between(operand.element, register_element(register_type(operand)));
  return port;
}

Port store_port(const Operand& operand, RegisterType type, int lanes, const VectorKernels& kernels) {
  Port port = memory_port(operand, lanes);
  if (type == RegisterType::Any) type = register_type(operand);
  if (auto hot = hot_format(operand.element); hot && !is_only_loaded(*hot)) {
    if (*hot == HotFormat::BoolSen169 && type == RegisterType::Int) hot = HotFormat::BoolSen169FromInt;
    port.store = kernels.store[static_cast<size_t>(*hot)];
    port.sen169 = *hot == HotFormat::Sen169;
  } else {
    port.convert = between(register_element(type), operand.element);
  }
  return port;
}

int contiguous_blocks(const Port& port, const int64_t* offsets, int blocks) {
  const int64_t block_bytes = int64_t{port.lanes} * port.itemsize;
  int length = 1;
  while (length < blocks && offsets[length] == offsets[length - 1] + block_bytes) ++length;
  return length;
}

void load_blocks(const Port& port, const std::byte* base, const int64_t* offsets, int blocks, Lane* target, int valid) {
  switch (port.kind) {
    case OperandKind::Vector:
      return load_vectors(port, base, offsets, blocks, target);
    case OperandKind::Strided:
      return load_strided(port, base, offsets, blocks, target, valid);
    case OperandKind::Splat:
      return load_splats(port, base, offsets, blocks, target);
    case OperandKind::Iota:
      return load_iota(port, offsets, blocks, target);
    case OperandKind::Scalar:
      return;  // set once, before the first chunk
  }
}

void store_blocks(const Port& port, const Lane* source, std::byte* base, const int64_t* offsets, int blocks,
                  int valid) {
  if (port.kind == OperandKind::Splat) {
    alignas(64) std::array<Lane, kLaneUnit> values{};
    alignas(64) std::array<std::byte, kLaneUnit * 8> codes;
    for (int i = 0; i < blocks; ++i) values[static_cast<size_t>(i)] = source[i * port.lanes];
    store_run(port, values.data(), codes.data(), port.store != nullptr ? kLaneUnit : blocks);
    for (int i = 0; i < blocks; ++i)
      std::memcpy(base + offsets[i], codes.data() + i * port.itemsize, static_cast<size_t>(port.itemsize));
    return;
  }
  for (int i = 0; i < blocks;) {
    std::byte* target = base + offsets[i];
    if (port.dense) {
      const int run = valid == port.lanes ? contiguous_blocks(port, offsets + i, blocks - i) : 1;
      store_run(port, source, target, valid == port.lanes ? int64_t{run} * port.lanes : valid);
      source += run * port.lanes;
      i += run;
      continue;
    }
    for (int lane = 0; lane < valid; lane += port.stick_lanes, target += port.tile_stride)
      store_run(port, source + lane, target, std::min(port.stick_lanes, valid - lane));
    source += port.lanes;
    ++i;
  }
}

namespace {

void copy_vectors(const CopiedBlocks& copied, int blocks, int valid) {
  const Port &load = copied.load, &store = copied.store;
  for (int i = 0, run; i < blocks; i += run) {
    run = valid < load.lanes ? 1
                             : std::min(contiguous_blocks(load, copied.source_offsets + i, blocks - i),
                                        contiguous_blocks(store, copied.target_offsets + i, blocks - i));
    const int64_t lanes = int64_t{run - 1} * load.lanes + valid;
    // A bundle may copy a tensor onto a part of itself: a race of cores, which the sanitizer tells, and no harm to the
    // host.
    std::memmove(copied.target + copied.target_offsets[i], copied.source + copied.source_offsets[i],
                 static_cast<size_t>(lanes * load.itemsize));
  }
}

// Turned from memory to memory, as far as blocks are equally far apart on both sides.
void copy_strided(const CopiedBlocks& copied, int blocks, int valid) {
  const int64_t *from = copied.source_offsets, *to = copied.target_offsets;
  for (int i = 0, run; i < blocks; i += run) {
    run = neighbouring_blocks(copied.load, from + i, blocks - i);
    const int64_t pitch = run > 1 ? to[i + 1] - to[i] : copied.load.itemsize;
    for (int b = 2; b < run; ++b)
      if (to[i + b] - to[i + b - 1] != pitch) run = b;
    transpose({copied.source + from[i], copied.load.tile_stride, copied.target + to[i], pitch, valid, run},
              copied.load.itemsize);
  }
}

}  // namespace

bool can_copy(const Port& load, const Port& store) {
  const bool from_sticks = load.kind == OperandKind::Vector && load.dense;
  return load.bits && store.bits && load.itemsize == store.itemsize && store.kind == OperandKind::Vector &&
         store.dense && (from_sticks || load.kind == OperandKind::Strided);
}

void copy_blocks(const CopiedBlocks& copied, int blocks, int valid) {
  if (copied.load.kind == OperandKind::Strided) return copy_strided(copied, blocks, valid);
  copy_vectors(copied, blocks, valid);
}

void copy_run(const std::byte* source, std::byte* target, int64_t count, const BlockRun& run) {
  constexpr int64_t kAhead = 8;  // sticks that are on their way from memory
  if (run.source_stride == run.block && run.target_stride == run.block) {
    std::memmove(target, source, static_cast<size_t>(count * run.block));
    return;
  }
  if (run.block == kStickBytes) {  // a constant size is a few vector moves instead of a call
    for (int64_t i = 0; i < count; ++i, source += run.source_stride, target += run.target_stride) {
      __builtin_prefetch(source + kAhead * run.source_stride);
      __builtin_prefetch(source + kAhead * run.source_stride + kStickBytes / 2);
      std::array<std::byte, kStickBytes> stick;
      std::memcpy(stick.data(), source, kStickBytes);
      std::memcpy(target, stick.data(), kStickBytes);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i, source += run.source_stride, target += run.target_stride)
    std::memmove(target, source, static_cast<size_t>(run.block));
}

}  // namespace openspyre
