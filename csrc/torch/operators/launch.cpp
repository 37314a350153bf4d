#include "operators/launch.h"

#include <memory>

#include "profiler/described_program.h"
#include "profiler/trace.h"
#include "python/shown_launches.h"

namespace torch_spyre {
namespace {

std::atomic<int64_t> launches{0};

// True if no index of the view carries from one group of the layout into the next: then only the lane of its start
// matters.
bool walks_within_groups(const openspyre::BufferShape& shape, const at::Tensor& tensor) {
  int64_t rest = tensor.storage_offset();
  c10::SmallVector<int64_t, 8> steps(tensor.strides().begin(), tensor.strides().end());
  for (const openspyre::Group& group : shape.groups()) {
    int64_t reach = rest / group.base_stride;
    rest %= group.base_stride;
    for (size_t dim = 0; dim < steps.size(); ++dim) {
      reach += steps[dim] / group.base_stride * (tensor.size(static_cast<int64_t>(dim)) - 1);
      steps[dim] %= group.base_stride;
    }
    if (reach >= group.extent) return false;
  }
  return rest == 0;
}

struct Launch {
  LoadedPlanPtr loaded;
  openspyre::Card* card;
  c10::SmallVector<openspyre::Address, 6> addresses;
  c10::SmallVector<int64_t, 6> offsets, host_offsets;
  c10::SmallVector<uint32_t, 4> scalars;
  TracedWorkPtr traced = nullptr;

  void add(openspyre::Address address, int64_t offset = 0, int64_t host_offset = 0) {
    addresses.push_back(address);
    offsets.push_back(offset);
    host_offsets.push_back(host_offset);
  }
  void operator()() const {
    const auto view = [](const auto& list) { return std::span(list.data(), list.size()); };
    const TracedRun run(traced.get());
    auto* const times = traced ? &traced->times : nullptr;
    try {
      loaded->program->run(*card, {view(addresses), view(offsets), view(host_offsets), view(scalars), {}, times});
    } catch (const openspyre::Error& error) {
      openspyre::fail(error.kind, error.what() + origin_in_error(loaded->plan.described, error.what()));
    }
  }
};

// Apart, so that a launch that nobody observes is as short as can be.
[[gnu::cold, gnu::noinline]] void tell_launch(const char* name, const CallPlan& plan) {
  tell({.name = name, .predicted = plan.predicted});
}

[[gnu::cold, gnu::noinline]] TracedWorkPtr trace_launch(const char* name, const LoadedPlanPtr& loaded,
                                                        const openspyre::Stream& stream) {
  TracedWorkPtr work = trace_call(TracedWork::Kind::Launch, name, stream.card().index(), stream.id());
  work->loaded = loaded;
  if (work->times.with_steps && work->name.starts_with("aten::")) work->site = openspyre::site_now();
  return work;
}

[[gnu::cold, gnu::noinline]] int64_t show(const char* name, const Launch& work, GivenTensors given,
                                          const Results& results, const openspyre::Block* pool,
                                          openspyre::Stream& stream) {
  const CallPlan& plan = work.loaded->plan;
  std::vector<ShownArgument> arguments;
  const auto add = [&](size_t bytes) {
    const size_t i = arguments.size();
    arguments.push_back({work.addresses[i], bytes, work.offsets[i], work.host_offsets[i]});
  };
  for (const int symbol : plan.symbols) {
    const BufferRecord& record = record_of(symbol >= 0 ? *given[symbol] : results[-1 - symbol]);
    add(record.block ? record.block->bytes : 0);
  }
  for (const ConstantTensorPtr& constant : plan.tensors) add(static_cast<size_t>(constant->shape()->device_bytes()));
  if (pool) add(pool->bytes);
  return show_launch(name, plan.program, stream, arguments, {work.scalars.data(), work.scalars.size()});
}

}  // namespace

int64_t launch_count() { return launches.load(std::memory_order_relaxed); }

int64_t offset_class(const openspyre::BufferShape& shape, const at::Tensor& tensor) {
  const int64_t offset = tensor.storage_offset();
  if (tensor.numel() == 0 || !walks_within_groups(shape, tensor)) return -1 - offset;
  return shape.device_offset(offset) % openspyre::elems_per_stick(shape.layout().format);
}

void make_results(const CallPlan& plan, GivenTensors given, c10::DeviceIndex device, Results& results) {
  for (const ResultPlan& result : plan.results) {
    results.push_back(result.argument >= 0
                          ? *given[result.argument]
                          : new_tensor(result.size, result.stride, result.dtype, result.shape, device));
  }
}

void launch(const char* name, LoadedPlanPtr loaded, GivenTensors given, const Results& results,
            std::span<const uint32_t> scalars, c10::DeviceIndex device) {
  const CallPlan& plan = loaded->plan;
  openspyre::Stream& stream = current_stream(device);
  const TracedWorkPtr traced = is_traced() ? trace_launch(name, loaded, stream) : nullptr;
  Launch work{std::move(loaded), &stream.card(), {}, {}, {}, {scalars.begin(), scalars.end()}, traced};
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    const int symbol = plan.symbols[i];
    const at::Tensor& tensor = symbol >= 0 ? *given[symbol] : results[-1 - symbol];
    const BufferRecord& record = record_of(tensor);
    const int64_t offset = tensor.storage_offset(), compiled = plan.compiled_offsets[i];
    const int64_t moved =
        offset == compiled ? 0 : record.shape->device_offset(offset) - record.shape->device_offset(compiled);
    work.add(record.block ? record.block->address : 0, moved, offset - compiled);
  }
  for (const ConstantTensorPtr& constant : plan.tensors) work.add(constant->on(device));
  OwnedBlock pool;  // given back in stream order: the launch is before it
  if (plan.pool_bytes > 0) {
    pool.reset(allocate_block(*work.card, plan.pool_bytes, stream.id(), name));
    work.add(pool->address);
  }
  if (is_observed()) [[unlikely]]
    tell_launch(name, plan);
  const bool shown = launches_are_shown.load(std::memory_order_relaxed);
  const int64_t seen = shown ? show(name, work, given, results, pool.get(), stream) : 0;
  const openspyre::PreparedProgram& program = *work.loaded->program;
  const openspyre::Ticket ticket = stream.submit(name, std::move(work), program.lengthy(), &program.program().work);
  for (const at::Tensor& result : results) record_of(result).written_by(stream, ticket);
  launches.fetch_add(1, std::memory_order_relaxed);
  returned(traced);
  if (shown) [[unlikely]]
    wait_shown(seen, stream, ticket);
  deliver_notices();
}

}  // namespace torch_spyre
