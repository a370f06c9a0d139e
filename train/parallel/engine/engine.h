// Engine: one optimisation step put together from a model part, a schedule, a gradient sync and an update.
//
// Lives here: one step put together, for every mode: forward and backward in the order of a schedule, the sum of
// gradients, the update, the state of a checkpoint, the average of the weights, the emulated step.
// Not here: what a mode chooses (modes), and how each of these works (the folders below).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/parallel/engine/engine_state.h"
#include "train/parallel/engine/make_by_plan.h"
#include "train/parallel/engine/memory_use.h"
#include "train/parallel/engine/step_makers.h"
#include "train/parallel/engine/step_text.h"
#include "train/parallel/engine/weight_average.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/strategy/capturable_step.h"
#include "train/parallel/sync/synced_batch_norm.h"

namespace penstock::detail {

/// One step: this rank's operations of the schedule, the sum of gradients over the data axis, one update. Ranks of one
/// data index work on the same rows; those that hold the first stage are fed them.
///
/// The loss is sum(weight * cross entropy) over the rows that hold samples, and backward starts from 1 / global_count:
/// the sum over ranks is then the gradient of the true global mean, divided once. A micro-batch is an equal number of
/// rows; where a batch is not full, the last ones have fewer or none, and an empty one runs nowhere.
///
/// Padding rows never reach the model in training. A rank without any sample in a batch runs neither forward nor
/// backward and adds zeros, so that BatchNorm's running statistics see samples only. BatchNorm is local: batch
/// statistics are those of this rank's micro-batch, of a single row those of the places of its maps. See
/// StepOptions::leaves_out_single_rows for maps of one place. With StepPlan::syncs_batch_norm they are those of the
/// batch, and a rank without samples runs a batch of size 0 for the collectives in these layers. With
/// StepPlan::defers_batch_norm the running statistics alone are those of the batch.
///
/// With Mesh::micro_shards the micro-batches of all ranks are these shards, and the bits of a step are the same in
/// every mode and mesh: see MicroShards and make_tree_sync().
///
/// From the constructor on the parameters and buffers are those of data rank 0. for_each_state() and the first
/// evaluate() after a step give every rank its buffers again, as PyTorch's DDP checkpoints do.
class Engine final : public Strategy, public CapturableStep {
 public:
  /// Requires that `plan.mesh` has as many ranks as there are. Throws config_error for a model that the plan does not
  /// fit. `own`: of a plug-in.
  Engine(const StrategyContext& context, const StepPlan& plan, OwnParts own = {});

  int data_rank() const override { return plan_.mesh.data_rank(world_.rank()); }
  int data_world_size() const override { return plan_.mesh.data; }
  std::string text() const override { return step_text(measured_, model_, device_); }
  int micro_batches() const override { return plan_.schedule.micro_batches; }
  int micro_batch_step() const override { return detail::micro_batch_step(plan_); }
  double predicted_bubble() const override { return bubble_of(plan_); }
  bool is_fed() const override { return part_.is_first(); }
  int local_steps() const override { return plan_.local ? plan_.local->count : 1; }
  void meet() override { update_->meet(); }
  int most_alive() const override { return runner_->most_alive(); }
  int64_t activation_bytes() const override { return link_.activation_bytes(); }
  StepSums step(const DeviceBatch& batch) override;
  torch::Tensor evaluate(DeviceBatch& batch) override;
  void set_learning_rate(double learning_rate) override { update_->optimizer().set_learning_rate(learning_rate); }
  std::vector<KindMemory> memory() const override;
  torch::Tensor gradient_norm() override { return update_->optimizer().gradient_norm(); }
  void average_weights(double decay, bool restarts) override;
  void compute_in(const Precision& precision) override;
  void evaluate_average(bool on) override { evaluates_average_ = on; }
  void measure_next_step() override { sync_->measure_next(); }
  std::string capture_obstacle() const override;
  void begin_step() override { average_->show(false); }
  StepSums compute_gradients(const DeviceBatch& batch) override { return runner_->compute_gradients(batch); }
  std::vector<torch::Tensor> gradients() override;
  void update(const std::vector<torch::Tensor>& gradients) override;
  std::vector<ReplicaUse> replica_use() override;
  NamedTensors state_sizes() override { return state_->sizes(); }
  void for_each_state(const UseTensor& use) override;
  void load_state(const StateDict& state) override;
  std::string left_out() const override { return left_out_; }

 private:
  void take_weights(const StrategyContext& context);
  bool leaves_out_all(const DeviceBatch& batch) const;
  void finish_step(bool updates = true);
  bool overflows();
  torch::Tensor sum_over_parts(const torch::Tensor& numbers, const torch::Device& device);
  void agree_on_buffers();

  MeasuredPlan measured_;
  StepPlan& plan_;
  PlacedSchedules placed_;
  StepMakers makers_;
  Model& model_;
  torch::Device device_;
  bool skips_overflows_, leaves_out_single_rows_;
  Comm& world_;
  std::unique_ptr<Comm> data_comm_, pipe_comm_;  // null where the axis is the world
  Comm& data_;                                   // the ranks that hold the same stages
  ModelPart part_;
  std::vector<int64_t> places_;  // of the trained parameters of this part among those of the model
  int64_t trained_count_ = 0;    // of the model
  SyncedBatchNorm norms_;
  StageLink link_;
  std::unique_ptr<Update> update_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<WeightAverage> average_;
  std::unique_ptr<EngineState> state_;
  bool are_buffers_agreed_ = false, evaluates_average_ = true;
  std::string left_out_;  // as left_out()
};

/// What the ranks of this context ask of a mode.
MeshRequest request_of(const StrategyContext& context);

}  // namespace penstock::detail
