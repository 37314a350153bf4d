#include "python/shown_launches.h"

#include <pybind11/stl.h>

#include "python/python_half.h"

namespace torch_spyre {
namespace {

struct Watcher {
  pybind11::object before;  // (name, program, card, stream, arguments, scalars): a number for what it has seen
  pybind11::object after;   // (that number, fault, message): both empty if all went well
};
Watcher& watcher() {  // lives as long as the process
  static auto* instance = new Watcher;
  return *instance;
}

void ended(int64_t shown, const char* fault, const char* message) {
  pybind11::gil_scoped_acquire gil;
  call_python(watcher().after, shown, fault, message);
}

}  // namespace

std::atomic<bool> launches_are_shown{false};

int64_t show_launch(const char* name, uint64_t program, openspyre::Stream& stream,
                    const std::vector<ShownArgument>& arguments, std::span<const uint32_t> scalars) {
  stream.synchronize();  // errors of what came before are not this launch's
  pybind11::gil_scoped_acquire gil;
  return with_python_errors([&] {
    pybind11::list told;
    for (const ShownArgument& argument : arguments)
      told.append(pybind11::make_tuple(argument.address, argument.bytes, argument.offset, argument.host_offset));
    const std::vector<uint32_t> words(scalars.begin(), scalars.end());
    return pybind11::cast<int64_t>(watcher().before(name, program, stream.card().index(), stream.id(), told, words));
  });
}

void wait_shown(int64_t shown, openspyre::Stream& stream, openspyre::Ticket ticket) {
  try {
    stream.wait(ticket);
  } catch (const openspyre::Error& error) {
    ended(shown, openspyre::name(error.kind), error.what());
    throw;
  } catch (...) {
    ended(shown, "Interrupted", "the wait for it was interrupted");
    throw;
  }
  ended(shown, "", "");
}

void bind_shown_launches(pybind11::module_& m) {
  m.def("show_launches", [](pybind11::object before, pybind11::object after) {
    const bool wanted = !before.is_none();
    if (wanted) watcher() = {std::move(before), std::move(after)};
    launches_are_shown.store(wanted, std::memory_order_release);
  });
}

}  // namespace torch_spyre
