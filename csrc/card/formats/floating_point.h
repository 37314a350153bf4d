// The card's floating-point state: round to nearest, subnormals kept (contract N2), whatever the calling thread has
// set.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cfenv>
#endif

namespace openspyre {

#if defined(__x86_64__)
// Enters the card's state and gives the caller's back. SSE and AVX read MXCSR only; x87 is not used by the card.
class FloatingPointScope {
 public:
  FloatingPointScope() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~FloatingPointScope() { _mm_setcsr(saved_); }
  static void enter_forever() { _mm_setcsr(kDefault); }

 private:
  static constexpr unsigned kDefault = 0x1F80;  // all exceptions masked, nearest even, no FTZ, no DAZ
  unsigned saved_;
};
#else
class FloatingPointScope {
 public:
  FloatingPointScope() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatingPointScope() { std::fesetenv(&saved_); }
  static void enter_forever() { std::fesetenv(FE_DFL_ENV); }

 private:
  std::fenv_t saved_;
};
#endif

}  // namespace openspyre
