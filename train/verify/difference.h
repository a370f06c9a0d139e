// Differences between what two trainings came to.
#pragma once

#include <string>

#include "train/parallel/strategy/strategy.h"

namespace penstock {

struct Difference {
  double relative = 0;      // infinity where names differ, and where a number is not finite
  std::string tensor = {};  // the one in which it is; empty: there is none
};

/// The largest difference in any tensor, relative to the largest element that `expected` has in that tensor. What the
/// optimiser keeps of a parameter counts relative to the parameter where that is larger: at the end of a training the
/// momentum is so small that rounding is all of it.
Difference largest_difference(const StateDict& expected, const StateDict& state);

/// |g' - g| / |g| of all gradients together, from the states after one step of sgd from zero momentum with learning
/// rate 1 and without weight decay: the momentum then is the gradient. A state without momentum counts by its change of
/// the parameters, which rounds each of them once more.
double gradient_difference(const StateDict& expected, const StateDict& state);

}  // namespace penstock
