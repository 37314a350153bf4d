#if defined(__x86_64__)
#define ISA_NAME vector_kernels_avx512
#include "kernels/vector_kernels.inl"
#endif
