// GradientSync: how the gradients of one step come together over the ranks that hold the same parameters.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/measure/recorder.h"
#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {

/// What a rank keeps from one step to the next beside what all have: of its gradients, or of the steps that it takes
/// alone. `owner` names what keeps it: "powersgd".
struct RankLocalState {
  std::string owner;
  NamedTensors tensors;      // sharing memory
  NamedTensors common = {};  // the same; with equal values at every rank
};

/// What a gradient sync needs of its rank. `comm` and `recorder` outlive it.
struct SyncContext {
  const NamedTensors& trained;
  Comm& comm;  // the ranks that hold the same parameters
  Recorder& recorder;
  int backward_count = 1;  // of a step: how often each gradient is added to
};

/// Thread-safety: the training thread's; hooks of backward may run on autograd's.
class GradientSync {
 public:
  virtual ~GradientSync() = default;
  /// Before the first forward of a step: every gradient is undefined or 0 from here on.
  virtual void begin() = 0;
  /// After the last backward of a step: what the update needs is there, summed over all ranks.
  virtual void finish() = 0;
  /// Called around every backward that adds to gradients, with the number of its micro-batch.
  virtual void begin_backward([[maybe_unused]] int micro_batch) {}
  virtual void end_backward() {}
  /// Whether somebody may add to gradients between the last backward and finish(), of which autograd and its hooks know
  /// nothing.
  virtual bool defers_weight_gradients() const { return false; }
  /// For an emulated step: takes the gradient of the trained parameter with this number as added to, as a hook of
  /// backward would say it. Does nothing in a sync that begins no sum before finish().
  virtual void gradient_is_there([[maybe_unused]] size_t parameter) {}
  /// Tensors with gradients that this keeps beside those of the parameters; they may share memory with them.
  virtual std::vector<torch::Tensor> buffers() const { return {}; }
  /// The most bytes that all gradients together took at any moment of a step so far; 0: never more than between steps.
  virtual int64_t peak_bytes() const { return 0; }

  /// Before begin(), at every rank: the next step also measures what compression costs.
  virtual void measure_next() {}
  /// After finish(): |sum as it was sent - true sum| / |true sum| over all gradients, f64 scalar on their device, of a
  /// step that was measured; otherwise undefined.
  virtual torch::Tensor compression_error() const { return {}; }
  /// What must be saved for a run to go on bit for bit; the same names and sizes at every rank.
  virtual RankLocalState rank_local_state() { return {}; }
};

/// For one rank. Each gradient is undefined at first and not 0: autograd then moves the first one in, which saves a
/// fill and an addition per parameter.
std::unique_ptr<GradientSync> make_no_sync(const SyncContext& context);

}  // namespace penstock::detail
