// --average: the mean of weights in every mode, what an evaluation sees of it, and how it goes on from a state.
#include <gtest/gtest.h>

#include <mutex>
#include <tuple>

#include "core/error.h"
#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/saved_state.h"
#include "tests/train/strategy_batches.h"
#include "train/checkpoint/checkpoint.h"
#include "train/options/average.h"

namespace penstock {
namespace {

constexpr ModelShape kOf12{.channels = 1, .height = 12, .width = 12, .classes = 4};
const OptimizerOptions kMomentum{.learning_rate = 0.05, .momentum = 0.9};

/// A strategy that keeps an average, over a model of its own.
struct Averaging {
  Averaging(const std::string& mode, Comm& comm, int seed = 1)
      : make([seed] {
          static std::mutex mutex;
          const std::lock_guard lock(mutex);
          at::manual_seed(static_cast<uint64_t>(seed));
          return ModelRegistry::make(parse_spec("arch", "lenet"), kOf12);
        }),
        model(make()) {
    model->to(torch::kFloat64);
    StrategyContext context{*model, comm, torch::kCPU, kMomentum, recorder};
    context.make_model = make;
    context.step.keeps_average = true;
    strategy = StrategyRegistry::make(parse_spec("mode", mode), context);
  }
  DeviceBatch part(const Samples& samples, int64_t index) const {
    auto batch = part_of(samples, 8, index, strategy->data_rank(), strategy->data_world_size());
    if (!strategy->is_fed()) batch.images = batch.labels = batch.weights = torch::Tensor();
    return batch;
  }

  ModelMaker make;
  Recorder recorder;
  std::unique_ptr<Model> model;
  std::unique_ptr<Strategy> strategy;
};

const torch::Tensor& weight_of(const StateDict& state, const std::string& owner) {
  return state.at(owner + ".fc3.weight");
}

StateDict averaged_state(const std::string& mode, int ranks, bool restarts) {
  StateDict state;
  const auto samples = random_samples(32, kOf12, 3);
  run_ranks(ranks, [&](Comm& comm) {
    Averaging one(mode, comm);
    for (int64_t step = 0; step < 4; ++step) {
      one.strategy->step(one.part(samples, step));
      if (step % 2 == 1) one.strategy->average_weights(0.75, restarts);
      auto batch = one.part(samples, step);
      one.strategy->evaluate(batch);  // with the average, which then goes back
    }
    auto own = one.strategy->state();
    if (comm.rank() == 0) state = std::move(own);
  });
  return state;
}

TEST(WeightAverageTest, ItIsTheMeanThatItsFormulaSays) {
  const auto comm = make_self_comm();
  const auto samples = random_samples(32, kOf12, 3);
  for (const bool restarts : {false, true}) {
    Averaging one("single", *comm);
    auto mean = weight_of(one.strategy->state(), "model").clone();
    for (int64_t step = 0; step < 4; ++step) {
      one.strategy->step(one.part(samples, step));
      const auto weight = weight_of(one.strategy->state(), "model");
      one.strategy->average_weights(0.75, restarts);
      mean = 0.75 * mean + 0.25 * weight;
      const auto after = one.strategy->state();
      EXPECT_TRUE(weight_of(after, "average").allclose(mean, 1e-12, 1e-14)) << step;
      EXPECT_TRUE(weight_of(after, "model").equal(restarts ? weight_of(after, "average") : weight)) << step;
    }
  }
}

/// Also over slices of parameters, parts of the model and replicas.
TEST(WeightAverageTest, EveryModeHasTheAverageOfSingle) {
  for (const bool restarts : {false, true}) {
    const auto expected = averaged_state("single", 1, restarts);
    for (const auto& [mode, ranks] : {std::pair{"ddp", 2},
                                      {"zero", 2},
                                      {"zero(stage=2)", 2},
                                      {"zero(stage=3)", 2},
                                      {"dp(devices=cpu:2)", 1},
                                      {"mp", 2},
                                      {"pipeline(micro-batches=2)", 2},
                                      {"pipeline(data=2,zero=1,micro-batches=2)", 4}})
      EXPECT_LT(relative_difference(expected, averaged_state(mode, ranks, restarts)), 1e-10) << mode << restarts;
  }
}

TEST(WeightAverageTest, AnEvaluationUsesItAndATrainingStepDoesNot) {
  const auto comm = make_self_comm();
  const auto samples = random_samples(32, kOf12, 3);
  Averaging one("single", *comm), plain("single", *comm);
  const auto logits = [&](Averaging& run) {
    auto batch = run.part(samples, 0);
    return run.strategy->evaluate(batch).clone();
  };
  const auto first = logits(one);
  for (auto* run : {&one, &plain}) run->strategy->step(run->part(samples, 1));
  EXPECT_TRUE(logits(one).equal(first));  // the average has not moved yet
  one.strategy->average_weights(0.5, /*restarts=*/false);
  EXPECT_FALSE(logits(one).equal(first));
  logits(one);
  for (auto* run : {&one, &plain}) run->strategy->step(run->part(samples, 2));
  for (const auto& [name, tensor] : plain.strategy->state())
    EXPECT_EQ(one.strategy->state().at(name).equal(tensor), !name.starts_with("average.")) << name;
}

/// With a decay of 0 the average is the weights, so that a run whose average is shown says what another must say of its
/// weights.
TEST(WeightAverageTest, InEveryModeTheWeightsCanBeEvaluatedBesideIt) {
  const auto samples = random_samples(32, kOf12, 3);
  for (const auto& [mode, ranks] : {std::pair{"single", 1},
                                    {"ddp", 2},
                                    {"zero(stage=3)", 2},
                                    {"dp(devices=cpu:2)", 1},
                                    {"pipeline(data=2,zero=1,micro-batches=2)", 4}})
    run_ranks(ranks, [&, mode = mode](Comm& comm) {
      Averaging one(mode, comm), as_weights(mode, comm);
      const auto logits = [&](Averaging& run, bool of_average) {
        auto batch = run.part(samples, 3);
        run.strategy->evaluate_average(of_average);
        const auto found = run.strategy->evaluate(batch);
        return found.defined() ? found.clone() : torch::zeros({1});
      };
      for (int64_t step = 0; step < 2; ++step) {
        for (auto* run : {&one, &as_weights}) run->strategy->step(run->part(samples, step));
        one.strategy->average_weights(0.75, /*restarts=*/false);
        as_weights.strategy->average_weights(0, /*restarts=*/false);
        const auto average = logits(one, true), weights = logits(one, false);
        EXPECT_TRUE(weights.equal(logits(as_weights, true))) << mode;
        EXPECT_TRUE(logits(one, true).equal(average)) << mode;
        EXPECT_EQ(average.equal(weights), average.numel() == 1) << mode;
      }
    });
}

TEST(WeightAverageTest, ItGoesOnFromItsStateAndIsTheModelThatIsSaved) {
  const auto comm = make_self_comm();
  const auto samples = random_samples(32, kOf12, 3);
  Averaging whole("single", *comm), resumed("single", *comm, /*seed=*/2);
  whole.strategy->step(whole.part(samples, 0));
  whole.strategy->average_weights(0.5, false);
  const auto state = whole.strategy->state();
  resumed.strategy->load_state(state);
  for (auto* run : {&whole, &resumed}) {
    run->strategy->step(run->part(samples, 1));
    run->strategy->average_weights(0.5, false);
  }
  EXPECT_EQ(relative_difference(whole.strategy->state(), resumed.strategy->state()), 0);
  const TemporaryFolder folder("average");
  save_model(folder.path() / "model.safetensors", state, "lenet");
  const auto saved = read_tensors(folder.path() / "model.safetensors").tensors;
  EXPECT_TRUE(saved.at("fc3.weight").equal(weight_of(state, "average")));
  EXPECT_EQ(saved.size(), whole.model->named_parameters().size());
  EXPECT_TRUE(has_average(state));
  CheckpointInfo info;
  info.average = "ema";
  const Checkpoint averaged{info, state}, plain{{}, own_model(*whole.model)};
  check_same_average("a", averaged, averaged.info);
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { check_same_average("a", averaged, plain.info); }),
            "--resume a: a checkpoint with an average of the weights; expected --average, as in the run that wrote it");
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { check_same_average("a", plain, averaged.info); }),
            "--resume a: a checkpoint without an average of the weights; expected no --average, as in the run that "
            "wrote it");
}

TEST(AverageOptionsTest, KeysAreReadAndChecked) {
  EXPECT_EQ(parse_average("").every, 0);
  EXPECT_FALSE(parse_average("").is_due(5));
  const auto options = parse_average("lookahead(decay=0.5,every=3,power=2)");
  EXPECT_TRUE(options.restarts && options.is_due(3) && !options.is_due(4));
  EXPECT_DOUBLE_EQ(options.decay_after(5, 10), 0.125);
  EXPECT_DOUBLE_EQ(parse_average("ema").decay_after(5, 10), 0.99);
  EXPECT_TRUE(parse_average("ema").is_beside && parse_average("lookahead(beside=true)").is_beside);
  EXPECT_FALSE(parse_average("").is_beside || parse_average("lookahead").is_beside ||
               parse_average("ema(beside=false)").is_beside);
  const auto refusal = [](const std::string& text) {
    return message_of(ErrorKind::kConfig, [&] { parse_average(text); });
  };
  EXPECT_EQ(refusal("ema(every=0)"), "--average ema: every is 0; expected 1 step or more");
  EXPECT_EQ(refusal("ema(decay=1)"), "--average ema: decay is 1; expected 0 or more and less than 1");
  EXPECT_EQ(refusal("lookahead(power=-1)"), "--average lookahead: power is -1; expected 0 to 100");
  EXPECT_NE(refusal("emma").find("did you mean \"ema\""), std::string::npos);
}

}  // namespace
}  // namespace penstock
