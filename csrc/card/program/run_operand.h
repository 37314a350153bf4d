// Operands of steps that go through runs of elements which lie one behind the other, wherever they begin.
#pragma once

#include <array>
#include <cstddef>

#include "program/program.h"

namespace openspyre {

constexpr int kRunLanes = 128;  // whole sticks of every format
using RunBytes = std::array<std::byte, kRunLanes * 8>;

// A piece of a run, copied to where sticks begin: sticks one behind the other.
inline Operand as_run(Operand operand) {
  operand.kind = OperandKind::Vector;
  operand.tile_stride = elems_per_stick(operand.element.format);
  return operand;
}

}  // namespace openspyre
