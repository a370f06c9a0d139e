// The median.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace penstock {

/// The value in the middle, of an even number of values the mean of the two there. Requires one value or more.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace penstock
