#include "kernels/vector_kernels.h"

namespace openspyre {

extern const VectorKernels& vector_kernels_baseline;
#if defined(__x86_64__)
extern const VectorKernels& vector_kernels_avx2;
extern const VectorKernels& vector_kernels_avx512;
#endif

const VectorKernels& vector_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::Avx512) return vector_kernels_avx512;
  if (isa == Isa::Avx2) return vector_kernels_avx2;
#endif
  (void)isa;
  return vector_kernels_baseline;
}

}  // namespace openspyre
