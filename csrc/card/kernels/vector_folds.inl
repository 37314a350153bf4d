// Folds of rows, of a vector's lanes, and arg reductions. Part of vector_kernels.inl.

struct WordRows {
  using Storage = uint32_t;
  template <typename Vector>
  LANE static void load(const uint32_t* row, Vector* vectors) {
    vectors[0] = load_vector<Vector>(row);
    vectors[1] = load_vector<Vector>(row + kVectorLanes);
  }
};
struct Sen169Rows {
  using Storage = uint16_t;
  template <typename Vector>
  LANE static void load(const uint16_t* row, Vector* vectors) {
    const FloatsPair pair = load_sen169(row);
    vectors[0] = (Vector)pair.first;
    vectors[1] = (Vector)pair.second;
  }
};

// One run of accumulators over all rows, starting from acc; they stay in registers.
template <typename Function, typename Format, int kVectors>
LANE void fold_run(Lane* acc, const typename Format::Storage* x, int64_t rows, int64_t row_stride) {
  using Vector = typename Function::Lanes;
  Vector sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sums[v] = load_vector<Vector>(acc + v * kVectorLanes);
  for (int64_t r = 0; r < rows; ++r) {
    const typename Format::Storage* row = x + r * row_stride;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v += 2) {
      Vector taken[2];
      Format::load(row + v * kVectorLanes, taken);
      sums[v] = Function::apply(sums[v], taken[0]);
      sums[v + 1] = Function::apply(sums[v + 1], taken[1]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) store_vector(acc + v * kVectorLanes, sums[v]);
}

template <typename Function, typename Format>
void fold_rows(Lane* acc, const void* source, int64_t lanes, int64_t rows, int64_t row_stride) {
  const auto* x = static_cast<const typename Format::Storage*>(source);
  constexpr int kUnitVectors = kLaneUnit / kVectorLanes;
  int64_t first = 0;
  if constexpr (kUnitVectors <= 4)  // both units of a row in one go: they fit into the registers
    for (; first + 2 * kLaneUnit <= lanes; first += 2 * kLaneUnit)
      fold_run<Function, Format, 2 * kUnitVectors>(acc + first, x + first, rows, row_stride);
  for (; first < lanes; first += kLaneUnit)
    fold_run<Function, Format, kUnitVectors>(acc + first, x + first, rows, row_stride);
}

// Where a code, shifted into place, is its own value times 2^-96: not for infinity, NaN and the lowest binade.
constexpr float kSen169Scale = 0x1p96f;

// One unit of SEN169 rows, added at 2^-96 of their value: there a code is its own pattern, shifted. Says no, and leaves
// acc alone, where that is not so: infinities, NaN and the lowest binade. Sums at that scale round as they always do.
LANE bool add_usual_rows(Lane* acc, const uint16_t* x, int64_t rows, int64_t row_stride) {
  using Codes [[gnu::vector_size(32)]] = uint16_t;
  using Pairs [[gnu::vector_size(32)]] = int32_t;  // of codes, so that lanes widen in place: first and second ones
  using Floats [[gnu::vector_size(32)]] = float;
  constexpr Pairs kFirst = {0, 2, 4, 6, 8, 10, 12, 14}, kLow = {0, 8, 1, 9, 2, 10, 3, 11};
  constexpr int kVectors = 2, kCodes = 16;
  static_assert(kVectors * kCodes == kLaneUnit);
  Floats first[kVectors], second[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    Floats low, high;
    __builtin_memcpy(&low, acc + v * kCodes, sizeof low);
    __builtin_memcpy(&high, acc + v * kCodes + 8, sizeof high);
    first[v] = __builtin_shuffle(low, high, kFirst) * (1.0f / kSen169Scale);
    second[v] = __builtin_shuffle(low, high, kFirst + 1) * (1.0f / kSen169Scale);
  }
  Codes largest = {}, smallest = ~largest;
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t* row = x + r * row_stride;
    __builtin_prefetch(row + rows * row_stride);  // rows like these come next
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Pairs pairs;
      __builtin_memcpy(&pairs, row + v * kCodes, sizeof pairs);
      first[v] += (Floats)(((pairs << 16) >> 2) & static_cast<int32_t>(0x9FFFFFFF));
      second[v] += (Floats)((pairs >> 2) & static_cast<int32_t>(0x9FFFC000));
      const Codes codes = (Codes)pairs, twice = codes + codes, before = twice - 1;  // no sign; zero goes to the top
      largest = largest > twice ? largest : twice;
      smallest = smallest < before ? smallest : before;
    }
  }
  const Codes unusual = (Codes)((largest > 0xFFFB) | (smallest < 1023));
  uint64_t parts[4];
  __builtin_memcpy(parts, &unusual, sizeof parts);
  if ((parts[0] | parts[1] | parts[2] | parts[3]) != 0) return false;
  for (int v = 0; v < kVectors; ++v) {
    const Floats low = __builtin_shuffle(first[v], second[v], kLow) * kSen169Scale;
    const Floats high = __builtin_shuffle(first[v], second[v], kLow + 4) * kSen169Scale;
    __builtin_memcpy(acc + v * kCodes, &low, sizeof low);
    __builtin_memcpy(acc + v * kCodes + 8, &high, sizeof high);
  }
  return true;
}

// Sums of SEN169 are the hot case.
void sum_sen169_rows(Lane* acc, const void* source, int64_t lanes, int64_t rows, int64_t row_stride) {
  const auto* x = static_cast<const uint16_t*>(source);
  for (int64_t first = 0; first < lanes; first += kLaneUnit)
    if (!add_usual_rows(acc + first, x + first, rows, row_stride)) [[unlikely]]
      fold_rows<AddVector, Sen169Rows>(acc + first, x + first, kLaneUnit, rows, row_stride);
}

// The lanes of one vector folded in halves; the total is in its first lane.
template <typename Function, int kWidth>
LANE typename Function::Lanes fold_halves(typename Function::Lanes lanes) {
  if constexpr (kWidth == 0) {
    return lanes;
  } else {
    Ints order;
    for (int i = 0; i < kVectorLanes; ++i) order[i] = (i + kWidth) % kVectorLanes;
    return fold_halves<Function, kWidth / 2>(Function::apply(lanes, __builtin_shuffle(lanes, order)));
  }
}

template <typename Function>
void fold_lanes(Lane* acc, Lane* total, int64_t rows) {
  using Vector = typename Function::Lanes;
  constexpr int kVectors = kFoldLanes / kVectorLanes;
  for (int64_t r = 0; r < rows; ++r, acc += kFoldLanes) {
    Vector sums[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[v] = load_vector<Vector>(acc + v * kVectorLanes);
#pragma GCC unroll 4
    for (int width = kVectors / 2; width > 0; width /= 2)
#pragma GCC unroll 8
      for (int v = 0; v < width; ++v) sums[v] = Function::apply(sums[v], sums[v + width]);
    total[r] = (Lane)((Words)fold_halves<Function, kVectorLanes / 2>(sums[0]))[0];
  }
}

// --- arg reductions: a NaN beats everything, of equals the one with the lowest index stays ---
struct FloatMax {
  LANE static bool better(uint32_t x, uint32_t best) {
    return as_float(x) > as_float(best) || (is_nan(as_float(x)) && !is_nan(as_float(best)));
  }
};
struct FloatMin {
  LANE static bool better(uint32_t x, uint32_t best) {
    return as_float(x) < as_float(best) || (is_nan(as_float(x)) && !is_nan(as_float(best)));
  }
};
struct IntMax {
  LANE static bool better(uint32_t x, uint32_t best) { return as_int(x) > as_int(best); }
};
struct IntMin {
  LANE static bool better(uint32_t x, uint32_t best) { return as_int(x) < as_int(best); }
};

template <typename Order>
void arg_kernel(Lane* value, Lane* index, const Lane* x, int32_t first, int32_t step, int64_t n) {
  each_lane(n, [=](int64_t i) __attribute__((always_inline)) {
    const uint32_t here = static_cast<uint32_t>(first) + static_cast<uint32_t>(i) * static_cast<uint32_t>(step);
    const bool taken = Order::better(x[i], value[i]) || (!Order::better(value[i], x[i]) && here < index[i]);
    const uint32_t v = taken ? x[i] : value[i], at = taken ? here : index[i];
    value[i] = v;
    index[i] = at;
  });
}
