// Verification: every pair of a matrix is trained and judged.
//
// Lives here: whether a mode trains what `single` trains: pairs of short trainings in child processes, and their
// bounds.
// Not here: the table that people read (tools/train/verify).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/verify/matrix.h"
#include "train/verify/place.h"

namespace penstock {

/// The outcome of one comparison.
struct Verdict {
  Comparison pair;
  double difference = 0;  // between the mode and `single`; infinity where there is no number
  std::string tensor;     // the one with the largest difference; "" where that is not known
  std::string failure;    // why the mode's training did not end; "" if it did
  double seconds = 0;     // how long the mode's training took

  bool holds() const { return failure.empty() && (difference == 0 || difference < pair.bound); }
};

/// Trains each pair, compares it with `single`, and gives `use` the verdict. The training of `single` that a pair is
/// compared with runs once, when the first pair needs it.
///
/// A pair that is not below its fixed bound may still hold, because some models round more than others. Its bound is
/// then raised to what the model itself rounds:
///
///     one step in float32      8 x the difference between `single` in float32 and `single` in float64
///     many steps in float64    100 x the difference between `single` and `single` with every initial weight one unit
///                              in the last place larger
///
/// Requires what run_launch() requires. Errors: device_error if `single` itself does not train.
void verify(const std::vector<Comparison>& pairs, const VerifyOptions& options,
            const std::function<void(const Verdict&)>& use);

/// Where the training of a pair parts from that of `single`.
struct Localised {
  Comparison pair;
  std::optional<Place> place;
  std::string failure;  // why there is no place; "" if there is one
};

/// For each mode with a verdict that does not hold: trains one such pair again, that of the class fp64 where there is
/// one. First as often as it takes to find the step after which the two differ, then with taps in this step and the two
/// around it. Requires what run_launch() requires.
void localise(const std::vector<Verdict>& verdicts, const VerifyOptions& options,
              const std::function<void(const Localised&)>& use);

}  // namespace penstock
