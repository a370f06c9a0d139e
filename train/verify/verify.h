// Verification: every pair of a matrix is trained and judged.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/verify/matrix.h"

namespace penstock {

struct Verdict {
  Comparison pair;
  double difference = 0;  // infinity where there is no number
  std::string tensor;     // in which it is largest, where that is known
  std::string failure;    // why the training did not end; "" if it did
  double seconds = 0;     // that it took, without that of `single`

  bool holds() const { return failure.empty() && (difference == 0 || difference < pair.bound); }
};

/// Judges each pair and hands it to `use`. The bound of a pair that is not below it follows the model: one step may
/// differ by 8 times what `single` in float32 is from `single` in float64, many steps in float64 by 100 times what
/// `single` is from itself if its initial weights are one unit in the last place larger. What a pair is held against is
/// trained when the first pair needs it. Requires what run_launch() requires. Errors: device_error if `single` itself
/// does not train.
void verify(const std::vector<Comparison>& pairs, const VerifyOptions& options,
            const std::function<void(const Verdict&)>& use);

}  // namespace penstock
