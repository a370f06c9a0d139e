// Weights: scaled by a power of two, which changes no digit, and rounded.
#include "loader/samplers/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "core/text.h"

namespace penstock {

std::vector<uint64_t> whole_weights(std::span<const double> weights, const std::string& where,
                                    const std::function<std::string(uint64_t)>& name) {
  double most = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double weight = weights[i];
    if (!(weight >= 0) || std::isinf(weight))
      throw config_error(
          concat(where, ": the weight of ", name(i), " is ", weight, "; expected a number of 0 or more"));
    most = std::max(most, weight);
  }
  if (most == 0)
    throw config_error(concat(where, ": all ", weights.size(), " weights are 0; expected some that are more"));
  int exponent = 0;
  std::frexp(most, &exponent);
  const int bits = std::min(53, 62 - static_cast<int>(std::bit_width(weights.size())));
  std::vector<uint64_t> whole(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    whole[i] = std::max<uint64_t>(1, static_cast<uint64_t>(std::nearbyint(std::ldexp(weights[i], bits - exponent))));
  }
  return whole;
}

double same_power(double base, double power) {
  double result = 1;
  for (; power >= 1; power -= 1) result *= base;
  double root = base;
  for (int bit = 0; bit < 30 && power > 0; ++bit) {
    root = std::sqrt(root);
    power *= 2;
    if (power < 1) continue;
    result *= root;
    power -= 1;
  }
  return result;
}

}  // namespace penstock
