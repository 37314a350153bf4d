#define ISA_TABLE kBaselineTable
#include "formats/convert_vector.inl"
