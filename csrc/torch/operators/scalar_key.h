// What of a number argument is part of a call's key (D7): all of it, or only what decides which program serves it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace torch_spyre {

struct ScalarKey {
  bool supplied_at_launch = false;
  bool by_sign = false;         // negative values are another case: integers have no negative powers
  std::vector<double> special;  // values with a program of their own: alpha = 1, exponent = 2

  int64_t word(int64_t value) const { return supplied_at_launch ? classify(static_cast<double>(value)) : value; }
  int64_t word(double value) const { return supplied_at_launch ? classify(value) : std::bit_cast<int64_t>(value); }

 private:
  int64_t classify(double value) const {
    const auto found = std::find(special.begin(), special.end(), value);
    if (found != special.end()) return 1 + (found - special.begin());
    return by_sign && value < 0 ? -1 : 0;
  }
};

}  // namespace torch_spyre
