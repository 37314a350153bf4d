#if defined(__x86_64__)
#define ISA_TABLE kAvx512Table
#include "formats/convert_vector.inl"
#endif
