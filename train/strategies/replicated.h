// Replicated: what every strategy shares whose ranks all hold the whole model.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/strategies/strategy.h"

namespace penstock::detail {

/// One step: gradients from this rank's rows, their sum over all ranks, one update that is equal at every rank. A mode
/// says by three hooks how the gradients come together; rank 0's parameters and buffers are everybody's from the
/// constructor on.
///
/// The loss is sum(weight * cross entropy) over the rows that hold samples, where the cross entropy of a mixed row is
/// share * that of its own label + (1 - share) * that of its second one, and backward starts from 1 / global_count:
/// the sum over ranks is then the gradient of the true global mean, divided once.
///
/// Padding rows never reach the model in training. A rank without any sample in a batch runs neither forward nor
/// backward and adds zeros, so that BatchNorm's running statistics see samples only. BatchNorm is local: batch
/// statistics are this rank's. A single row gives BatchNorm no variance to normalise by; it then runs with its running
/// statistics, and keeps them. (PyTorch does so for no row, and throws when the maps are 1 x 1.)
///
/// state() and the first evaluate() after a step give every rank the buffers of rank 0, as PyTorch's DDP checkpoints
/// do.
class Replicated : public Strategy {
 public:
  explicit Replicated(const StrategyContext& context);

  int data_rank() const override { return comm_.rank(); }
  int data_world_size() const override { return comm_.world_size(); }
  StepSums step(const DeviceBatch& batch) override;
  torch::Tensor evaluate(const DeviceBatch& batch) override;
  void set_learning_rate(double learning_rate) override { sgd_.set_learning_rate(learning_rate); }
  StateDict state() override;
  void load_state(const StateDict& state) override;

 protected:
  using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

  virtual void begin_gradients() = 0;   ///< Before forward: every gradient is undefined or 0.
  virtual void finish_gradients() = 0;  ///< After backward: every gradient is defined and summed over all ranks.

  const NamedTensors& trained() const { return trained_; }  ///< The parameters but those that are frozen.
  Comm& comm() { return comm_; }
  Recorder& recorder() { return recorder_; }

 private:
  StepSums forward_backward(const DeviceBatch& batch);
  StepSums emulated(const DeviceBatch& batch);
  void agree_on_buffers();
  NamedTensors tensors();  ///< All that state() gives, sharing memory.

  Model& model_;
  Comm& comm_;
  Recorder& recorder_;
  NamedTensors parameters_, buffers_, trained_;
  Sgd sgd_;
  int64_t emulated_step_ns_;
  bool are_buffers_agreed_ = false;
};

}  // namespace penstock::detail
