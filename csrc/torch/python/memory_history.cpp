// The history of the cards' memory for Python: a dictionary as torch's own viewer of snapshots reads it.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <mutex>

#include "device/device_block.h"
#include "memory/history.h"
#include "python/python_half.h"

namespace py = pybind11;

// torch's header that declares it asks for a JSON library that comes with no torch.
namespace torch {
std::vector<py::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
}

namespace torch_spyre {
namespace {

using openspyre::HistoryOptions;
using openspyre::MemoryAction;
using openspyre::MemorySnapshot;
using openspyre::OriginPtr;

constexpr const char* kActions[] = {
    "alloc", "free_requested", "free_completed", "segment_map", "segment_unmap", "snapshot", "oom"};
constexpr const char* kStates[] = {"active_allocated", "active_pending_free", "inactive"};

struct Stack {
  std::shared_ptr<torch::CapturedTraceback> frames;
  std::string module;    // the innermost torch.nn.Module at work
  std::string backward;  // the node of autograd that runs: its thread may have no line of Python
};

// How a call of a torch.nn.Module looks in a stack, and who knows the module's path by its frame.
struct [[gnu::visibility("hidden")]] ModuleCalls {
  py::object code, path;
};
ModuleCalls& module_calls() {
  static auto* instance = new ModuleCalls;
  return *instance;
}

py::object take(PyObject* object) { return py::reinterpret_steal<py::object>(object); }

std::string module_at_work() {
  if (!Py_IsInitialized() || !PyGILState_GetThisThreadState()) return "";  // a thread that Python does not know
  const py::gil_scoped_acquire gil;
  const py::error_scope keep;  // a caller's error stays what it is
  if (!module_calls().code) return "";
  py::object frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* at = reinterpret_cast<PyFrameObject*>(frame.ptr());
    if (take(reinterpret_cast<PyObject*>(PyFrame_GetCode(at))).is(module_calls().code)) {
      const Unwatched unwatched;
      return py::cast<std::string>(module_calls().path(frame));
    }
    frame = take(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return "";
}

std::shared_ptr<void> gather_stack(bool foreign_frames) {
  auto stack = std::make_shared<Stack>();
  stack->frames = torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, foreign_frames);
  stack->module = module_at_work();
  if (const auto node = torch::autograd::get_current_node()) stack->backward = node->name();
  return stack;
}

const Stack* stack_of(const OriginPtr& origin) {
  return origin ? static_cast<const Stack*>(origin->stack.get()) : nullptr;
}

std::string module_of(const OriginPtr& origin) {
  const Stack* stack = stack_of(origin);
  return stack ? stack->module : "";
}

// The frames of all origins of a snapshot at once: most of them share most of their frames.
class [[gnu::visibility("hidden")]] Frames {
 public:
  void add(const OriginPtr& origin) {
    if (origin && known_.emplace(origin.get(), py::none()).second) origins_.push_back(origin);
  }

  void read() {
    std::vector<torch::CapturedTraceback*> stacks;
    for (const OriginPtr& origin : origins_)
      if (const Stack* stack = stack_of(origin)) stacks.push_back(stack->frames.get());
    const std::vector<py::object> read = torch::py_symbolize(stacks);
    size_t next = 0;
    for (const OriginPtr& origin : origins_) {
      py::list frames;
      if (!origin->purpose.empty()) frames.append(named_frame("<spyre>", origin->purpose));
      if (origin->stack)
        for (const py::handle frame : read[next++]) frames.append(frame);
      if (const Stack* stack = stack_of(origin); stack && !stack->backward.empty())
        frames.append(named_frame("<backward>", stack->backward));
      known_[origin.get()] = frames;
    }
  }

  py::object of(const OriginPtr& origin) const { return origin ? known_.at(origin.get()) : py::object(py::list()); }

 private:
  static py::dict named_frame(const char* file, const std::string& name) {
    py::dict frame;
    frame["filename"] = file;
    frame["line"] = 0;
    frame["name"] = name;
    return frame;
  }
  std::vector<OriginPtr> origins_;
  std::unordered_map<const openspyre::Origin*, py::object> known_;
};

py::dict as_block(const MemorySnapshot::Piece& piece, const Frames& frames) {
  py::dict block;
  block["address"] = piece.address;
  block["size"] = piece.bytes;
  block["requested_size"] = piece.requested;
  block["state"] = kStates[static_cast<size_t>(piece.state)];
  block["frames"] = frames.of(piece.origin);
  return block;
}

// A segment is a run of memory that the host backs. It grows and shrinks like torch's expandable ones.
py::dict as_segment(int device, const MemorySnapshot::Piece* begin, const MemorySnapshot::Piece* end,
                    const Frames& frames) {
  py::dict segment;
  py::list blocks;
  size_t total = 0, allocated = 0, active = 0, requested = 0;
  for (const auto* piece = begin; piece != end; ++piece) {
    total += piece->bytes;
    requested += piece->requested;
    if (piece->state == MemorySnapshot::State::Allocated) allocated += piece->bytes;
    if (piece->state != MemorySnapshot::State::Inactive) active += piece->bytes;
    blocks.append(as_block(*piece, frames));
  }
  segment["device"] = device;
  segment["address"] = begin->address;
  segment["total_size"] = total;
  segment["allocated_size"] = allocated;
  segment["active_size"] = active;
  segment["requested_size"] = requested;
  segment["stream"] = openspyre::kPageStream;
  segment["segment_type"] = "large";
  segment["segment_pool_id"] = py::make_tuple(0, 0);
  segment["is_expandable"] = true;
  segment["frames"] = py::list();
  segment["blocks"] = blocks;
  return segment;
}

void add_segments(py::list& segments, int device, const MemorySnapshot& snapshot, const Frames& frames) {
  const auto& pieces = snapshot.pieces;
  for (size_t begin = 0, end = 0; begin < pieces.size(); begin = end) {
    for (end = begin + 1; end < pieces.size(); ++end)
      if (pieces[end - 1].address + pieces[end - 1].bytes != pieces[end].address) break;
    segments.append(as_segment(device, &pieces[begin], pieces.data() + end, frames));
  }
}

py::dict as_entry(const openspyre::MemoryEntry& entry, const Frames& frames) {
  py::dict told;
  told["action"] = kActions[static_cast<size_t>(entry.action)];
  told[entry.action == MemoryAction::OutOfMemory ? "device_free" : "addr"] = entry.address;
  told["size"] = entry.bytes;
  told["stream"] = entry.stream;
  told["time_us"] = entry.time_us;
  told["frames"] = frames.of(entry.origin);
  told["compile_context"] = "";
  told["user_metadata"] = module_of(entry.origin);
  told["pool_id"] = py::make_tuple(0, 0);
  return told;
}

py::list as_shares(const std::vector<MemorySnapshot::Share>& shares, const Frames& frames) {
  py::list told;
  for (const auto& share : shares)
    told.append(py::make_tuple(share.bytes, frames.of(share.origin), module_of(share.origin)));
  return told;
}

std::vector<MemorySnapshot> snapshots() {
  const py::gil_scoped_release no_gil;
  return translated([] {
    std::vector<MemorySnapshot> taken(static_cast<size_t>(device_count()));
    for (size_t index = 0; index < taken.size(); ++index)
      if (openspyre::Card* card = openspyre::started_card(static_cast<int>(index)))
        taken[index] = card->memory_snapshot();
    return taken;
  });
}

py::dict memory_snapshot(bool with_traces) {
  std::vector<MemorySnapshot> taken = snapshots();
  Frames frames;
  for (MemorySnapshot& snapshot : taken) {
    if (!with_traces) snapshot.trace.clear();
    for (const auto& piece : snapshot.pieces) frames.add(piece.origin);
    for (const auto& entry : snapshot.trace) frames.add(entry.origin);
  }
  frames.read();
  py::list segments, traces;
  for (size_t index = 0; index < taken.size(); ++index) {
    add_segments(segments, static_cast<int>(index), taken[index], frames);
    py::list trace;
    for (const auto& entry : taken[index].trace) trace.append(as_entry(entry, frames));
    traces.append(trace);
  }
  py::dict told;
  told["segments"] = segments;
  told["device_traces"] = traces;
  return told;
}

// ((bytes, blocks of it), at the peak and now)
py::tuple memory_shares(int device) {
  openspyre::Card* card = translated([&] { return openspyre::started_card(device); });
  MemorySnapshot snapshot;
  if (card) {
    const py::gil_scoped_release no_gil;
    snapshot = translated([&] { return card->memory_snapshot(); });
  }
  Frames frames;
  for (const auto* shares : {&snapshot.peak, &snapshot.held})
    for (const auto& share : *shares) frames.add(share.origin);
  frames.read();
  return py::make_tuple(py::make_tuple(snapshot.peak_bytes, as_shares(snapshot.peak, frames)),
                        py::make_tuple(snapshot.held_bytes, as_shares(snapshot.held, frames)));
}

void record(bool blocks, bool trace, int stacks, bool foreign_frames, size_t max_entries,
            const std::vector<std::string>& skipped, bool clear) {
  HistoryOptions options{blocks, trace, static_cast<HistoryOptions::Stacks>(stacks), foreign_frames, max_entries, 0};
  for (const std::string& name : skipped)
    for (size_t action = 0; action < std::size(kActions); ++action)
      if (name == kActions[action]) options.skipped |= 1u << action;
  const py::gil_scoped_release no_gil;
  translated([&] { openspyre::record_memory(options, clear); });
}

// Observers are never forgotten, as those of torch.cuda.
struct [[gnu::visibility("hidden")]] Observers {
  std::mutex mutex;
  std::vector<py::object> callables;
};
Observers& observers() {
  static auto* instance = new Observers;
  return *instance;
}
std::atomic<bool> any_observer{false};

void attach_observer(py::object callable) {
  std::lock_guard lock(observers().mutex);
  observers().callables.push_back(std::move(callable));
  any_observer.store(true);
}

}  // namespace

void tell_out_of_memory(int device, size_t requested, size_t allocated, size_t free) {
  if (!any_observer.load()) return;
  const py::gil_scoped_acquire gil;
  std::vector<py::object> callables;
  {
    std::lock_guard lock(observers().mutex);
    callables = observers().callables;
  }
  for (const py::object& callable : callables) call_python(callable, device, requested, allocated, free);
}

void bind_memory_history(py::module_& m) {
  openspyre::set_stack_source(&gather_stack);
  m.def("name_modules", [](py::object code, py::object path) { module_calls() = {std::move(code), std::move(path)}; });
  m.def("record_memory", &record);
  m.def("memory_recorded", &openspyre::memory_recorded);
  m.def("memory_snapshot", &memory_snapshot, py::arg("with_traces"));
  m.def("memory_shares", &memory_shares);
  m.def("attach_out_of_memory_observer", &attach_observer);
}

}  // namespace torch_spyre
