#if defined(__x86_64__)
#define ISA_TABLE kAvx2Table
#include "formats/convert_vector.inl"
#endif
