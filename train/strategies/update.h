// Update: which rank changes which parameters by their gradients, and where the optimiser's state lies.
#pragma once

#include <memory>
#include <vector>

#include "train/comm/comm.h"
#include "train/optimizer.h"
#include "train/strategies/gradient_sync.h"
#include "train/strategies/model_part.h"
#include "train/strategies/slices.h"

namespace penstock::detail {

/// Thread-safety: the training thread's alone.
class Update {
 public:
  virtual ~Update() = default;
  /// Requires that every gradient is there, see GradientSync. Every rank has the new parameters afterwards.
  virtual void step() = 0;
  virtual void set_learning_rate(double learning_rate) = 0;
  /// The optimiser's state as it lies at this rank, and how many numbers it has for each one of a parameter.
  virtual std::vector<torch::Tensor> state_tensors() const = 0;
  virtual int state_count() const { return 1; }
  /// Collective over the ranks that hold the same parameters: the momentum of each trained parameter, whole, in their
  /// order. Valid until the next call of anything here.
  virtual std::vector<torch::Tensor> momentum() = 0;
  /// The inverse; `momentum` in the same order, on any device.
  virtual void load_momentum(const std::vector<torch::Tensor>& momentum) = 0;
};

/// What an update needs of its rank. `rate_factors`: one entry per trained parameter.
struct UpdateContext {
  const NamedTensors& trained;
  Comm& comm;
  SgdOptions options;
  std::vector<double> rate_factors;
};

/// Every rank changes every parameter that it holds.
std::unique_ptr<Update> make_whole_update(const UpdateContext& context);

/// Each rank changes its slice of every bucket and has the state of that slice alone; then the slices are gathered
/// (Rajbhandari et al. 2020, "ZeRO", sec. 5.1, stage 1). Buckets are those of `bucket_gradients`, padded to a multiple
/// of the ranks. Memory per rank: parameters and gradients whole, momentum 1 / N.
///
/// The parameters' memory moves into the buckets, where it stays. With `shared` the buckets get slices of gradients and
/// are written there, for make_scatter_sync(); the update then takes these gradients and not those of the parameters.
std::unique_ptr<Update> make_sliced_update(const UpdateContext& context,
                                           const std::shared_ptr<std::vector<SlicedBucket>>& shared = nullptr);

/// The same over buckets that keep slices alone, of parameters and of gradients: nothing is gathered. Members count as
/// `context.trained` does.
std::unique_ptr<Update> make_shard_update(const UpdateContext& context, const std::vector<SlicedBucket>& buckets);

}  // namespace penstock::detail
