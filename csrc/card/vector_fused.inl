// Kernels for runs of instructions (see fuse.h): what lies between the first and the last stays in processor registers.
// Part of vector_kernels.inl.

template <typename First, bool kRoundsFirst, typename Second>
LANE Floats fused_at(const Lane* a, const Lane* b, const Lane* c, int64_t i) {
  const Floats first = First::apply(load_vector<Floats>(a + i), load_vector<Floats>(b + i));
  return Second::apply(kRoundsFirst ? rounded_to_sen169(first) : first, load_vector<Floats>(c + i));
}

template <typename First, bool kRoundsFirst, typename Second, bool kRoundsSecond>
void fused(Lane* target, const Lane* a, const Lane* b, const Lane* c, int64_t n) {
  for (int64_t i = 0; i < n; i += kVectorLanes) {
    const Floats value = fused_at<First, kRoundsFirst, Second>(a, b, c, i);
    store_vector(target + i, kRoundsSecond ? rounded_to_sen169(value) : value);
  }
}

template <typename First>
void store_fused(void* target, const Lane* a, const Lane* b, const Lane* c, int64_t n) {
  for (int64_t i = 0; i < n; i += kPairLanes)
    store_sen169({fused_at<First, false, ItselfVector>(a, b, c, i),
                  fused_at<First, false, ItselfVector>(a, b, c, i + kVectorLanes)},
                 static_cast<uint16_t*>(target) + i);
}

template <typename First, bool kRoundsFirst, typename Second>
constexpr std::array<MapKernel, 2> kFusedWith = {fused<First, kRoundsFirst, Second, false>,
                                                 fused<First, kRoundsFirst, Second, true>};

// In the order of FusedSecond; nothing in second place is a kernel of its own only where the first is rounded.
template <typename First, bool kRoundsFirst>
constexpr std::array<std::array<MapKernel, 2>, kFusedSecondCount> kFusedAfter = {{
    {kRoundsFirst ? fused<First, true, ItselfVector, false> : map_vectors<First>, nullptr},
    kFusedWith<First, kRoundsFirst, AddVector>,
    kFusedWith<First, kRoundsFirst, SubVector>,
    kFusedWith<First, kRoundsFirst, SubFromVector>,
    kFusedWith<First, kRoundsFirst, MulVector>,
    kFusedWith<First, kRoundsFirst, SquareVector>,
    kFusedWith<First, kRoundsFirst, DivIntoVector>,
    kFusedWith<First, kRoundsFirst, ExpVector>,
}};

template <typename First>
constexpr std::array<std::array<std::array<MapKernel, 2>, kFusedSecondCount>, 2> kFused = {kFusedAfter<First, false>,
                                                                                           kFusedAfter<First, true>};
