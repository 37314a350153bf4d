// Finds a vectorised conversion in the table of an instruction set. Each gives the bits of exact_conversion; a test
// compares the two over every pattern.
#include <bit>

#include "formats/convert_table.h"

namespace openspyre::convert {
namespace {

const VectorTable& table_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::Avx512) return kAvx512Table;
  if (isa == Isa::Avx2) return kAvx2Table;
#endif
  (void)isa;
  return kBaselineTable;
}

}  // namespace

Conversion vector_conversion(Codec source, Codec target, Isa isa) {
  for (const HotPair& pair : table_of(isa).pairs) {
    if (pair.source == source && pair.target == target) return pair.conversion;
  }
  return {};
}

ConvertGrid grid_copy(int itemsize, Isa isa) {
  return table_of(isa).copies[std::countr_zero(static_cast<unsigned>(itemsize))];
}

}  // namespace openspyre::convert
