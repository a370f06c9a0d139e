// ScheduleRunner: a real step, the forwards and backwards of its micro-batches in the order of the schedule.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/losses/loss.h"
#include "train/nn/row_draws.h"
#include "train/nn/weight_gradients.h"
#include "train/parallel/engine/step_runner.h"
#include "train/parallel/pipeline/recompute.h"
#include "train/parallel/pipeline/split_backward.h"
#include "train/parallel/strategy/micro_batch_observer.h"

namespace penstock::detail {

class Replicas;

/// A step of a rank, by its schedule. A micro-batch is an equal number of rows; where a batch is not full, the last
/// ones have fewer or none, and an empty one runs nowhere. Chunk k of the part is part placement.part_of(rank, k) of
/// the model, in the order of the link's ranks. With StepPlan::replicas these run the whole model in place of the
/// part.
class ScheduleRunner final : public StepRunner {
 public:
  /// `observer` hears of every micro-batch. `seed`: of what layers drop. Of `step` it has the loss, and whether single
  /// rows are left out.
  ScheduleRunner(const StepParts& parts, std::unique_ptr<MicroBatchObserver> observer, const StepOptions& step,
                 uint64_t seed);

  /// Requires that `batch` has labels at the first part.
  StepSums compute_gradients(const DeviceBatch& batch) override;
  void update() override;
  torch::Tensor evaluate(const DeviceBatch& batch) override;
  int most_alive() const override { return most_alive_; }
  std::string capture_obstacle() const override;

 private:
  struct Rows {
    int64_t first = 0, count = 0;
  };
  /// A micro-batch between its forward and the end of its backward.
  struct Alive {
    torch::Tensor input;                // of a part that is not the first
    torch::Tensor output;               // the loss at the last part; undefined while the input alone is kept
    torch::Tensor logits;               // at the last part; those of replicas get a gradient
    torch::Tensor losses;               // at the last part: weight * loss of each row
    torch::Tensor gradient;             // of the output, at the first part between the halves of backward
    std::optional<SplitBackward> rest;  // at the other parts between the halves of backward
    std::optional<RandomState> random;  // before a forward that is run again
  };

  /// Forward and backward: adds to the gradients of the parameters. Requires that `batch` has labels at the last part.
  StepSums run(const DeviceBatch& batch);
  bool runs(const DeviceBatch& batch, const Rows& rows) const;
  DeviceBatch without_single_row(const DeviceBatch& batch) const;
  int64_t full_rows_of(const DeviceBatch& batch) const;
  Rows rows_of(const DeviceBatch& batch, int micro_batch) const;
  Alive& alive_of(const Operation& operation);
  torch::Tensor evaluate(const DeviceBatch& batch, int piece, const Rows& rows);
  /// The rows of each shard that has some; without shards all rows are one.
  std::vector<int64_t> shard_rows(int64_t rows) const;
  torch::Tensor losses_of(const torch::Tensor& outputs, const DeviceBatch& wanted) const;
  void put_loss(int micro_batch, const Alive& alive);
  torch::Tensor take_loss();
  int part_of(const Operation& operation) const { return parts_.placement.part_of(parts_.pipe_rank, operation.chunk); }
  torch::Tensor run_part(const torch::Tensor& input, size_t chunk, const std::optional<BatchRows>& rows);
  /// Whether layers may make the gradients of their weights of several micro-batches at once; with --exact of each by
  /// itself, but by the same kernels.
  bool joins_weight_gradients() const {
    return (micro_batches_ > 1 || parts_.plan.mesh.micro_shards > 0) && !parts_.replicas && !parts_.taps;
  }
  /// By chunk: the last operation of a step that adds to the gradients of its parameters; null: there is none.
  std::vector<const Operation*> last_of_chunks(const DeviceBatch& batch) const;
  void keep_graph(Alive& alive, const torch::Tensor& output);
  torch::Tensor output_of(const DeviceBatch& batch, const Operation& operation, const Rows& rows, Alive& alive);
  torch::Tensor gradient_of_output(const DeviceBatch& batch, const Operation& operation, const Alive& alive);

  void forward(const DeviceBatch& batch, const Operation& operation, const Rows& rows);
  void recompute_forward(const DeviceBatch& batch, const Operation& operation, const Rows& rows, Alive& alive);
  void backward(const DeviceBatch& batch, const Operation& operation, const Rows& rows, StepSums& sums);
  void weight_gradient(const DeviceBatch& batch, const Operation& operation, const Rows& rows);

  const StepParts parts_;
  int micro_batches_;
  std::unique_ptr<MicroBatchObserver> observer_;
  std::shared_ptr<const Loss> loss_;
  bool leaves_out_single_rows_;
  uint64_t seed_;
  WeightGradients weight_gradients_;  // before the graphs in alive_, which have its address
  std::vector<torch::Tensor> trained_;
  std::vector<torch::Tensor> losses_;  // of this step, by micro-batch, or by shard; undefined: not there yet
  std::vector<Alive> alive_;           // by chunk and micro-batch
  int alive_count_ = 0, most_alive_ = 0;
  int64_t replicated_rows_ = 0;  // by which the rows of a micro-batch are cut for replicas
};

}  // namespace penstock::detail
