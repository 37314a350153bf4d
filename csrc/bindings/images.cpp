// Images of a card's memory for Python: bytes as they lie there, what the sanitizer knows of them, and scratchpads.
// Saved launches are made of them and run again from them.
#include "images.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "generated/machine.h"
#include "memory/scratchpad.h"
#include "sanitizer/shadow.h"
#include "streams/card.h"

namespace py = pybind11;
using namespace openspyre;

namespace {

py::bytes bytes_at(const std::byte* memory, uint64_t count) { return {reinterpret_cast<const char*>(memory), count}; }

std::optional<py::bytes> states_at(const std::byte* memory, uint64_t count) {
  const Shadow* shadow = Shadow::of(memory);
  if (!shadow) return std::nullopt;
  return py::bytes(reinterpret_cast<const char*>(shadow->at(memory)), count);
}

void set_states(std::byte* memory, std::string_view states) {
  const Shadow* shadow = Shadow::of(memory);
  if (!shadow) return;
  for (const char state : states) {
    if (static_cast<uint8_t>(state) > static_cast<uint8_t>(ByteState::Initialised))
      fail(Fault::InvalidArgument, "a byte's state is one of 5, not " + std::to_string(static_cast<uint8_t>(state)));
  }
  std::memcpy(shadow->at(memory), states.data(), states.size());
}

void settle(Card& card) {
  const py::gil_scoped_release unlocked;
  card.synchronize();
  card.settled_shadow();
}

// Both ends are looked at: a count too large must not lead out of the card.
std::byte* memory_of(const Card& card, Address address, uint64_t count) {
  std::byte* memory = card.translate(address);
  if (count > 0) card.translate(address + count - 1);
  return memory;
}

std::byte* scratchpad_of(Card& card, int core, uint64_t count) {
  const Scratchpads& pads = card.scratchpads();
  if (core < 0 || core >= kCardCores || count > pads.bytes_per_core())
    fail(Fault::InvalidArgument, "core " + std::to_string(core) + " has no " + std::to_string(count) +
                                     " bytes of scratchpad: there are " + std::to_string(kCardCores) + " cores with " +
                                     std::to_string(pads.bytes_per_core()) + " each");
  return pads.of(core);
}

}  // namespace

void bind_images(py::module_& m) {
  m.def("read_image", [](Card& card, Address address, uint64_t count) {
    settle(card);
    return bytes_at(memory_of(card, address, count), count);
  });
  m.def("read_states", [](Card& card, Address address, uint64_t count) {
    settle(card);
    return states_at(memory_of(card, address, count), count);
  });
  m.def("write_image", [](Card& card, Address address, const py::bytes& image, const py::bytes& states) {
    settle(card);
    const std::string_view bytes = image, known = states;
    std::byte* memory = memory_of(card, address, std::max(bytes.size(), known.size()));
    std::memcpy(memory, bytes.data(), bytes.size());
    set_states(memory, known);
  });
  m.def("read_scratchpad", [](Card& card, int core) {
    settle(card);
    const uint64_t count = card.scratchpads().bytes_per_core();
    const std::byte* memory = scratchpad_of(card, core, count);
    return py::make_tuple(bytes_at(memory, count), states_at(memory, count));
  });
  m.def("write_scratchpad", [](Card& card, int core, const py::bytes& image, const py::bytes& states) {
    settle(card);
    const std::string_view bytes = image, known = states;
    std::byte* memory = scratchpad_of(card, core, std::max(bytes.size(), known.size()));
    std::memcpy(memory, bytes.data(), bytes.size());
    set_states(memory, known);
  });
}
