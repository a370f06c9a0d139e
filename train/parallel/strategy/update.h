// Update: which rank changes which parameters by their gradients, and where the optimiser's state lies.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "train/comm/comm.h"
#include "train/optimizers/optimizer.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {

/// What a rank changes of one trained parameter: the elements from `first` on, in the order of its memory.
struct UpdatedPiece {
  size_t parameter;
  int64_t first;
  torch::Tensor value, gradient;  // of one dimension each; undefined: not here
};

/// Thread-safety: the training thread's alone.
class Update {
 public:
  virtual ~Update() = default;
  /// Requires that every gradient is there, see GradientSync. This rank has its new parameters afterwards.
  virtual void step() = 0;
  /// Before step(): Optimizer::overflow() of the gradients that this rank will update by.
  virtual torch::Tensor overflow() { return optimizer().overflow(); }
  /// Once per step, after the update: every rank has the new values of all parameters that it holds, or with
  /// make_local_update() those that it has reached alone.
  virtual void share() {}
  /// Collective, between two steps: ranks that have different parameters come to the same ones.
  virtual void meet() {}
  /// Before a checkpoint is loaded: what step() keeps beside the optimiser's state is as at the beginning.
  virtual void restart() {}
  /// The optimiser of the parameters, or pieces of them, that this rank changes.
  virtual Optimizer& optimizer() = 0;
  /// Collective over the ranks that hold the same parameters, at the first of them: slot `index` of the optimiser,
  /// whole, for one trained parameter. Elsewhere the result has no meaning.
  virtual torch::Tensor slot(size_t index, size_t parameter) = 0;
  /// The inverse, for all trained parameters at once: `whole` has one entry for each, in their order, on any device.
  virtual void load_slot(size_t index, const std::vector<torch::Tensor>& whole) = 0;
  /// After the sum of gradients, or after step(): what this rank changes, by which gradients. Here all of `trained`.
  virtual std::vector<UpdatedPiece> pieces(const std::vector<torch::Tensor>& trained);
  /// Collective over the ranks that hold the same parameters: the value of a parameter of the part that stands for all
  /// of them.
  virtual torch::Tensor agreed(const torch::Tensor& parameter) { return parameter; }
  /// As GradientSync::rank_local_state(). A mode has one of the two at most.
  virtual RankLocalState rank_local_state() { return {}; }
};

/// What an update needs of its rank. `rate_factors`, `weight_decays`: one entry per trained parameter.
struct UpdateContext {
  const NamedTensors& trained;
  Comm& comm;
  Recorder& recorder;
  OptimizerOptions options;
  std::vector<double> rate_factors;
  bool is_exact = false;  // the bits do not depend on how parameters are cut; slices have kVectorAlignment
  std::vector<double> weight_decays = {};  // empty: that of `options` for all
  ClipOptions clip = {};
  /// Collective over the ranks that hold other parameters: the sum of `numbers`, one entry per trained parameter of
  /// this rank, over all trained parameters of the model, in an order that does not depend on how these are divided.
  std::function<torch::Tensor(const torch::Tensor& numbers)> sum_over_parts = {};
  std::vector<char> are_vectors = {};  // as OptimizerContext has it
};

/// Every rank changes every parameter that it holds.
std::unique_ptr<Update> make_whole_update(const UpdateContext& context);

/// The same on several threads.
struct UpdateThreads {
  std::vector<size_t> parts;  // one entry per trained parameter: which of the calls of `run` changes it
  size_t count = 0;           // how many such calls there are
  std::function<void(const std::function<void(size_t part)>&)> run;  // as Optimizer::step_on() has it
};
/// Requires OptimizerKind::steps_in_parts.
std::unique_ptr<Update> make_threaded_update(const UpdateContext& context, UpdateThreads threads);

}  // namespace penstock::detail
