// Probe options: what is measured of a machine.
#pragma once

#include <cstdint>
#include <vector>

#include "train/optimizers/optimizer.h"
#include "train/parallel/plan/machine_costs.h"

namespace penstock::detail {

/// A pass to measure: `micro_batches` of `rows` rows, one after the other.
struct PassRequest {
  int64_t rows = 0;
  int threads = 1, micro_batches = 1;
  bool splits = false, syncs = false;  // see PassKind
  bool operator==(const PassRequest&) const = default;
};

struct ProbeOptions {
  std::vector<PassRequest> passes;
  std::vector<Compression> compressions = {};
  std::vector<int64_t> picture;  // C x H x W
  int64_t outputs = 0;           // of the model
  OptimizerOptions optimizer = {};
  int64_t evaluated_rows = 0;  // of a batch of an evaluation; 0: nothing is evaluated
  double pass_seconds = 2;     // measuring a pass takes about so long, or three passes if that is longer
};

}  // namespace penstock::detail
