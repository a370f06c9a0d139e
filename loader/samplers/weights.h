// Weights: numbers that users give, as integers in the same proportions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace penstock {

/// Integers in the proportions of `weights`, whose largest times their number is less than 2^63. They are
/// scaled by a power of two, with which the largest lies between 2^(k - 1) and 2^k for the largest k that allows it (42
/// for a million weights), at most 53, and rounded; a weight above 0 never becomes 0. Equal on every machine. Throws
/// config_error `<where>: the weight of <name(i)> is nan; expected ...` for a weight that is negative, infinite or no
/// number, and for weights that are all 0.
std::vector<uint64_t> whole_weights(std::span<const double> weights, const std::string& where,
                                    const std::function<std::string(uint64_t)>& name);

/// `base` to the power of `power`, by square roots and products alone, which IEEE 754 rounds everywhere alike; pow()
/// may differ in the last bit. `power` is taken to 2^-30. Requires base >= 1 and 0 <= power <= 16.
double same_power(double base, double power);

}  // namespace penstock
