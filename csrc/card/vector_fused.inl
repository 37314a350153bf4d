// Kernels for runs of instructions (see fuse.h): what lies between the first and the last stays in processor registers.
// Part of vector_kernels.inl.

template <typename First, bool kRoundsFirst, typename Second, bool kRoundsSecond>
void fused(Lane* target, const Lane* a, const Lane* b, const Lane* c, int64_t n) {
  for (int64_t i = 0; i < n; i += kVectorLanes) {
    Floats value = First::apply(load_vector<Floats>(a + i), load_vector<Floats>(b + i));
    if constexpr (kRoundsFirst) value = rounded_to_sen169(value);
    value = Second::apply(value, load_vector<Floats>(c + i));
    if constexpr (kRoundsSecond) value = rounded_to_sen169(value);
    store_vector(target + i, value);
  }
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
