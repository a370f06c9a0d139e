// Mutants: modes that are `ddp` but for one mistake around it. `train verify-modes` must catch each of them.
#include "train/nn/model.h"
#include "train/parallel/strategy/strategy.h"
#include "train/plugin.h"

PENSTOCK_TRAIN_PLUGIN();

namespace penstock {
namespace {

/// Another mode, under another name.
class Wrapped : public Strategy {
 public:
  Wrapped(const char* mode, const StrategyContext& context)
      : inner_(StrategyRegistry::make(parse_spec("mode", mode), context)) {}

  int data_rank() const override { return inner_->data_rank(); }
  int data_world_size() const override { return inner_->data_world_size(); }
  StepSums step(const DeviceBatch& batch) override { return inner_->step(batch); }
  torch::Tensor evaluate(DeviceBatch& batch) override { return inner_->evaluate(batch); }
  void set_learning_rate(double learning_rate) override { inner_->set_learning_rate(learning_rate); }
  void average_weights(double decay, bool restarts) override { inner_->average_weights(decay, restarts); }
  void evaluate_average(bool on) override { inner_->evaluate_average(on); }
  NamedTensors state_sizes() override { return inner_->state_sizes(); }
  void for_each_state(const UseTensor& use) override { inner_->for_each_state(use); }
  void load_state(const StateDict& state) override { inner_->load_state(state); }

 private:
  std::unique_ptr<Strategy> inner_;
};

/// Registers `Mutant`, a Wrapped.
template <class Mutant>
Registered<StrategyKind> mutant(const char* name, const char* help, const char* mode, bool sees_whole_batches = false,
                                StrategyKind::Exact exact = StrategyKind::Exact::kNever, bool keeps_average = true) {
  return {name,
          {},
          help,
          [mode](const Spec&, const StrategyContext& context) { return std::make_unique<Mutant>(mode, context); },
          {.plan =
               [mode, sees_whole_batches](const Spec&, const MeshRequest& request) {
                 StepPlan plan = plan_of(parse_spec("mode", mode), request);
                 plan.is_complete = false;
                 plan.syncs_batch_norm = sees_whole_batches;  // what it promises, whatever it does
                 return plan;
               },
           .exact = exact,
           .keeps_average = keeps_average}};
}

const auto kControl = mutant<Wrapped>("control", "ddp as it is", "ddp(sync-bn=true)", /*sees_whole_batches=*/true);

const auto kWithoutAverage =
    mutant<Wrapped>("without-average", "ddp as it is, by a mode that cannot average weights", "ddp",
                    /*sees_whole_batches=*/true, StrategyKind::Exact::kNever, /*keeps_average=*/false);

class DivisionForgotten final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  StepSums step(const DeviceBatch& batch) override {
    DeviceBatch own = batch;
    own.global_count = batch.count;
    return Wrapped::step(own);
  }
};
const auto kDivisionForgotten = mutant<DivisionForgotten>(
    "division-forgotten", "each rank divides by its own rows, and nobody by the number of ranks", "ddp");

class PaddingCounted final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  StepSums step(const DeviceBatch& batch) override {
    DeviceBatch padded = batch;
    padded.global_count = batch.rows * data_world_size();
    return Wrapped::step(padded);
  }
};
const auto kPaddingCounted =
    mutant<PaddingCounted>("padding-counted", "rows of weight 0 count in the mean of a batch", "ddp");

class StaleBuffers final : public Wrapped {
 public:
  StaleBuffers(const char* mode, const StrategyContext& context) : Wrapped(mode, context), model_(context.model) {}
  StepSums step(const DeviceBatch& batch) override {
    std::vector<torch::Tensor> before;
    for (const auto& buffer : model_.buffers()) before.push_back(buffer.clone());
    const auto sums = Wrapped::step(batch);
    const auto buffers = model_.buffers();
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(before[i]);
    return sums;
  }

 private:
  Model& model_;
};
const auto kStaleBuffers = mutant<StaleBuffers>("stale-buffers", "BatchNorm's running statistics stay as they are",
                                                "ddp(sync-bn=true)", /*sees_whole_batches=*/true);

const auto kStaleShardBuffers =
    mutant<StaleBuffers>("stale-shard-buffers", "with --exact the statistics of the shards are left out", "ddp",
                         /*sees_whole_batches=*/false, StrategyKind::Exact::kAlways);

const auto kNormsNotSynced =
    mutant<Wrapped>("norms-not-synced", "BatchNorm sees the rows of a rank alone", "ddp", /*sees_whole_batches=*/true);

class MomentumLost final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  void load_state(const StateDict& state) override {
    StateDict without = state;
    for (auto& [name, tensor] : without)
      if (name.starts_with("optimizer.momentum.")) tensor = torch::zeros_like(tensor);
    Wrapped::load_state(without);
  }
};
const auto kMomentumLost = mutant<MomentumLost>("momentum-lost", "a run that goes on starts with no momentum", "ddp");

class StepsLost final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  void load_state(const StateDict& state) override {
    StateDict without = state;
    for (auto& [name, tensor] : without)
      if (name == "optimizer.steps") tensor = torch::zeros_like(tensor);
    Wrapped::load_state(without);
  }
};
const auto kStepsLost = mutant<StepsLost>("steps-lost", "adam counts its steps from 0 in a run that goes on", "ddp");

class DecaySquared final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  void average_weights(double decay, bool restarts) override { Wrapped::average_weights(decay * decay, restarts); }
};
const auto kDecaySquared = mutant<DecaySquared>("decay-squared", "the decay of an average is its square", "ddp");

class NoLookAhead final : public Wrapped {
 public:
  NoLookAhead(const char* mode, const StrategyContext& context) : Wrapped(mode, without(context)) {}

 private:
  static StrategyContext without(StrategyContext context) {
    if (context.optimizer.spec == "sgd(nesterov=true)") context.optimizer.spec = "sgd";
    return context;
  }
};
const auto kNoLookAhead = mutant<NoLookAhead>("no-look-ahead", "sgd with nesterov=true does not look ahead",
                                              "ddp(sync-bn=true)", /*sees_whole_batches=*/true);

/// Each rank puts its own buffers back after those of rank 0 have come.
class BuffersOfEach final : public Wrapped {
 public:
  BuffersOfEach(const char* mode, const StrategyContext& context) : Wrapped(mode, context), model_(context.model) {}
  torch::Tensor evaluate(DeviceBatch& batch) override {
    std::vector<torch::Tensor> own;
    for (const auto& buffer : model_.buffers()) own.push_back(buffer.clone());
    DeviceBatch same = batch;
    Wrapped::evaluate(same);
    const auto buffers = model_.buffers();
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(own[i]);
    return Wrapped::evaluate(batch);
  }

 private:
  Model& model_;
};
const auto kBuffersOfEach =
    mutant<BuffersOfEach>("buffers-of-each", "each rank evaluates with its own running statistics", "ddp");

}  // namespace
}  // namespace penstock
