// Engine: the order in which parts are made, a step as a plain loop makes it, a state that goes on bit for bit, and a
// runner in place of the real one.
#include "train/parallel/engine/engine.h"

#include <gmock/gmock.h>

#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/parallel/sharding/sharded_state.h"

namespace penstock::detail {
namespace {

using testing::ElementsAre;

constexpr int kRows = 6;

/// An engine of one rank for a small LeNet in float64, which keeps an average.
struct Harness {
  explicit Harness(const StepPlan& plan, const OwnParts& own = {}, const Emulation& emulation = {})
      : engine(context(emulation), plan, own) {}

  StrategyContext context(const Emulation& emulation) {
    model->to(torch::kFloat64);
    StrategyContext all{*model, *comm, torch::kCPU, kSgd, recorder, emulation};
    all.step.keeps_average = true;
    return all;
  }

  std::unique_ptr<Model> model = make_small_lenet();
  Recorder recorder;
  std::unique_ptr<Comm> comm = make_self_comm();
  Engine engine;
};

DeviceBatch batch_of(int64_t index) {
  return part_of(random_samples(4 * kRows, kSmallGrey, 7), kRows, index, /*rank=*/0, /*world_size=*/1);
}

TEST(EngineTest, PartsAreMadeInTheOrderOfStoreUpdateSyncAndRunner) {
  std::vector<std::string> made;
  OwnParts own;
  own.store = [&](const auto&, Comm&, Recorder&) {
    made.emplace_back("store");
    return nullptr;
  };
  own.update = [&](const auto& update) {
    made.emplace_back("update");
    return make_whole_update(update);
  };
  own.sync = [&](const auto& sync) {
    made.emplace_back("sync");
    return make_no_sync(sync);
  };
  own.runner = [&](const StepParts& parts, const StrategyContext&) -> std::unique_ptr<StepRunner> {
    made.emplace_back("runner");
    EXPECT_FALSE(parts.update.optimizer().state().slots.empty());
    return nullptr;
  };
  const Harness harness({}, own);
  EXPECT_THAT(made, ElementsAre("store", "update", "sync", "runner"));
}

/// An update that cuts parameters into shards has those of the run, not those that a rank has drawn for itself.
TEST(EngineTest, EveryRankHasTheWeightsOfRankZeroBeforeItsUpdateIsMade) {
  std::mutex mutex;
  std::vector<double> seen;
  run_ranks(
      2,
      [&](Comm& comm) {
        OwnParts own;
        own.update = [&](const UpdateContext& update) {
          const std::lock_guard lock(mutex);
          seen.push_back(update.trained.front().second.sum().item<double>());
          return make_whole_update(update);
        };
        const auto model = make("lenet", kSmallGrey, /*seed=*/comm.rank() + 1);
        Recorder recorder;
        const Engine engine(StrategyContext{*model, comm, torch::kCPU, kSgd, recorder},
                            {.mesh = {.data = 2}, .sums_gradients = true}, own);
      },
      /*step_seconds=*/60, Network::kThreads);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(EngineTest, AMeshOfAnotherSizeIsRefused) {
  EXPECT_EQ(message_of(ErrorKind::kBug, [] { Harness({.mesh = {.data = 2}}); }),
            "a mesh of 2 ranks; expected one of 1");
}

/// SGD with momentum and weight decay (as torch.optim.SGD) over the mean loss of all rows.
StateDict plain_loop(int64_t step_count) {
  const auto model = make_small_lenet();
  model->to(torch::kFloat64);
  std::vector<torch::Tensor> momenta;
  for (const auto& parameter : model->parameters()) momenta.push_back(torch::zeros_like(parameter));
  for (int64_t step = 0; step < step_count; ++step) {
    const auto batch = batch_of(step);
    model->zero_grad();
    torch::cross_entropy_loss(model->forward(batch.images), batch.labels).backward();
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < momenta.size(); ++i) {
      auto parameter = model->parameters()[i];
      momenta[i].mul_(kSgd.momentum).add_(parameter.grad()).add_(parameter, kSgd.weight_decay);
      parameter.sub_(momenta[i], kSgd.learning_rate);
    }
  }
  return own_model(*model);
}

double distance_to_plain_loop(const StepPlan& plan) {
  Harness harness(plan);
  for (int64_t step = 0; step < 3; ++step) harness.engine.step(batch_of(step));
  return relative_difference(own_model(*harness.model), plain_loop(3));
}

TEST(EngineTest, StepsAreThoseOfAPlainLoop) {
  EXPECT_LT(distance_to_plain_loop({}), 1e-12);
  EXPECT_LT(distance_to_plain_loop({.schedule = {.name = "", .micro_batches = 3}}), 1e-12);
}

TEST(EngineTest, AStateThatIsLoadedGoesOnBitForBit) {
  Harness first({}), second({});
  for (int64_t step = 0; step < 2; ++step) {
    first.engine.step(batch_of(step));
    first.engine.average_weights(0.5, /*restarts=*/false);
  }
  second.engine.step(batch_of(3));  // other weights, momenta and average than those of a new engine
  second.engine.average_weights(0.5, /*restarts=*/false);
  auto shown = batch_of(0);
  second.engine.evaluate(shown);  // the average is in the weights' place
  second.engine.load_state(first.engine.state());
  EXPECT_EQ(relative_difference(first.engine.state(), second.engine.state()), 0);
  for (auto* one : {&first, &second}) {
    one->engine.step(batch_of(2));
    one->engine.average_weights(0.5, /*restarts=*/false);
  }
  const auto state = second.engine.state();
  EXPECT_EQ(relative_difference(first.engine.state(), state), 0);
  EXPECT_TRUE(state.contains("optimizer.momentum.fc1.weight"));
  EXPECT_FALSE(state.at("average.fc1.weight").equal(state.at("model.fc1.weight")));
  std::vector<std::string> names, sizes;
  for (const auto& [name, tensor] : state) names.push_back(name);
  for (const auto& [name, tensor] : second.engine.state_sizes()) sizes.push_back(name);
  EXPECT_THAT(sizes, testing::UnorderedElementsAreArray(names));
}

TEST(EngineTest, AStateThatDoesNotFitIsRefusedByName) {
  Harness harness({});
  const auto state = harness.engine.state();
  const auto refusal = [&](const auto& change) {
    auto changed = state;
    change(changed);
    return message_of(ErrorKind::kCorrupt, [&] { harness.engine.load_state(changed); });
  };
  EXPECT_EQ(refusal([](auto& all) { all.erase("average.fc1.bias"); }),
            "tensor average.fc1.bias is missing; expected it, as the model has it");
  EXPECT_EQ(refusal([](auto& all) { all["model.fc9.bias"] = torch::zeros({1}); }),
            "tensor model.fc9.bias is one too many; expected the model's tensors alone");
  EXPECT_THAT(refusal([](auto& all) { all["model.fc1.bias"] = torch::zeros({1}); }),
              testing::StartsWith("tensor model.fc1.bias is Float [1]; expected the model's, Double "));
}

TEST(EngineTest, WhatARankOfAnotherModeKeptIsLeftOutAndSaid) {
  Harness harness({});
  auto state = harness.engine.state();
  harness.engine.load_state(state);
  EXPECT_EQ(harness.engine.left_out(), "");
  state["strategy.powersgd.0.error"] = torch::zeros({1});
  harness.engine.load_state(state);
  EXPECT_EQ(harness.engine.left_out(),
            "left out of the checkpoint: what each rank kept for powersgd, which only the same mode, keys and number "
            "of ranks can go on with");
}

/// Notes its calls.
class NotedRunner final : public StepRunner {
 public:
  NotedRunner(const StepParts& parts, std::vector<std::string>& calls) : parts_(parts), calls_(calls) {}
  StepSums compute_gradients(const DeviceBatch& batch) override {
    calls_.emplace_back("compute " + std::to_string(batch.count));
    return no_sums(parts_.device);
  }
  void update() override { calls_.emplace_back("update"); }
  torch::Tensor evaluate(const DeviceBatch& batch) override {
    calls_.emplace_back(at::GradMode::is_enabled() ? "evaluate with gradients" : "evaluate");
    return parts_.part.forward(batch.images);
  }
  int most_alive() const override { return 17; }
  std::string capture_obstacle() const override { return "it is noted"; }

 private:
  StepParts parts_;
  std::vector<std::string>& calls_;
};

TEST(EngineTest, ARunnerInPlaceOfTheRealOneMakesTheSteps) {
  std::vector<std::string> calls;
  OwnParts own;
  own.runner = [&](const StepParts& parts, const StrategyContext&) {
    return std::make_unique<NotedRunner>(parts, calls);
  };
  Harness harness({}, own);
  const auto before = own_model(*harness.model);
  auto batch = batch_of(0);
  EXPECT_EQ(harness.engine.step(batch).count, 0);
  EXPECT_TRUE(harness.engine.evaluate(batch).equal(harness.model->forward(batch.images)));
  harness.engine.compute_gradients(batch);
  harness.engine.update(harness.engine.gradients());
  EXPECT_THAT(calls, ElementsAre("compute 6", "update", "evaluate", "compute 6", "update"));
  EXPECT_EQ(relative_difference(own_model(*harness.model), before), 0);
  EXPECT_EQ(harness.engine.most_alive(), 17);
  EXPECT_EQ(harness.engine.capture_obstacle(), "it is noted");
}

TEST(EngineTest, AnEmulatedStepChangesNothing) {
  const StepPlan plan{.sums_gradients = true, .can_be_captured = true};
  Harness real(plan), emulated(plan, {}, Emulation{.step_ns = 1'000});
  const auto before = own_model(*emulated.model);
  emulated.engine.step(batch_of(0));
  EXPECT_EQ(relative_difference(own_model(*emulated.model), before), 0);
  EXPECT_EQ(emulated.engine.capture_obstacle(), "an emulated step computes nothing");
  EXPECT_EQ(real.engine.capture_obstacle(), "");
  auto batch = batch_of(0);
  EXPECT_TRUE(emulated.engine.evaluate(batch).equal(real.engine.evaluate(batch)));
}

TEST(ShardedStateTest, WhatComesBeforeWhatItNeedsIsRefused) {
  ShardedState state({.parameters = true, .gradients = true, .optimizer = true});
  EXPECT_EQ(message_of(ErrorKind::kBug, [&] { state.buckets(); }),
            "a sync of sharded gradients without an update; expected the update first");
  EXPECT_EQ(message_of(ErrorKind::kBug, [&] { state.parameters(); }),
            "an update or a sync of sharded parameters without a store; expected it first");
  const auto comm = make_self_comm();
  const NamedTensors none;
  Recorder recorder;
  EXPECT_EQ(message_of(ErrorKind::kBug,
                       [&] {
                         state.make_update({none, *comm, recorder, kSgd, {}});
                       }),
            "an update or a sync of sharded parameters without a store; expected it first");
}

TEST(ShardedStateTest, UpdateAndSyncShareTheGradientsOfTheirSlices) {
  const auto comm = make_self_comm();
  Recorder recorder;
  const NamedTensors trained{{"weight", torch::ones({5}, torch::kFloat64).requires_grad_()}};
  ShardedState whole({.optimizer = true}), sharded({.gradients = true, .optimizer = true});
  const auto update = whole.make_update({trained, *comm, recorder, kSgd, {}});
  EXPECT_FALSE(whole.buckets().front().gradient.defined());
  const auto update_of_slices =
      sharded.make_update({trained, *comm, recorder, {.learning_rate = 1, .momentum = 0}, {}});
  sharded.buckets().front().gradient.fill_(3);
  update_of_slices->step();
  EXPECT_TRUE(trained.front().second.eq(-2).all().item<bool>());
}

}  // namespace
}  // namespace penstock::detail
