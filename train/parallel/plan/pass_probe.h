// Pass probe: forward and backward through the whole model.
#pragma once

#include <memory>
#include <vector>

#include "train/comm/comm.h"
#include "train/losses/loss.h"
#include "train/parallel/plan/exchange.h"
#include "train/parallel/plan/machine_costs.h"
#include "train/parallel/plan/probe_options.h"
#include "train/parallel/plan/trials.h"

namespace penstock {

class Model;

namespace detail {

/// What a trial of a pass took, in seconds per micro-batch.
struct Trial {
  struct Block {
    double forward = 0, backward = 0, input_gradient = 0, weight_gradient = 0;
    double last_backward = 0, last_weight_gradient = 0;  // of the last micro-batch

    /// What the last of several micro-batches takes longer, per micro-batch.
    double joined_backward(int micro_batches) const;
    double joined_weight_gradient(int micro_batches) const;
  };
  std::vector<Block> blocks;
  double loss = 0;
  double sum_wait = 0;     // for the sum of all gradients after backward
  double gather_wait = 0;  // for one gather of a synced layer
};

class Pass;

/// One pass, measured several times. All calls are collective over two ranks or more.
class PassProbe {
 public:
  /// Makes two passes, or a single one if it takes more than two seconds, and keeps the memory that they take.
  PassProbe(Comm& comm, Model& model, const Loss& loss, const ProbeOptions& options, const PassRequest& request);
  ~PassProbe();

  /// Whether a pass takes more than a second. Such a pass is measured once, directly after its construction.
  bool is_very_long() const;
  double extra_bytes() const { return extra_bytes_; }
  /// Takes about so long, or a trial of each kind if that is longer; passes of more than 0.3 s are measured by the
  /// first two calls alone, and not in turn. Before any trial a pass has to settle().
  void measure(Exchange& exchange, double seconds);
  /// At rank 0, after measure(); elsewhere nothing of use. A sum of all gradients takes `sum_seconds`, a gather of few
  /// numbers `gather_seconds`.
  PassCosts costs(double sum_seconds, double gather_seconds) const;

 private:
  Comm& comm_;
  PassRequest request_;
  std::unique_ptr<Pass> pass_;
  double seconds_ = 0, extra_bytes_ = 0;  // seconds: of one pass
  int round_count_ = 0;
  Trials<Trial> whole_, halves_;
};

/// The bytes of a row of an evaluation beyond what steps have left in the process: as in a run, it comes after steps
/// and finds the memory that these have freed.
double measure_evaluation(Model& model, const Loss& loss, const ProbeOptions& options, double picture_bytes);

}  // namespace detail
}  // namespace penstock
