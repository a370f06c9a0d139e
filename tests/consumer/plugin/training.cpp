// A plug-in by another project for `train`: the models `spreads` and `edges`, the modes `signs`, with a step of its
// own, and `pairs`, which is its plan, the optimiser `signum`, the loss `brier`, the schedule `in-order` and the sink
// `losses`.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <fstream>

#include "core/error.h"
#include "train/losses/loss.h"
#include "train/nn/layers.h"
#include "train/nn/model.h"
#include "train/parallel/engine/make_by_plan.h"
#include "train/parallel/strategy/schedule.h"
#include "train/parallel/strategy/strategy.h"
#include "train/plugin.h"
#include "train/sinks/sink.h"

PENSTOCK_TRAIN_PLUGIN();

namespace {

using penstock::DeviceBatch, penstock::Loss, penstock::LossOptions, penstock::Phase, penstock::StateDict,
    penstock::NamedTensors, penstock::StepSums, penstock::StrategyContext, penstock::UseTensor;
using penstock::MeshRequest, penstock::StepPlan, penstock::ModelKind, penstock::Registered, penstock::StrategyKind;
using penstock::Model, penstock::ModelShape, penstock::Recorder, penstock::Spec, penstock::Strategy;
using penstock::Optimizer, penstock::OptimizerContext, penstock::OptimizerKind;

/// One linear layer on two numbers per channel: how much the means of the picture's rows differ, and those of its
/// columns.
class Spreads final : public Model {
 public:
  explicit Spreads(const ModelShape& shape) {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(2 * shape.channels, shape.classes));
    add_block("head", {"fc"}, [fc](const torch::Tensor& x) mutable {
      return fc(torch::cat({x.mean(3).std(2), x.mean(2).std(2)}, /*dim=*/1));
    });
  }
};

const Registered<ModelKind> kSpreads{
    "spreads", {}, "a linear layer on the spreads of row and column means", [](const Spec&, const ModelShape& shape) {
      return std::make_unique<Spreads>(shape);
    }};

/// A convolution of LibTorch, whose weights half precision does not reach, before a layer of the library.
class Edges final : public Model {
 public:
  explicit Edges(const ModelShape& shape) {
    torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(shape.channels, 4, 3));
    penstock::Linear fc = register_module("fc", penstock::Linear(4, shape.classes));
    add_block("all", {"conv", "fc"}, [conv, fc](const torch::Tensor& x) mutable {
      return fc(conv(x).abs().mean({2, 3}));
    });
  }
};

const Registered<ModelKind> kEdges{
    "edges", {}, "means of edges, and a linear layer", [](const Spec&, const ModelShape& shape) {
      return std::make_unique<Edges>(shape);
    }};

/// A strategy for one rank. Each step moves each parameter by the learning rate against the sign of its gradient
/// (Bernstein et al. 2018, "signSGD", algorithm 1).
class Signs final : public Strategy {
 public:
  explicit Signs(const StrategyContext& context)
      : model_(context.model),
        recorder_(context.recorder),
        rate_(context.optimizer.learning_rate),
        loss_(loss_of(context.step)) {
    model_.to(context.device);
  }
  static StepPlan plan_for(const Spec&, const MeshRequest& request) {
    if (request.ranks > 1) throw penstock::config_error("--mode signs: several ranks; expected 1");
    return {};
  }
  int data_rank() const override { return 0; }
  int data_world_size() const override { return 1; }
  void set_learning_rate(double rate) override { rate_ = rate; }

  StepSums step(const DeviceBatch& batch) override {
    model_.train();
    const auto rows = batch.narrow(0, batch.count);
    const auto logits = model_.forward(rows.images);
    const auto loss = (loss_->of_rows(logits, rows) * rows.weights).sum();
    recorder_.mark(Phase::kForward);
    (loss / static_cast<double>(batch.global_count)).backward();
    recorder_.mark(Phase::kBackward);
    const at::NoGradGuard no_grad;
    for (auto& parameter : model_.parameters()) {
      if (!parameter.requires_grad()) continue;
      parameter.sub_(parameter.grad().sign(), rate_);
      parameter.mutable_grad().reset();
    }
    recorder_.mark(Phase::kOptimizer);
    return {loss.detach(), hits(logits, rows), batch.count};
  }

  torch::Tensor evaluate(DeviceBatch& batch) override {
    const at::NoGradGuard no_grad;
    model_.eval();
    return model_.forward(batch.images);
  }

  NamedTensors state_sizes() override {
    NamedTensors sizes;
    for (const auto& item : model_.named_parameters()) sizes.emplace_back("model." + item.key(), item.value());
    return sizes;
  }
  void for_each_state(const UseTensor& use) override {
    for (const auto& [name, tensor] : state_sizes()) use(name, tensor);
  }
  void load_state(const StateDict& state) override {
    const at::NoGradGuard no_grad;
    for (auto& item : model_.named_parameters()) item.value().copy_(state.at("model." + item.key()));
  }

 private:
  Model& model_;
  Recorder& recorder_;
  double rate_;
  std::shared_ptr<const Loss> loss_;
};

const Registered<StrategyKind> kSigns{
    "signs",
    {},
    "one rank, steps of the gradients' signs",
    [](const Spec&, const StrategyContext& context) { return std::make_unique<Signs>(context); },
    {.plan = Signs::plan_for}};

/// Two ranks hold a half of the model each, and every two of them a copy, which keeps the optimiser's state of a slice
/// alone. There is no more to it: who reads the plan makes the step, predicts, draws and emulates it.
StepPlan pairs_plan(const Spec& spec, const MeshRequest& request) {
  const int ranks = request.ranks > 0 ? request.ranks : 2;
  if (ranks % 2 != 0)
    throw penstock::config_error("--mode pairs: " + std::to_string(ranks) + " ranks; expected an even number");
  StepPlan plan{.mesh = {.data = ranks / 2, .pipe = 2}, .sums_gradients = ranks > 2, .is_complete = true};
  plan.schedule = {.name = "gpipe", .ranks = 2, .micro_batches = spec.get("pieces", 2)};
  plan.sharded.optimizer = ranks > 2;
  return plan;
}

const Registered<StrategyKind> kPairs{"pairs",
                                      {"pieces"},
                                      "pairs of ranks: pieces=2 micro-batches by gpipe",
                                      penstock::detail::make_by_plan,
                                      {.plan = pairs_plan}};

/// Each step moves each parameter by the learning rate against the sign of the running mean of its gradients (Bernstein
/// et al. 2018, algorithm 2).
class Signum final : public Optimizer {
 public:
  Signum(const Spec& spec, const OptimizerContext& context)
      : Optimizer(context, {"mean"}), beta_(spec.get("beta", 0.9)) {}

 private:
  void update() override {
    for (const auto& group : groups()) {
      at::_foreach_lerp_(group.slots[0], gradients_of(group.parameters), 1 - beta_);
      at::_foreach_add_(group.parameters, at::_foreach_sign(group.slots[0]), -learning_rate(group));
    }
  }

  double beta_;
};

const Registered<OptimizerKind> kSignum{
    "signum",
    {"beta"},
    "steps of the sign of the mean gradient: beta=0.9",
    [](const Spec& spec, const OptimizerContext& context) { return std::make_unique<Signum>(spec, context); }};

/// The squared distance of the probabilities that softmax gives from those of the label (Brier 1950).
class Brier final : public Loss {
  torch::Tensor of_targets(const torch::Tensor& outputs, const DeviceBatch& rows) const override {
    const auto wanted = torch::zeros_like(outputs).scatter_(1, rows.labels.unsqueeze(1), 1);
    return (outputs.softmax(1) - wanted).square().sum(1);
  }
};

const Registered<penstock::LossKind> kBrier{
    "brier", {}, "squared distance of the probabilities from the label's", [](const Spec&, const LossOptions&) {
      return std::make_unique<Brier>();
    }};

/// gpipe with the backwards in the order of the forwards.
class InOrder final : public penstock::PipelineSchedule {
 public:
  penstock::detail::Schedule operations(const penstock::detail::SchedulePlan& plan, int) const override {
    using enum penstock::detail::Operation::Kind;
    penstock::detail::Schedule schedule;
    for (const auto kind : {kForward, kBackward})
      for (int m = 0; m < plan.micro_batches; ++m) schedule.push_back({kind, m});
    return schedule;
  }
};

const Registered<penstock::ScheduleKind> kInOrder{
    "in-order", {}, "all forwards, then all backwards in the same order", [](const Spec&) {
      return std::make_unique<InOrder>();
    }};

/// losses.txt: a line for each epoch.
class Losses final : public penstock::Sink {
 public:
  explicit Losses(const penstock::SinkContext& context)
      : file_(context.folder / "losses.txt", context.resumed_step < 0 ? std::ios::trunc : std::ios::app) {}
  void write(const penstock::Metrics& metrics) override {
    if (metrics.kind == penstock::Metrics::Kind::kEpoch) file_ << metrics.epoch << ' ' << metrics.loss << std::endl;
  }

 private:
  std::ofstream file_;
};

const Registered<penstock::SinkKind> kLosses{
    "losses",
    {},
    "losses.txt, a line for each epoch",
    [](const Spec&, const penstock::SinkContext& context) { return std::make_unique<Losses>(context); },
    {.files = "losses.txt"}};

}  // namespace
