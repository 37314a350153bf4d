#define ISA_TABLE kBaselineTable
#include "convert_vector.inl"
