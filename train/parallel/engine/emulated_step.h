// EmulatedStep: a step in which waits stand for what a device computes, and only the messages are real.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/comm/emulation.h"
#include "train/parallel/engine/step_runner.h"

namespace penstock::detail {

/// How long a rank waits in place of an operation on these blocks, of `block_count` that the model has. `step_ns`: of
/// forward, backward and update of a whole batch of all ranks, on one device. Rows take equally long, and so do blocks
/// (blocks of a ResNet do, to a third): a third of that is forward, a third the gradient of the input and a third that
/// of the parameters, in which the update is included; a forward that is run again takes another third. A micro-batch
/// takes the same time if it is not full.
int64_t operation_ns(int64_t step_ns, const StepPlan& plan, const BlockRange& blocks, size_t block_count,
                     const Operation& operation);

/// Waits where the mode would compute, in the order of its schedule, so that ranks wait for each other's messages as in
/// a real step. Sends what a real step sends: activations and gradients of parts with their true sizes, and sums of
/// gradients, each of which begins when backward has come to it. All that is sent is zeros, and no parameter changes.
///
/// Not emulated: the loss and the gathers of sync-bn and of zero(stage=3).
class EmulatedStep final : public StepRunner {
 public:
  /// `real` evaluates.
  EmulatedStep(const StepParts& parts, const Emulation& emulation, std::unique_ptr<StepRunner> real);

  StepSums compute_gradients(const DeviceBatch& batch) override;
  void update() override;
  torch::Tensor evaluate(const DeviceBatch& batch) override { return real_->evaluate(batch); }
  int most_alive() const override { return real_->most_alive(); }
  std::string capture_obstacle() const override { return "an emulated step computes nothing"; }

 private:
  int part_of(const Operation& operation) const { return parts_.placement.part_of(parts_.pipe_rank, operation.chunk); }
  const BlockRange& blocks_of(const Operation& operation) const {
    return parts_.part.chunks()[static_cast<size_t>(operation.chunk)];
  }
  void run(const DeviceBatch& batch);
  void copy_to_replicas();
  void forward(const DeviceBatch& batch, const Operation& operation, int64_t rows);
  void backward(const Operation& operation, int64_t rows);
  void wait_for_blocks(const Operation& operation);
  void find_output_sizes(size_t chunk, const torch::Tensor& input);
  torch::Tensor output_like(size_t chunk, int64_t rows) const;
  torch::Tensor& input_of(const Operation& operation);

  const StepParts parts_;
  std::unique_ptr<StepRunner> real_;
  bool has_copies_;  // gradients are summed over the data axis
  Emulation emulation_;
  /// That one device sends and receives to bring replicas the parameters, and as many to collect their gradients.
  int64_t replica_bytes_ = 0;
  std::vector<std::vector<int64_t>> output_sizes_;  // one entry per chunk, without the rows; empty: not known yet
  torch::TensorOptions output_options_;
  std::vector<torch::Tensor> inputs_;  // by chunk and micro-batch: what arrived, for the sizes of its gradient
  std::vector<std::vector<size_t>> trained_of_block_;  // parameters, as `sync` counts them
};

}  // namespace penstock::detail
