// The contraction's inner loops for every host: vectors of four lanes that the compiler maps to what there is.
// Where the instruction set has no FMA, it is made of exact double arithmetic, with the same bits.
#include "kernels/contract_block.h"
#include "kernels/contract_kernels.h"

namespace openspyre::contract {
namespace {

struct Baseline {
  using F [[gnu::vector_size(16)]] = float;
  using D [[gnu::vector_size(32)]] = double;
  using I [[gnu::vector_size(16)]] = int32_t;
  using L [[gnu::vector_size(32)]] = int64_t;
  using Half [[gnu::vector_size(8)]] = uint16_t;
  struct Watch {};
  static constexpr bool kWatches = false, kTurnsInRegisters = false;
  static constexpr int kLanes = 4, kPanel = 8, kRows = 4, kStreamRows = 4, kWidenRows = 4, kRun = 4;

  CONTRACT_INLINE static F zero() { return F{}; }
  template <typename Vector>
  CONTRACT_INLINE static Vector load_as(const void* from) {
    Vector lanes;
    __builtin_memcpy(&lanes, from, sizeof lanes);
    return lanes;
  }
  CONTRACT_INLINE static F load(const float* from) { return load_as<F>(from); }
  CONTRACT_INLINE static void store(float* to, F lanes) { __builtin_memcpy(to, &lanes, sizeof lanes); }
  // No sum with zeros: that would lose the sign of -0.
  CONTRACT_INLINE static F broadcast(const float* from) { return F{*from, *from, *from, *from}; }

#if defined(__FP_FAST_FMAF)
  CONTRACT_INLINE static F fma(F a, F b, F c) {
    for (int i = 0; i < kLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
  }
#else
  // The product is exact in double. The sum is rounded to odd: an inexact one gets an odd last bit, so that rounding
  // it once more, to float, gives what rounding the exact sum would.
  CONTRACT_INLINE static F fma(F a, F b, F c) {
    const D product = __builtin_convertvector(a, D) * __builtin_convertvector(b, D);
    const D addend = __builtin_convertvector(c, D);
    const D sum = product + addend;
    const D part = sum - product;
    const D error = (product - (sum - part)) + (addend - part);
    const L bits = (L)sum;
    const L inexact = (error < 0.0) | (error > 0.0);  // false for the NaN that an infinite sum leaves here
    const L even = (bits & 1) - 1;
    const L outward = ((bits ^ (L)error) >= 0) & 2;  // the error points away from zero
    return __builtin_convertvector((D)(bits + ((outward - 1) & inexact & even)), F);
  }
#endif

  CONTRACT_INLINE static Watch watch() { return {}; }
  CONTRACT_INLINE static bool clean(Watch) { return true; }

  CONTRACT_INLINE static F widened(const uint16_t* from) {
    const I codes = __builtin_convertvector(load_as<Half>(from), I);
    const I magnitude = (codes & 0x7FFF) << 14;
    const I special = magnitude >= (0x7FFE << 14);
    const I finite = (magnitude + (96 << 23)) & (magnitude != 0);
    const I nan = special & ((0x7FFF << 14) - magnitude);  // its code is one less than infinity's
    return (F)((finite & ~special) | (special & 0x7F800000) | nan | ((codes & 0x8000) << 16));
  }
  CONTRACT_INLINE static F widened(const float* from) { return load(from); }

  template <typename Element>
  CONTRACT_INLINE static void widen_exactly(const Element* from, float* to) {
    store(to, widened(from));
  }
  template <typename Element>
  CONTRACT_INLINE static void widen_watching(const Element* from, float* to, Watch&) {
    store(to, widened(from));
  }

  template <bool exact, typename Element>
  CONTRACT_INLINE static void widen_in_registers(const Element* from, F* to, Watch&) {
    *to = widened(from);
  }

  // As sen169_from_float, but a NaN loses its sign.
  template <typename From>
  CONTRACT_INLINE static void round_panel(const float* sums, uint16_t* to) {
    for (int i = 0; i < kPanel; i += kLanes) {
      const I bits = (I)load(sums + i);
      const I magnitude = bits & 0x7FFFFFFF;
      const I number = magnitude <= 0x7F800000;
      // From here on all is infinite, and must not overflow the rounding below.
      const I beyond = magnitude > static_cast<int32_t>((159u << 23) | (509u << 14) | 0x1FFFu);
      const I rounded = (((magnitude & ~beyond) + 0x2000) >> 14) - (96 << 9);
      const I code = (rounded & (rounded > 0)) | (beyond & (0x7FFE - number));
      const Half packed = __builtin_convertvector(code | ((bits >> 16) & 0x8000 & number), Half);
      __builtin_memcpy(to + i, &packed, sizeof packed);
    }
  }
  // Which NaN an operation gives differs between processors: the stored one is always the same.
  template <typename From>
  CONTRACT_INLINE static void round_panel(const float* sums, float* to) {
    for (int i = 0; i < kPanel; ++i) to[i] = sums[i] == sums[i] ? sums[i] : __builtin_nanf("");
  }
};

constexpr Kernels kTable = kernels_of<Baseline>();

}  // namespace

const Kernels& baseline_kernels() { return kTable; }

}  // namespace openspyre::contract
