// Place: the first tensor, in the order of a step, in which the taps of a mode differ from those of `single`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/verify/taps.h"

namespace penstock {

struct Place {
  int64_t step = 0;        // from 0
  int rank = -1;           // -1: nobody in particular, as for rows that no rank ran
  int micro_batch = -1;    // of that rank; -1: it is not about some rows
  std::string stage = {};  // the blocks of that rank, "fc1 .. fc3"; "": it has the whole model
  /// forward, recompute, backward, sum, update, gather, "between steps", average, evaluation; of a failure what the
  /// rank had begun.
  std::string operation = {};
  std::string tensor = {};   // "output of conv1", "gradient of fc1.weight", "fc1.weight"
  std::string problem = {};  // "": it differs; otherwise "is missing", "comes twice" or "fails"
  double difference = 0;     // relative to the largest element of that tensor; infinity where there is no number
  double bound = 0;
};

/// "step 3, micro-batch 2, rank 1, stage fc1 .. fc3: gradient of fc1.weight after backward differs by 3.1e-02 (bound
/// 1.0e-12)".
std::string text_of(const Place& place);

/// `single` has no ranks, and the rows of a batch in one piece or in those of --exact. So values of rows are compared
/// row by row, what backward adds to a gradient with what the same rows add in `single` (TapPlan::cuts), and slices of
/// parameters with the same elements. `rounded`: the taps of another `single`, which differs by rounding alone. A
/// tensor may differ by `bound`, or by `factor` times what it differs in there.
struct TapComparison {
  const TapRecords& mode;
  const TapRecords& single;
  const TapRecords& rounded;
  double bound = 0, factor = 0;
};
std::optional<Place> first_place(const TapComparison& taps);

}  // namespace penstock
