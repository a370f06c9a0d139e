// Engine: one optimisation step put together from a model part, a schedule, a gradient sync and an update.
//
// Lives here: one step put together, for every mode: forward and backward in the order of a schedule, the sum of
// gradients, the update, the state of a checkpoint, the average of the weights, the emulated step.
// Not here: what a mode chooses (modes), and how each of these works (the folders below).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/parallel/engine/emulated_step.h"
#include "train/parallel/engine/memory_use.h"
#include "train/parallel/engine/schedule_runner.h"
#include "train/parallel/engine/weight_average.h"
#include "train/parallel/exact/micro_shards.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/pipeline/stage_channel.h"
#include "train/parallel/strategy/capturable_step.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/mesh.h"
#include "train/parallel/strategy/model_part.h"
#include "train/parallel/strategy/strategy.h"
#include "train/parallel/strategy/update.h"
#include "train/parallel/sync/synced_batch_norm.h"

namespace penstock::detail {

class Replicas;

/// What a mode chooses; a mode is little more than a value of this.
struct StepConfig {
  Mesh mesh;
  std::vector<StageRange> ranges = {};  // parts, part q at pipe rank q % mesh.pipe; empty: every rank holds the model
  std::string text = {};                // as Strategy::text()
  double bubble = 0;                    // as Strategy::predicted_bubble()
  int micro_batches = 1;
  Schedule schedule = accumulation(1);  // of this rank
  std::function<std::unique_ptr<GradientSync>(const NamedTensors& trained, Comm& data, Recorder& recorder,
                                              int backward_count)>
      sync = [](const auto& trained, Comm&, Recorder&, int) { return make_no_sync(trained); };
  std::function<std::unique_ptr<Update>(const UpdateContext&)> update = make_whole_update;
  /// Where parameters are while no stage uses them; null: whole at every rank.
  std::function<std::shared_ptr<ParameterStore>(const ModelPart& part, Comm& data, Recorder& recorder)> store = {};
  ShardedKinds sliced = {};
  bool syncs_batch_norm = false;            // over the data axis; only with one micro-batch
  bool steps_in_backward = false;           // each bucket when its sum has landed; with make_bucket_sync() alone
  std::shared_ptr<Replicas> replicas = {};  // run the whole model, on several devices; the sync has them too
  bool can_be_captured = false;             // as CapturableStep has it; with make_no_sync() alone
};

/// One step: this rank's operations of the schedule, the sum of gradients over the data axis, one update. Ranks of one
/// data index work on the same rows; those that hold the first stage are fed them.
///
/// The loss is sum(weight * cross entropy) over the rows that hold samples, and backward starts from 1 / global_count:
/// the sum over ranks is then the gradient of the true global mean, divided once. A micro-batch is an equal number of
/// rows; where a batch is not full, the last ones have fewer or none, and an empty one runs nowhere.
///
/// Padding rows never reach the model in training. A rank without any sample in a batch runs neither forward nor
/// backward and adds zeros, so that BatchNorm's running statistics see samples only. BatchNorm is local: batch
/// statistics are those of this rank's micro-batch. A single row gives BatchNorm no variance to normalise by; it then
/// runs with its running statistics, and keeps them. (PyTorch does so for no row, and throws when the maps are 1 x 1.)
/// With StepConfig::syncs_batch_norm they are those of the batch, and a rank without samples runs a batch of size 0 for
/// the collectives in these layers.
///
/// With Mesh::shards the micro-batches of all ranks are these shards, and the bits of a step are the same in every mode
/// and mesh: see MicroShards and make_tree_sync().
///
/// From the constructor on the parameters and buffers are those of data rank 0. for_each_state() and the first
/// evaluate() after a step give every rank its buffers again, as PyTorch's DDP checkpoints do.
class Engine final : public Strategy, public CapturableStep {
 public:
  /// Requires that `choices.mesh` has as many ranks as there are.
  Engine(const StrategyContext& context, const StepConfig& choices);

  int data_rank() const override { return choices_.mesh.data_rank(world_.rank()); }
  int data_world_size() const override { return choices_.mesh.data; }
  std::string text() const override { return choices_.text; }
  int micro_batches() const override { return choices_.micro_batches; }
  int micro_batch_step() const override {  // see interleaved()
    return choices_.ranges.size() > static_cast<size_t>(choices_.mesh.pipe) ? choices_.mesh.pipe : 1;
  }
  double predicted_bubble() const override { return choices_.bubble; }
  bool is_fed() const override { return part_.is_first(); }
  int most_alive() const override { return runner_->most_alive(); }
  int64_t activation_bytes() const override { return link_ ? link_->activation_bytes() : 0; }
  StepSums step(const DeviceBatch& batch) override;
  torch::Tensor evaluate(DeviceBatch& batch) override;
  void set_learning_rate(double learning_rate) override { update_->optimizer().set_learning_rate(learning_rate); }
  std::vector<KindMemory> memory() const override {
    return measured_memory(part_, *sync_, update_->optimizer().state(),
                           average_ ? values(average_->tensors()) : std::vector<torch::Tensor>(), choices_.sliced,
                           data_.world_size());
  }
  void average_weights(double decay, bool restarts) override;
  void measure_next_step() override { sync_->measure_next(); }
  std::string capture_obstacle() const override;
  void begin_step() override { show_average(false); }
  StepSums compute_gradients(const DeviceBatch& batch) override;
  std::vector<torch::Tensor> gradients() override;
  void update(const std::vector<torch::Tensor>& gradients) override;
  std::vector<ReplicaUse> replica_use() override;
  StateSizes state_sizes() override;
  void for_each_state(const UseTensor& use) override;
  void load_state(const StateDict& state) override;
  std::string left_out() const override { return left_out_; }

 private:
  void emulate(const StrategyContext& context);
  StepSums emulated(const DeviceBatch& batch);
  void finish_step();
  void agree_on_buffers();
  void show_average(bool on);
  int holder_of(const std::string& tensor) const;
  /// Collective over the data axis, at its first rank: all that its ranks hold of state_sizes(), whole, without what a
  /// rank keeps for itself; each is valid while `use` has it.
  void for_each_held(const UseTensor& use);

  Model& model_;
  StepConfig choices_;
  Comm& world_;
  std::unique_ptr<Comm> data_comm_, pipe_comm_;  // null where the axis is the world, or one rank
  Comm& data_;                                   // the ranks that hold the same stages
  torch::Device device_;
  Recorder& recorder_;
  ModelPart part_;
  std::optional<SyncedBatchNorm> norms_;  // none: BatchNorm is local, or there is none
  std::optional<StageLink> link_;         // none: this rank holds the whole model
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<Update> update_;
  std::optional<ScheduleRunner> runner_;
  std::optional<MicroShards> shards_;          // none: without --exact
  std::optional<EmulatedStep> emulated_step_;  // none: steps are real
  std::optional<WeightAverage> average_;       // none: without --average
  bool are_buffers_agreed_ = false;
  std::string left_out_;  // as left_out()
};

}  // namespace penstock::detail
