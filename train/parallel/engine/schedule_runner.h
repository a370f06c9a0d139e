// ScheduleRunner: forward and backward of one rank's micro-batches, in the order of its schedule.
#pragma once

#include <optional>
#include <vector>

#include "train/measure/recorder.h"
#include "train/nn/weight_gradients.h"
#include "train/parallel/pipeline/recompute.h"
#include "train/parallel/pipeline/split_backward.h"
#include "train/parallel/pipeline/stage_channel.h"
#include "train/parallel/strategy/model_part.h"
#include "train/parallel/strategy/schedule.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {

class GradientSync;
class Replicas;
class MicroShards;

/// The sums of no rows.
StepSums no_sums(const torch::Device& device);

/// A micro-batch is an equal number of rows; where a batch is not full, the last ones have fewer or none, and an empty
/// one runs nowhere. Thread-safety: the training thread's alone.
class ScheduleRunner {
 public:
  /// `link`: null where this rank holds the whole model. Chunk k of `part` is part k * ranks + rank of the model, in
  /// the order of the link's ranks. `replicas`: null, or they run the whole model in place of `part`. All outlive it.
  /// With `spans_ranks` layers take statistics over the ranks of the batch: a rank without rows runs 0 rows, and
  /// training mode depends on the rows of all.
  ScheduleRunner(ModelPart& part, StageLink* link, int rank, int ranks, int micro_batches, Schedule schedule,
                 const torch::Device& device, Recorder& recorder, bool spans_ranks = false,
                 Replicas* replicas = nullptr);

  /// From now on `shards` and `sync` hear of every micro-batch. They outlive this.
  void tell(MicroShards& shards, GradientSync& sync) {
    shards_ = &shards;
    sync_ = &sync;
  }

  /// From now on what WeightGradients keep is added when all backwards of a step have run, and other parts have what
  /// they wait for. Requires that nobody hears of gradients before run() has ended.
  void leave_weights_for_the_end() { leaves_weights_ = true; }

  /// From now on the loss has labels that are smoothed so much, see Targets.
  void smooth_labels(double smoothing) { label_smoothing_ = smoothing; }

  /// One step: gradients are added to those of the parameters. Requires that `batch` has labels at the last part.
  StepSums run(const DeviceBatch& batch);
  /// The logits where the last part is, elsewhere an undefined tensor. Requires evaluation mode and no gradients.
  torch::Tensor evaluate(const DeviceBatch& batch);

  /// The most micro-batches, of all chunks together, whose intermediate activations were alive at once so far.
  int most_alive() const { return most_alive_; }

 private:
  struct Rows {
    int64_t first = 0, count = 0;
  };
  /// A micro-batch between its forward and the end of its backward.
  struct Alive {
    torch::Tensor input;                // of a part that is not the first
    torch::Tensor output;               // the loss at the last part; undefined while the input alone is kept
    torch::Tensor logits;               // at the last part; those of replicas get a gradient
    torch::Tensor gradient;             // of the output, at the first part between the halves of backward
    std::optional<SplitBackward> rest;  // at the other parts between the halves of backward
    std::optional<RandomState> random;  // before a forward that is run again
  };

  bool runs(const DeviceBatch& batch, const Rows& rows) const;
  int64_t full_rows_of(const DeviceBatch& batch) const;
  Rows rows_of(const DeviceBatch& batch, int micro_batch) const;
  Alive& alive_of(const Operation& operation);
  int part_of(const Operation& operation) const { return operation.chunk * ranks_ + rank_; }
  torch::Tensor run_part(const torch::Tensor& input, size_t chunk, int64_t full_rows);
  /// Whether layers may make the gradients of their weights of several micro-batches at once.
  bool joins_weight_gradients() const { return micro_batches_ > 1 && !shards_ && !replicas_; }
  /// By chunk: the last operation of a step that adds to the gradients of its parameters; null: there is none.
  std::vector<const Operation*> last_of_chunks(const DeviceBatch& batch) const;
  void keep_graph(Alive& alive, const torch::Tensor& output);
  torch::Tensor output_of(const DeviceBatch& batch, const Operation& operation, const Rows& rows, Alive& alive);
  torch::Tensor gradient_of_output(const DeviceBatch& batch, const Operation& operation, const Alive& alive);

  void forward(const DeviceBatch& batch, const Operation& operation, const Rows& rows);
  void recompute_forward(const DeviceBatch& batch, const Operation& operation, const Rows& rows, Alive& alive);
  void backward(const DeviceBatch& batch, const Operation& operation, const Rows& rows, StepSums& sums);
  void weight_gradient(const Operation& operation);

  ModelPart& part_;
  StageLink* link_;
  int rank_, ranks_;  // along the pipe axis
  int micro_batches_;
  Schedule schedule_;
  torch::Device device_;
  Recorder& recorder_;
  bool spans_ranks_;
  Replicas* replicas_;
  MicroShards* shards_ = nullptr;  // null without --exact
  GradientSync* sync_ = nullptr;   // null without --exact
  double label_smoothing_ = 0;
  bool leaves_weights_ = false;
  WeightGradients weight_gradients_;  // before the graphs in alive_, which have its address
  std::vector<torch::Tensor> trained_;
  std::vector<Alive> alive_;  // by chunk and micro-batch
  int alive_count_ = 0, most_alive_ = 0;
};

}  // namespace penstock::detail
