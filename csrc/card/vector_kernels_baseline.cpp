#define ISA_NAME vector_kernels_baseline
#include "vector_kernels.inl"
