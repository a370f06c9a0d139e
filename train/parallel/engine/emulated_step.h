// EmulatedStep: a step in which waits stand for what a device computes, and only the messages are real.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/emulation.h"
#include "train/parallel/engine/step_runner.h"
#include "train/parallel/strategy/schedule.h"

namespace penstock::detail {

/// What is emulated, and how the mode divides it.
struct EmulatedWork {
  int64_t step_ns = 0;  ///< Forward, backward and update of a whole batch of all ranks, on one device.
  int64_t shares = 1;   ///< Copies of the model, in ranks and replicas, that divide the rows of a batch.
  int micro_batches = 1;
  int rank = 0;  ///< Along the pipe axis.
  Placement placement = Placement();
  Schedule schedule = {};
  std::vector<BlockRange> chunks = {};  ///< What this rank holds, as ModelPart has it.
  /// Bytes that one device sends and receives to bring replicas the parameters, and as many to collect their gradients.
  int64_t replica_bytes = 0;
  std::optional<NetworkModel> net = {};  ///< Over which these go; none: they take no time.
};

/// How long a rank waits in place of this operation. The model has `block_count` blocks. Rows take equally long, and so
/// do blocks (blocks of a ResNet do, to a third): a third of that is forward, a third the gradient of the input and a
/// third that of the parameters, in which the update is included; a forward that is run again takes another third. A
/// micro-batch takes the same time if it is not full.
int64_t operation_ns(const EmulatedWork& work, size_t block_count, const Operation& operation);

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
  int part_of(const Operation& operation) const { return work_.placement.part_of(work_.rank, operation.chunk); }
  void run(const DeviceBatch& batch);
  void copy_to_replicas();
  void forward(const DeviceBatch& batch, const Operation& operation, int64_t rows);
  void backward(const Operation& operation, int64_t rows);
  void wait_for_blocks(const Operation& operation);
  void find_output_sizes(size_t chunk, const torch::Tensor& input);
  torch::Tensor output_like(size_t chunk, int64_t rows) const;
  torch::Tensor& input_of(const Operation& operation);

  ModelPart& part_;
  StageLink& link_;
  Update& update_;
  GradientSync& sync_;
  torch::Device device_;
  Recorder& recorder_;
  std::unique_ptr<StepRunner> real_;
  bool has_copies_;  // gradients are summed over the data axis
  EmulatedWork work_;
  std::vector<std::vector<int64_t>> output_sizes_;  // one entry per chunk, without the rows; empty: not known yet
  torch::TensorOptions output_options_;
  std::vector<torch::Tensor> inputs_;  // by chunk and micro-batch: what arrived, for the sizes of its gradient
  std::vector<std::vector<size_t>> trained_of_block_;  // parameters, as `sync` counts them
};

}  // namespace penstock::detail
