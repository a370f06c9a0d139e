// What all measurements of a probe do with their times.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/clock.h"

namespace penstock::detail {

inline double seconds_since(int64_t start_ns) { return ms_since(start_ns) * 1e-3; }

/// The mean without the tenth of the values that are largest and the tenth that are smallest. A processor that is
/// shared with other machines has two speeds; a median is one of them, and a run has both. Requires one value or more.
inline double middle_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 10);
  const auto count = static_cast<double>(values.size()) - 2 * static_cast<double>(cut);
  return std::accumulate(values.begin() + cut, values.end() - cut, 0.0) / count;
}

}  // namespace penstock::detail
