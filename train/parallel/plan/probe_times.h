// What all measurements of a probe do with their times.
#pragma once

#include <algorithm>
#include <vector>

#include "core/clock.h"

namespace penstock::detail {

inline double seconds_since(int64_t start_ns) { return ms_since(start_ns) * 1e-3; }

/// The median; of an even number of values the larger of the two in the middle. Requires one value or more.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace penstock::detail
