#include "steps/fold.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace openspyre {
namespace {

constexpr Lane kNothing = 0xFFFFFFFFu;

Fold fold_of(Combine combine, RegisterType type) {
  const bool ints = type == RegisterType::Int;
  switch (combine) {
    case Combine::Sum:
      return ints ? Fold::AddI : Fold::Add;
    case Combine::Prod:
      return ints ? Fold::MulI : Fold::Mul;
    case Combine::Max:
    case Combine::ArgMax:
      return ints ? Fold::MaxI : Fold::Max;
    case Combine::Min:
    case Combine::ArgMin:
      return ints ? Fold::MinI : Fold::Min;
    case Combine::Any:
      return Fold::Or;
    case Combine::All:
      return Fold::And;
  }
  return Fold::Add;
}

}  // namespace

Lane fold_identity(Combine combine, RegisterType type) {
  const bool ints = type == RegisterType::Int;
  switch (combine) {
    case Combine::Sum:
      return 0;
    case Combine::Prod:
      return ints ? 1u : std::bit_cast<Lane>(1.0f);
    case Combine::Max:
    case Combine::ArgMax:
      return ints ? static_cast<Lane>(INT32_MIN) : std::bit_cast<Lane>(-INFINITY);
    case Combine::Min:
    case Combine::ArgMin:
      return ints ? static_cast<Lane>(INT32_MAX) : std::bit_cast<Lane>(INFINITY);
    case Combine::Any:
      return 0;
    case Combine::All:
      return 1;
  }
  return 0;
}

RegisterType folded_type(Combine combine, RegisterType type) {
  if (is_truth(combine)) return RegisterType::Int;
  return type == RegisterType::Any ? RegisterType::Float : type;
}

Folding::Folding(Combine combine, RegisterType type, const LaneBlock& lane, const VectorKernels& kernels,
                 int64_t lane_step)
    : combine_(combine),
      type_(folded_type(combine, type)),
      lanes_(lane.lanes),
      lane_step_(lane_step),
      over_lanes_(lane.reduced) {
  const bool ints = type == RegisterType::Int;
  const auto fold = static_cast<size_t>(fold_of(combine, type_));
  arg_ = is_arg(combine);
  identity_ = fold_identity(combine, type_);
  rows_ = kernels.fold_rows[fold];
  fold_lanes_ = kernels.fold_lanes[fold];
  if ((regular() || in_halves()) && !is_truth(combine)) words_ = rows_;
  if (regular() && !is_truth(combine)) sen169_ = kernels.fold_sen169_rows[fold];
  if (is_truth(combine)) to_truth_ = kernels.map[static_cast<size_t>(ints ? Op::IntToBool : Op::FloatToBool)];
  if (combine == Combine::ArgMax) arg_kernel_ = ints ? kernels.arg_max_int : kernels.arg_max;
  if (combine == Combine::ArgMin) arg_kernel_ = ints ? kernels.arg_min_int : kernels.arg_min;
}

void Folding::start(Accumulators acc, int64_t lanes) const {
  std::fill_n(acc.value, lanes, identity_);
  if (arg_) std::fill_n(acc.index, lanes, kNothing);
}

void Folding::take(Accumulators acc, Lane* x, const FoldPoints& taken) const {
  const int64_t points = taken.points, blocks = taken.blocks, row = blocks * lanes_;
  if (to_truth_ != nullptr) to_truth_(x, x, x, x, points * row);
  const bool whole = !over_lanes_ || taken.valid == lanes_;
  if (regular() && whole) return rows_(acc.value, x, row, points, row);
  if (in_halves() && whole) return take_halves(acc, x, taken);
  for (int64_t point = 0; point < points; ++point, x += row) {
    const int64_t position = taken.position + point * taken.position_step;
    if (!over_lanes_) {
      arg_kernel_(acc.value, acc.index, x, static_cast<int32_t>(position), 0, row);
      continue;
    }
    const int64_t number = taken.first_block + point * taken.block_step;
    for (int64_t block = 0; block < blocks; ++block) {
      const Accumulators mine{acc.value + block * kFoldLanes, arg_ ? acc.index + block * kFoldLanes : nullptr};
      Lane* lanes = x + block * lanes_;
      // Element r of the lanes belongs to accumulator r mod 64.
      for (int64_t lane = 0; lane < lanes_;) {
        const int64_t at = (number * lanes_ + lane) % kFoldLanes, n = std::min(kFoldLanes - at, lanes_ - lane);
        const int here = static_cast<int>(std::clamp<int64_t>(taken.valid - lane, 0, n));
        take_block({mine.value + at, arg_ ? mine.index + at : nullptr}, lanes + lane, n, position + lane * lane_step_,
                   here);
        lane += n;
      }
    }
  }
}

void Folding::take_halves(Accumulators acc, const Lane* x, const FoldPoints& taken) const {
  const int64_t row = taken.blocks * lanes_, apart = taken.block_step == 0 ? 1 : 2;
  for (int64_t first = 0; first < std::min(apart, taken.points); ++first) {
    Lane* half = acc.value + (taken.first_block + first * taken.block_step) % 2 * lanes_;
    const int64_t rows = (taken.points - first + apart - 1) / apart;
    for (int64_t block = 0; block < taken.blocks; ++block)
      rows_(half + block * kFoldLanes, x + first * row + block * lanes_, lanes_, rows, apart * row);
  }
}

// One run of lanes over as many accumulators; lanes from `valid` on are padding.
void Folding::take_block(Accumulators acc, Lane* x, int64_t lanes, int64_t position, int valid) const {
  if (valid == 0) return;
  if (!arg_) {
    std::fill(x + valid, x + lanes, identity_);
    return rows_(acc.value, x, lanes, 1, 0);
  }
  if (valid == lanes)
    return arg_kernel_(acc.value, acc.index, x, static_cast<int32_t>(position), static_cast<int32_t>(lane_step_),
                       lanes);
  std::array<Lane, kFoldLanes> value, index;
  std::copy(acc.value + valid, acc.value + lanes, value.begin());
  std::copy(acc.index + valid, acc.index + lanes, index.begin());
  arg_kernel_(acc.value, acc.index, x, static_cast<int32_t>(position), static_cast<int32_t>(lane_step_), lanes);
  std::copy(value.begin(), value.begin() + (lanes - valid), acc.value + valid);
  std::copy(index.begin(), index.begin() + (lanes - valid), acc.index + valid);
}

bool Folding::better(Lane x, Lane best) const {
  const bool most = combine_ == Combine::ArgMax;
  if (type_ == RegisterType::Int) {
    const auto a = static_cast<int32_t>(x), b = static_cast<int32_t>(best);
    return most ? a > b : a < b;
  }
  const auto a = std::bit_cast<float>(x), b = std::bit_cast<float>(best);
  return (most ? a > b : a < b) || (std::isnan(a) && !std::isnan(b));
}

void Folding::join(Accumulators acc, Accumulators later, int64_t lanes) const {
  if (!arg_) {
    const int64_t whole = lanes / kLaneUnit * kLaneUnit;
    rows_(acc.value, later.value, whole, 1, 0);
    if (whole == lanes) return;
    std::array<Lane, kLaneUnit> mine{}, others{};
    std::copy_n(acc.value + whole, lanes - whole, mine.begin());
    std::copy_n(later.value + whole, lanes - whole, others.begin());
    rows_(mine.data(), others.data(), kLaneUnit, 1, 0);
    std::copy_n(mine.begin(), lanes - whole, acc.value + whole);
    return;
  }
  for (int64_t i = 0; i < lanes; ++i) {
    if (later.index[i] == kNothing) continue;
    const bool same = !better(acc.value[i], later.value[i]) && !better(later.value[i], acc.value[i]);
    const bool takes = acc.index[i] == kNothing || better(later.value[i], acc.value[i]) ||
                       (same && static_cast<int32_t>(later.index[i]) < static_cast<int32_t>(acc.index[i]));
    if (!takes) continue;
    acc.value[i] = later.value[i];
    acc.index[i] = later.index[i];
  }
}

void Folding::total(Accumulators acc, Accumulators totals, int64_t blocks) const {
  if (!arg_) return fold_lanes_(acc.value, totals.value, blocks);
  for (int64_t block = 0; block < blocks; ++block) {
    Lane* value = acc.value + block * kFoldLanes;
    Lane* index = acc.index + block * kFoldLanes;
    for (int64_t width = kFoldLanes / 2; width > 0; width /= 2)
      join({value, index}, {value + width, index + width}, width);
    totals.value[block] = value[0];
    totals.index[block] = index[0];
  }
}

}  // namespace openspyre
