// Probe: measures a machine's costs with the classes that a run uses, on random numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/losses/loss.h"
#include "train/optimizers/optimizer.h"
#include "train/parallel/plan/machine_costs.h"

namespace penstock {

class Model;

namespace detail {

/// A pass to measure: `micro_batches` of `rows` rows, one after the other.
struct PassRequest {
  int64_t rows = 0;
  int threads = 1, micro_batches = 1;
  bool splits = false;
  bool operator==(const PassRequest&) const = default;
};

struct ProbeOptions {
  std::vector<PassRequest> passes;
  std::vector<int64_t> picture;  // C x H x W
  int64_t outputs = 0;           // of the model
  OptimizerOptions optimizer = {};
  int64_t evaluated_rows = 0;  // of a batch of an evaluation; 0: nothing is evaluated
  double pass_seconds = 2;     // measuring a pass takes about so long, or three passes if that is longer
};

/// Collective over two ranks or more, which are the processes that compute beside each other: rank 0 measures alone
/// while the others wait, and then with all of them. At rank 0 the costs without `setting`, `cores` and `load`;
/// elsewhere nothing of use. Changes the model's weights.
MachineCosts probe(Comm& comm, Model& model, const Loss& loss, const ProbeOptions& options);

}  // namespace detail
}  // namespace penstock
