// Local steps: what ranks reach alone, how they meet, and how a run goes on between two meetings.
#include <gmock/gmock.h>

#include "core/error.h"
#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/plain_optimizer.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"

namespace penstock {
namespace {

using testing::HasSubstr;

constexpr int64_t kUnevenBatch = 10;
// The third batch has five rows: two ranks have three and two of them.
Samples uneven_samples() { return random_samples(25, kSmallGrey, 3); }

/// The outer optimiser of a case, and after how many steps ranks meet.
struct OuterCase {
  int64_t every = 1;
  bool is_nesterov = false;
  double rate = 1, momentum = 0;
};

/// One rank of the plain loop.
struct Alone {
  std::vector<torch::Tensor> parameters;
  PlainOptimizer optimizer;
};

std::vector<torch::Tensor> mean_of_ranks(const std::vector<Alone>& ranks) {
  std::vector<torch::Tensor> mean;
  for (size_t i = 0; i < ranks[0].parameters.size(); ++i) {
    mean.push_back(torch::zeros_like(ranks[0].parameters[i]));
    for (const auto& rank : ranks) mean[i] += rank.parameters[i];
    mean[i] /= static_cast<double>(ranks.size());
  }
  return mean;
}

/// The model after `step_count` steps, without a strategy: ranks one after the other, and DiLoCo's algorithm 1 as it
/// stands in the paper. Between two meetings, the mean of the ranks' parameters.
StateDict plain_local_steps(const Samples& samples, int64_t step_count, int rank_count, const OuterCase& outer,
                            const OptimizerOptions& options) {
  const auto model = make("lenet", kSmallGrey);
  model->to(torch::kFloat64);
  at::NoGradGuard no_grad;
  std::vector<torch::Tensor> anchors, momenta;
  for (const auto& parameter : model->parameters()) {
    anchors.push_back(parameter.clone());
    momenta.push_back(torch::zeros_like(parameter));
  }
  std::vector<Alone> ranks;
  for (int rank = 0; rank < rank_count; ++rank) {
    ranks.push_back({{}, PlainOptimizer(options)});
    for (const auto& anchor : anchors) ranks.back().parameters.push_back(anchor.clone());
  }
  const auto meet = [&] {
    const auto mean = mean_of_ranks(ranks);
    for (size_t i = 0; i < anchors.size(); ++i) {
      auto direction = anchors[i] - mean[i];
      if (outer.is_nesterov) {
        momenta[i] = outer.momentum * momenta[i] + direction;
        direction = direction + outer.momentum * momenta[i];
      }
      anchors[i] = anchors[i] - outer.rate * direction;
      for (auto& rank : ranks) rank.parameters[i].copy_(anchors[i]);
    }
  };
  for (int64_t step = 0; step < step_count; ++step) {
    for (int rank = 0; rank < rank_count; ++rank) {
      auto& one = ranks[static_cast<size_t>(rank)];
      const auto batch = part_of(samples, kUnevenBatch, step, rank, rank_count);
      const auto parameters = model->parameters();
      for (size_t i = 0; i < parameters.size(); ++i) torch::Tensor(parameters[i]).copy_(one.parameters[i]);
      model->zero_grad();
      torch::AutoGradMode with_gradients(true);
      const auto losses = torch::cross_entropy_loss(model->forward(batch.images.narrow(0, 0, batch.count)),
                                                    batch.labels.narrow(0, 0, batch.count), {}, at::Reduction::Sum);
      (losses * rank_count / static_cast<double>(batch.global_count)).backward();
      std::vector<torch::Tensor> gradients;
      for (const auto& parameter : parameters) gradients.push_back(parameter.grad().clone());
      one.optimizer.step(one.parameters, gradients);
    }
    if ((step + 1) % outer.every == 0) meet();
  }
  StateDict state;
  const auto mean = mean_of_ranks(ranks);
  const auto named = model->named_parameters();
  for (size_t i = 0; i < mean.size(); ++i) state["model." + named[i].key()] = mean[i];
  return state;
}

/// Each rank trains in float64; `after` then has it.
void train_alone(const std::string& mode, int rank_count, const Samples& samples, const OptimizerOptions& options,
                 int64_t step_count, const std::function<void(StrategyHarness&, Comm&)>& after,
                 Network network = Network::kThreads) {
  at::set_num_threads(1);
  run_ranks(
      rank_count,
      [&](Comm& comm) {
        StrategyHarness one(mode, make("lenet", kSmallGrey), comm, options);
        for (int64_t step = 0; step < step_count; ++step) one.strategy->step(one.part(samples, kUnevenBatch, step));
        after(one, comm);
      },
      /*step_seconds=*/60, network);
}

StateDict model_after(const std::string& mode, int rank_count, const Samples& samples, const OptimizerOptions& options,
                      int64_t step_count, Network network = Network::kThreads) {
  StateDict model;
  train_alone(
      mode, rank_count, samples, options, step_count,
      [&](StrategyHarness& one, Comm& comm) {
        for (const auto& [name, tensor] : one.strategy->state())
          if (comm.rank() == 0 && name.starts_with("model.")) model.emplace(name, tensor);
      },
      network);
  return model;
}

const OptimizerOptions kLocalAdamw{.learning_rate = 1e-4, .weight_decay = 1e-2, .spec = "adamw"};

/// After 7 steps the last meeting was one step before, after 6 just now.
TEST(LocalStepsTest, StepsAndMeetingsAreThoseOfAPlainLoop) {
  const auto samples = uneven_samples();
  struct Case {
    std::string keys;
    OuterCase outer;
  };
  for (const auto& [keys, outer] :
       {Case{"", {3}}, Case{",outer-rate=0.5", {3, false, 0.5}}, Case{",outer=nesterov", {3, true, 0.7, 0.9}},
        Case{",outer=nesterov,outer-rate=1.2,outer-momentum=0.5", {3, true, 1.2, 0.5}}})
    for (const auto& options : {kSgd, kLocalAdamw})
      for (const int64_t steps : {6, 7})
        for (const int ranks : {2, 3})
          EXPECT_LE(relative_difference(plain_local_steps(samples, steps, ranks, outer, options),
                                        model_after("ddp(local-steps=3" + keys + ")", ranks, samples, options, steps)),
                    1e-12)
              << keys << ", " << options.spec << ", " << steps << " steps, " << ranks << " ranks";
}

/// sgd's update is linear in the gradient, also with momentum: the mean over ranks of what they reach is what the mean
/// gradient leads to. Adam's is not.
TEST(LocalStepsTest, WithOneStepAndTheMeanSgdIsDdpAndAdamIsNot) {
  const auto samples = uneven_samples();
  auto nesterov = kSgd;
  nesterov.spec = "sgd(nesterov=true)";
  auto plain = kSgd;
  plain.momentum = 0;
  const auto difference = [&](const OptimizerOptions& options, const std::string& keys) {
    return relative_difference(model_after("ddp", 2, samples, options, 6),
                               model_after("ddp(local-steps=1" + keys + ")", 2, samples, options, 6));
  };
  for (const auto& options : {plain, kSgd, nesterov}) EXPECT_LE(difference(options, ""), 1e-12) << options.spec;
  EXPECT_GT(difference(kLocalAdamw, ""), 1e-6);
  EXPECT_GT(difference(kSgd, ",outer=nesterov"), 1e-6);
}

TEST(LocalStepsTest, RanksHaveTheSameBitsWhenTheyHaveMetAndOthersBefore) {
  const auto samples = uneven_samples();
  for (const std::string mode : {"ddp(local-steps=2)", "ddp(local-steps=2,outer=nesterov)"})
    for (const auto network : {Network::kGloo, Network::kShared, Network::kThreads})
      for (const int64_t steps : {3, 4}) {
        std::vector<StateDict> models(3);
        train_alone(
            mode, 3, samples, kSgd, steps,
            [&](StrategyHarness& one, Comm& comm) { models[static_cast<size_t>(comm.rank())] = own_model(*one.model); },
            network);
        for (const int other : {1, 2})
          EXPECT_EQ(relative_difference(models[0], models[static_cast<size_t>(other)]) == 0, steps == 4)
              << mode << ", " << steps << " steps";
      }
}

TEST(LocalStepsTest, AnEvaluationAndMeetEndTheSteps) {
  const auto samples = uneven_samples();
  const std::string mode = "ddp(local-steps=8,outer=nesterov)";
  const auto expected = plain_local_steps(samples, 4, 2, {4, true, 0.7, 0.9}, kSgd);
  for (const bool evaluates : {false, true})
    train_alone(mode, 2, samples, kSgd, 4, [&](StrategyHarness& one, Comm&) {
      auto batch = one.part(samples, kUnevenBatch, 0);
      evaluates ? static_cast<void>(one.strategy->evaluate(batch)) : one.strategy->meet();
      EXPECT_LE(relative_difference(expected, own_model(*one.model)), 1e-12);
      one.strategy->meet();  // they have met
      EXPECT_LE(relative_difference(expected, own_model(*one.model)), 1e-12);
    });
}

TEST(LocalStepsTest, NothingIsSentBetweenMeetings) {
  const auto samples = uneven_samples();
  at::set_num_threads(1);
  run_ranks(2, [&](Comm& comm) {
    StrategyHarness one("ddp(local-steps=3)", make("lenet", kSmallGrey), comm, kSgd);
    for (int64_t step = 0; step < 8; ++step) {
      one.strategy->step(one.part(samples, kUnevenBatch, step));
      one.recorder.end_step(step + 1);
    }
    const auto steps = one.recorder.collectives_of_steps();
    ASSERT_EQ(steps.size(), 7U);
    for (size_t step = 0; step < steps.size(); ++step) {
      EXPECT_EQ(steps[step].all > 0, step % 3 == 2) << step;
      EXPECT_EQ(steps[step].after_backward, steps[step].all) << step;
    }
    EXPECT_EQ(one.strategy->local_steps(), 3);
  });
}

class LocalStepsGoOnTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Modes, LocalStepsGoOnTest,
                         testing::Values("ddp(local-steps=3)", "ddp(local-steps=3,outer=nesterov)",
                                         "ddp(local-steps=3,outer-rate=0.5)"),
                         [](const auto& info) { return concat("Mode", info.index); });

/// From every place between two meetings.
TEST_P(LocalStepsGoOnTest, ARunGoesOnBitForBit) {
  const auto samples = uneven_samples();
  constexpr int64_t kEnd = 9;
  for (const auto& options : {kSgd, kLocalAdamw}) {
    std::vector<StateDict> saved(kEnd + 1);
    run_ranks(2, [&](Comm& comm) {
      StrategyHarness one(GetParam(), make("lenet", kSmallGrey), comm, options);
      for (int64_t step = 0; step <= kEnd; ++step) {
        if (auto state = one.strategy->state(); comm.rank() == 0) saved[static_cast<size_t>(step)] = std::move(state);
        one.strategy->step(one.part(samples, kUnevenBatch, step));
      }
    });
    for (const int64_t from : {4, 5, 6})
      run_ranks(2, [&](Comm& comm) {
        StrategyHarness one(GetParam(), make("lenet", kSmallGrey, /*seed=*/2), comm, options);
        one.strategy->step(one.part(samples, kUnevenBatch, 0));
        one.strategy->load_state(saved[static_cast<size_t>(from)]);
        EXPECT_EQ(one.strategy->left_out(), "");
        for (int64_t step = from; step < kEnd; ++step) one.strategy->step(one.part(samples, kUnevenBatch, step));
        const auto state = one.strategy->state();
        if (comm.rank() != 0) return;
        EXPECT_EQ(relative_difference(saved[kEnd], state), 0) << "from step " << from;
      });
  }
}

/// The mean of the ranks' parameters and of their optimisers' states.
TEST_P(LocalStepsGoOnTest, OtherModesAndNumbersOfRanksGoOnFromTheMean) {
  const auto samples = uneven_samples();
  StateDict saved;
  std::vector<StateDict> own(2);
  train_alone(GetParam(), 2, samples, kSgd, 4, [&](StrategyHarness& one, Comm& comm) {
    own[static_cast<size_t>(comm.rank())] = own_model(*one.model);
    if (auto state = one.strategy->state(); comm.rank() == 0) saved = std::move(state);
  });
  StateDict mean;
  for (const auto& [name, tensor] : own[0]) {
    EXPECT_TRUE(saved.at("strategy.local-steps.1." + name).equal(own[1].at(name))) << name;
    mean[name] = (tensor + own[1].at(name)) / 2;
    const std::string slot = "optimizer.momentum." + name.substr(std::string("model.").size());
    const auto momentum = (saved.at("strategy.local-steps.0." + slot) + saved.at("strategy.local-steps.1." + slot)) / 2;
    EXPECT_TRUE(saved.at(slot).equal(momentum)) << slot;
  }
  for (const auto& [mode, ranks] :
       {std::pair{std::string("single"), 1}, std::pair{std::string("zero"), 2}, std::pair{GetParam(), 3}})
    train_alone(mode, ranks, samples, kSgd, 1, [&, mode = mode](StrategyHarness& one, Comm& comm) {
      one.strategy->load_state(saved);
      EXPECT_EQ(one.strategy->left_out(),
                "left out of the checkpoint: what each rank kept for local-steps, which only the same mode, keys and "
                "number of ranks can go on with")
          << mode;
      EXPECT_EQ(relative_difference(mean, own_model(*one.model)), 0) << mode;
      one.strategy->meet();  // all have what was loaded
      if (comm.world_size() != 3) return;
      EXPECT_EQ(relative_difference(mean, own_model(*one.model)), 0) << mode;
    });
}

TEST(LocalStepsTest, WhatTheOuterOptimizerKeepsIsCounted) {
  const auto samples = uneven_samples();
  for (const auto& [mode, formula] :
       {std::pair{"ddp(local-steps=2)", ""}, std::pair{"ddp(local-steps=2,outer-rate=0.5)", "phi"},
        std::pair{"ddp(local-steps=2,outer=nesterov)", "2 phi"}})
    train_alone(mode, 2, samples, kSgd, 1, [&, formula = std::string(formula)](StrategyHarness& one, Comm&) {
      const auto kinds = one.strategy->memory();
      ASSERT_EQ(kinds.size(), formula.empty() ? 3U : 4U) << formula;
      for (const auto& kind : kinds) EXPECT_EQ(static_cast<double>(kind.bytes), kind.formula_bytes) << kind.kind;
      if (formula.empty()) return;
      EXPECT_EQ(kinds.back().kind + ": " + kinds.back().formula, "outer: " + formula);
    });
}

TEST(LocalStepsTest, BadKeysAreRefused) {
  const auto refused = [](const std::string& mode, int micro_shards = 0) {
    return message_of(ErrorKind::kConfig,
                      [&] { plan_of(parse_spec("mode", mode), {.ranks = 2, .micro_shards = micro_shards}); });
  };
  EXPECT_EQ(refused("ddp(local-steps=0)"), "--mode ddp: local-steps is 0; expected 1 to 65536");
  EXPECT_THAT(refused("ddp(local-steps=2,outer=adam)"), HasSubstr("--mode ddp: unknown outer optimiser \"adam\""));
  EXPECT_EQ(refused("ddp(local-steps=2,outer-rate=0)"), "--mode ddp: outer-rate is 0; expected a number above 0");
  EXPECT_EQ(refused("ddp(local-steps=2,outer=nesterov,outer-momentum=1)"),
            "--mode ddp: outer-momentum is 1; expected 0 or more, below 1");
  EXPECT_EQ(refused("ddp(local-steps=2,outer-momentum=0.9)"),
            "--mode ddp: outer-momentum is 0.9, which is of outer=nesterov; expected that, or no outer-momentum");
  EXPECT_EQ(refused("ddp(outer=nesterov)"),
            "--mode ddp: outer is nesterov, which is of local-steps; expected local-steps, or no outer");
  for (const auto& [keys, what, micro_shards] :
       {std::tuple{"", "--exact 8", 8}, std::tuple{",compress=fp16", "compress=fp16", 0},
        std::tuple{",sync-bn=true", "sync-bn=true", 0}})
    EXPECT_THAT(refused(concat("ddp(local-steps=2", keys, ")"), micro_shards),
                HasSubstr(concat("--mode ddp: local-steps is 2 with ", what, "; expected one of them: ")));
}

}  // namespace
}  // namespace penstock
