// GradientSync: how the gradients of one step come together over the ranks that hold the same parameters.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/measure/recorder.h"
#include "train/parallel/sharding/shard_layout.h"
#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {

/// What a rank keeps of its gradients from step to step, with `owner` as the name of its kind: "powersgd".
struct KeptTensors {
  std::string owner;
  NamedTensors tensors;  // sharing memory
};

/// Thread-safety: the training thread's; hooks of backward may run on autograd's.
class GradientSync {
 public:
  virtual ~GradientSync() = default;
  /// Before the first forward of a step: every gradient is undefined or 0 from here on.
  virtual void begin() = 0;
  /// After the last backward of a step: what the update needs is there, summed over all ranks.
  virtual void finish() = 0;
  /// Around every backward that adds to gradients, with the micro-batch that it is of.
  virtual void begin_backward([[maybe_unused]] int micro_batch) {}
  virtual void end_backward() {}
  /// Whether gradients may be added to after the last backward, before finish(), where autograd does not see it.
  virtual bool takes_late_gradients() const { return false; }
  /// For an emulated step: as if a backward had added to the gradient of this one of the trained parameters. A sync
  /// that begins no sum before finish() does nothing.
  virtual void gradient_is_there([[maybe_unused]] size_t parameter) {}
  /// Tensors with gradients that this keeps beside those of the parameters; they may share memory with them.
  virtual std::vector<torch::Tensor> buffers() const { return {}; }
  /// The most bytes that all gradients took at a time of a step so far; 0: as many as between steps.
  virtual int64_t peak_bytes() const { return 0; }

  /// From now on `use` hears of every bucket when its sum has landed: in backward, on its thread, or in finish(). The
  /// gradients of its parameters are whole then. For make_bucket_sync() alone.
  virtual void hand_over(std::function<void(size_t bucket)> use);

  /// Before begin(), at every rank: the next step also measures what compression costs.
  virtual void measure_next() {}
  /// After finish(): |sum as it was sent - true sum| / |true sum| over all gradients, f64 scalar on their device, of a
  /// step that was measured; otherwise undefined.
  virtual torch::Tensor compression_error() const { return {}; }
  /// What must be saved for a run to go on bit for bit; the same names and sizes at every rank.
  virtual KeptTensors kept() { return {}; }
};

/// For one rank. Each gradient is undefined at first and not 0: autograd then moves the first one in, which saves a
/// fill and an addition per parameter.
std::unique_ptr<GradientSync> make_no_sync(const NamedTensors& trained);

/// Sums gradients in flat buckets while backward still runs (Li et al. 2020, "PyTorch Distributed", sec. 3.2):
///
///     time ->        backward completes gradients in reverse order of registration; b0 holds the last layers
///     compute        | forward | grad b0 | grad b1 | grad b2 | wait | update
///     communication                      | sum b0  | sum b1  | sum b2 |
///                                                            ^^^^^^ exposed: Phase::kCommunication
///
/// A bucket starts when each of its gradients has been added to `backward_count` times, once by each backward of the
/// step. Deviation from the paper: the sum is not divided by the world size, because the loss was divided by the global
/// sample count before. Requires that a parameter's gradient stays the tensor that this makes it.
///
/// With hand_over() every hook asks whether the sum of the next bucket has landed. An update there is safe: autograd
/// adds to a parameter's gradient when all operations through which it came have run, so that no later one of this
/// backward reads the parameter, also if layers share it. Requires a model that uses no parameter behind detach().
///
///     time ->
///     compute        | forward | grad b0 | grad b1 | update b0 | grad b2 | wait | update b1 | update b2
///     communication                      | sum b0  | sum b1               | sum b2 |
std::unique_ptr<GradientSync> make_bucket_sync(const NamedTensors& trained, Comm& comm, Recorder& recorder,
                                               int backward_count);

/// As make_bucket_sync(), but each bucket is reduce-scattered into its `gradient`, and its gradients are given back at
/// once (Rajbhandari et al. 2020, "ZeRO", sec. 5.2, stage 2): whole gradients are alive from the backward of a layer to
/// the sum of its bucket, and no more than two buckets are on their way. Requires the `buckets` that
/// make_sliced_update() has made for the same `trained`.
std::unique_ptr<GradientSync> make_scatter_sync(const NamedTensors& trained, Comm& comm, Recorder& recorder,
                                                int backward_count, const std::vector<SlicedBucket>& buckets);

}  // namespace penstock::detail
