// Optimizer: the plug-in that changes parameters by their gradients.
//
// Lives here: plug-ins that change parameters by their gradients; each is told which parameters, whole or in pieces.
// Not here: which rank changes which parameters (parallel/strategy/update.h, parallel/sharding).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/registry.h"
#include "train/optimizers/clip.h"

namespace penstock {

/// What the options of a run say about its optimiser.
struct OptimizerOptions {
  double learning_rate = 0.01;
  double momentum = 0.9;  // of sgd; the others have keys in their spec
  double weight_decay = 0;
  std::string spec = "sgd";
};

/// The squared norm of each tensor: f64, tensors x lists. Requires lists of equal length.
torch::Tensor squared_norms_of_whole(const std::vector<std::vector<torch::Tensor>>& lists);

/// What an optimiser works on.
struct OptimizerContext {
  std::vector<torch::Tensor> parameters;  // dense, of one dtype and device; whole parameters, or pieces of them
  OptimizerOptions options;
  std::vector<double> rate_factors = {};  // of the learning rate, one entry per tensor; empty: 1 for all
  /// For optimisers that need norms of whole parameters. Each of `lists` has one tensor per entry of `parameters`, of
  /// its sizes; the result has the squared norm of each over all pieces of its parameter: f64, tensors x lists.
  /// Collective over the ranks that hold these pieces: all call it once per step, also with 0 tensors.
  std::function<torch::Tensor(const std::vector<std::vector<torch::Tensor>>& lists)> squared_norms =
      squared_norms_of_whole;
  std::vector<size_t> parts = {};  // one entry per tensor: the part of a step that changes it; empty: 0 for all
  size_t part_count = 1;
  std::vector<double> weight_decays = {};  // one entry per tensor; empty: that of `options` for all
  /// One entry per tensor: whether an optimiser of matrices changes it as a vector, although it has two dimensions or
  /// more; empty: none.
  std::vector<char> are_vectors = {};
  ClipOptions clip = {};
  /// For clipping: the sum over all trained parameters of the model of what squared_norms() says of these tensors.
  /// Collective as that is, and over the ranks that hold other parameters.
  std::function<torch::Tensor(const torch::Tensor& squared_norms)> sum_over_model =
      [](const torch::Tensor& squared_norms) { return squared_norms.sum(); };
};

/// What an optimiser keeps from one step to the next.
struct OptimizerState {
  /// One number per element of the parameters.
  struct Slot {
    std::string name;                    // "momentum"; part of the names of tensors in checkpoints
    std::vector<torch::Tensor> tensors;  // one entry per parameter, with its sizes and strides; zeros at first
  };
  std::vector<Slot> slots;
  std::optional<int64_t> step_count;  // none: the optimiser does not depend on it
};

/// Memory: each slot takes as much as the parameters.
/// Thread-safety: the training thread's alone.
class Optimizer {
 public:
  /// `slots`: their names. `step_count`: 0 if the optimiser needs to know how many steps it has made.
  Optimizer(OptimizerContext context, const std::vector<std::string>& slots,
            std::optional<int64_t> step_count = std::nullopt);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Clips the gradients in place, if it is asked to, and changes each parameter by its gradient. Requires that all
  /// gradients are defined.
  void step();
  /// As step(), with all parts at the same time: `run` calls what it is given once for each part, on any threads, and
  /// returns when all calls have. Requires Traits::steps_in_parts.
  void step_on(const std::function<void(const std::function<void(size_t part)>&)>& run);
  void set_learning_rate(double learning_rate) { context_.options.learning_rate = learning_rate; }
  /// The norm of all gradients of the model in the last step, before they were clipped: f64 scalar. Undefined without
  /// clipping.
  const torch::Tensor& gradient_norm() const { return gradient_norm_; }
  /// 1 where some gradient is not finite, otherwise 0: f64 scalar. Requires that all gradients are defined.
  torch::Tensor overflow() const;
  /// For checkpoints, which also write to it.
  OptimizerState& state() { return state_; }

 protected:
  /// Parameters with the same learning rate and weight decay.
  struct Group {
    double rate_factor, weight_decay;
    bool are_vectors;
    std::vector<torch::Tensor> parameters;
    std::vector<std::vector<torch::Tensor>> slots;  // one entry per slot: the tensors of these parameters
  };

  /// One step over groups(). Gradient mode is off, and state().step_count includes this step. With
  /// Traits::steps_in_parts it may be called by several threads at once, which have different groups().
  virtual void update() = 0;
  /// With the present learning rate, and a rate factor and a weight decay for every parameter.
  const OptimizerContext& context() const { return context_; }
  /// The groups of the part that this thread is changing.
  const std::vector<Group>& groups() const { return parts_[part()]; }
  static size_t part();  // the number of the part that this thread is changing
  static std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters);
  double learning_rate(const Group& group) const { return context_.options.learning_rate * group.rate_factor; }

 private:
  void clip();
  void update_part(size_t part);

  OptimizerContext context_;
  OptimizerState state_;
  std::vector<std::vector<Group>> parts_;  // their groups share the tensors of context_ and state_
  torch::Tensor gradient_norm_;
};

struct OptimizerKind {
  using Interface = Optimizer;
  static constexpr const char* kName = "optimizer";
  /// Throws config_error for values that it does not take. Set-up makes every optimiser once over no parameters, so
  /// that this is before ranks start.
  using Factory = std::function<std::unique_ptr<Optimizer>(const Spec&, const OptimizerContext&)>;
  struct Traits {
    double learning_rate = 1e-3;  ///< The default of --lr.
    /// Whether the update of each tensor needs no gradient but its own, and update() goes by groups() alone.
    bool steps_in_parts = false;
    /// Whether the bits of an element do not depend on how parameters are cut: what is needed of other elements comes
    /// from OptimizerContext::squared_norms.
    bool takes_pieces = false;
    /// Whether it works on whole parameters alone, so that modes that cut them into slices refuse it.
    bool needs_whole_tensors = false;
  };
};
using OptimizerRegistry = Registry<OptimizerKind>;

/// The optimiser that `context.options.spec` names.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerContext& context);

}  // namespace penstock
