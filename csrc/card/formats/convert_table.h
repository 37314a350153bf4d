// The vectorised conversions of one instruction set.
#pragma once

#include "formats/convert.h"

namespace openspyre::convert {

struct HotPair {
  Codec source, target;
  Conversion conversion;
};

struct VectorTable {
  HotPair pairs[30];
  ConvertGrid copies[4];  // of elements of 1, 2, 4 and 8 bytes
};

extern const VectorTable kBaselineTable;
#if defined(__x86_64__)
extern const VectorTable kAvx2Table;
extern const VectorTable kAvx512Table;
#endif

}  // namespace openspyre::convert
