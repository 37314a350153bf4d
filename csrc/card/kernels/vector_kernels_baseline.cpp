#define ISA_NAME vector_kernels_baseline
#include "kernels/vector_kernels.inl"
