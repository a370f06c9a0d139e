// train_epochs(): what it calls when, what it reports, where it continues, and how ranks stop together.
#include "train/loop/training_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <tuple>

#include "tests/support/testing.h"
#include "tests/train/counting_training.h"
#include "tests/train/rank_threads.h"
#include "train/loop/stop.h"

namespace penstock {
namespace {

using testing::ElementsAre;

/// One run of the loop, with records of everything that it called.
struct Trial {
  explicit Trial(Comm& comm) : comm(comm), strategy(comm), feeder(comm.rank(), comm.world_size()) {
    options.epochs = 2;
    options.print_freq = 2;
    options.learning_rate = 1;
  }

  TrainResult run(const Position& start = {}) {
    TrainParts parts{strategy, comm, feeder, recorder, torch::kCPU, nullptr, {}, {}, {}};
    parts.on_metrics = [&](const Metrics& one) { metrics.push_back(one); };
    if (evaluates)
      parts.evaluate = [&](int64_t epoch, const auto& goes_on) -> std::optional<Evaluation> {
        if (on_evaluation) on_evaluation();
        for (int batch = 0; batch < 4; ++batch)
          if (!goes_on()) return std::nullopt;
        evaluated.push_back(epoch);
        Evaluation evaluation;
        evaluation.scores = {{"accuracy", accuracies.at(static_cast<size_t>(epoch))}};
        return evaluation;
      };
    parts.save = [&](const Position& position, TrainParts::Save which) {
      saved.emplace_back(position.step, which == TrainParts::Save::kBest ? "best" : "last");
      last = position;
    };
    return train_epochs(parts, options, start);
  }

  Comm& comm;
  CountingStrategy strategy;
  CountingFeeder feeder;
  Recorder recorder;
  TrainOptions options;
  bool evaluates = false;
  std::vector<double> accuracies;
  std::function<void()> on_evaluation;
  std::vector<Metrics> metrics;
  std::vector<int64_t> evaluated;
  std::vector<std::pair<int64_t, std::string>> saved;
  Position last;
};

const std::vector<std::pair<int64_t, int64_t>> kTwoEpochs{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4},
                                                          {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}};

TEST(TrainEpochsTest, WhatCompressionCostsIsMeasuredInTheStepsThatAreReported) {
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.options.print_freq = 3;
  trial.run();
  EXPECT_THAT(trial.strategy.measured, ElementsAre(3U, 6U, 9U));
  for (const auto& one : trial.metrics)
    EXPECT_EQ(one.compression_error.value_or(0), one.kind == Metrics::Kind::kStep ? 0.25 : 0);
}

TEST(TrainEpochsTest, WeightsAreAveragedAfterTheStepsThatAreDue) {
  const auto comm = make_self_comm();
  Trial trial(*comm), plain(*comm);
  trial.options.average = "lookahead(decay=0.5,every=4,power=1)";
  trial.run();
  EXPECT_THAT(trial.strategy.averaged, ElementsAre(std::tuple{size_t{4}, 0.2, true}, std::tuple{size_t{8}, 0.4, true}));
  plain.run();
  EXPECT_TRUE(plain.strategy.averaged.empty());
}

/// Steps overflow above 16384: two are skipped, then the scale grows after every third step and the next is skipped.
TEST(TrainEpochsTest, TheScaleOfGradientsFollowsTheOverflowsAndGoesOnWhereItWas) {
  const auto comm = make_self_comm();
  Trial trial(*comm), first(*comm), second(*comm), plain(*comm);
  for (Trial* one : {&trial, &first, &second, &plain}) {
    one->options.precision = "f16(every=3)";
    one->strategy.overflows_above = 16384;
  }
  const auto result = trial.run();
  EXPECT_THAT(trial.strategy.scales, ElementsAre(65536, 32768, 16384, 32768, 16384, 32768, 16384));
  EXPECT_EQ(result.position.scale->skipped_steps, 4);
  EXPECT_EQ(result.position.scale->good_steps, 0);
  first.options.save_every = {4, 0};
  std::vector<Position> positions;
  TrainParts parts{first.strategy, *comm, first.feeder, first.recorder, torch::kCPU, nullptr, {}, {}, {}};
  parts.save = [&](const Position& position, TrainParts::Save) { positions.push_back(position); };
  train_epochs(parts, first.options, {});
  const auto resumed = second.run(positions.at(0));  // after 4 steps: two were skipped, two were not
  EXPECT_THAT(second.strategy.scales, ElementsAre(16384, 32768, 16384, 32768, 16384));
  EXPECT_EQ(resumed.position.scale->skipped_steps, 4);
  plain.options.precision = "f16(scale=1024)";
  plain.strategy.overflows_above = 0;
  EXPECT_FALSE(plain.run().position.scale);
  EXPECT_TRUE(plain.strategy.scales.empty());
}

TEST(TrainEpochsTest, GradientsThatOverflowWithoutAScaleEndTheRun) {
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.options.precision = "f16(init=4)";
  trial.strategy.overflows_above = 0.1;
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { trial.run(); }),
            "epoch 1, step 3: gradients are not finite with a scale of 1 either, the run diverged, or overflowed f16, "
            "where every activation must be below 65,504; expected finite ones, try --precision bf16, or a lower --lr "
            "than 1 (earlier checkpoints are as they were)");
}

/// Losses of evaluations are the same in every epoch; test_rates.py holds whole runs against torch.
TEST(TrainEpochsTest, APlateauOfEvaluationsLowersTheRate) {
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.options.epochs = 4;
  trial.options.schedule = "plateau(factor=0.5,patience=0,on=score)";
  trial.evaluates = true;
  trial.accuracies = {0.5, 0.5, 0.7, 0.6};
  const auto result = trial.run();
  std::vector<double> rates;
  for (size_t step = 0; step < trial.strategy.learning_rates.size(); step += 5)
    rates.push_back(trial.strategy.learning_rates[step]);
  EXPECT_THAT(rates, ElementsAre(1, 1, 0.5, 0.5));
  EXPECT_EQ(result.position.plateau->factor, 0.25);
}

TEST(TrainEpochsTest, EveryBatchOfEveryEpochIsTrainedOnOnce) {
  const auto comm = make_self_comm();
  Trial trial(*comm);
  const auto result = trial.run();
  EXPECT_EQ(trial.strategy.steps, kTwoEpochs);
  EXPECT_EQ(result.position.epoch, 2);
  EXPECT_EQ(result.position.step, 10);
  EXPECT_EQ(result.epoch_seconds.size(), 2u);
  EXPECT_EQ(result.stop_signal, 0);
}

TEST(TrainEpochsTest, TheLossIsTheMeanOverSamplesNotOverBatches) {
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.run();
  std::vector<double> losses;
  std::vector<int64_t> steps;
  for (const auto& one : trial.metrics) {
    if (one.kind == Metrics::Kind::kEpoch)
      losses.push_back(one.loss);
    else
      steps.push_back(one.step);
  }
  const double expected = (8 * 1 + 8 * 2 + 8 * 3 + 8 * 4 + 4 * 5) / 36.0;
  EXPECT_THAT(losses, ElementsAre(testing::DoubleEq(expected), testing::DoubleEq(expected)));
  EXPECT_THAT(steps, ElementsAre(2, 4, 6, 8, 10));
  EXPECT_DOUBLE_EQ(trial.metrics[0].loss, 1.5);  // batches 0 and 1
  EXPECT_DOUBLE_EQ(trial.metrics[0].accuracy.value(), 0.5);
}

TEST(TrainEpochsTest, RanksReportTheSameGlobalMean) {
  run_ranks(3, [](Comm& comm) {
    Trial trial(comm);
    trial.run();
    double loss = 0;
    for (const auto& one : trial.metrics)
      if (one.kind == Metrics::Kind::kEpoch) loss = one.loss;
    EXPECT_DOUBLE_EQ(loss, (8 * 1 + 8 * 2 + 8 * 3 + 8 * 4 + 4 * 5) / 36.0);
  });
}

TEST(TrainEpochsTest, ADivergedRunEndsAtEveryRankAndSavesNothingMore) {
  run_ranks(2, [](Comm& comm) {
    Trial trial(comm);
    trial.options.save_every = {1, 0};
    trial.options.print_freq = 100;
    trial.strategy.diverges_at = comm.rank() == 1 ? 7 : 0;  // only the loss of one rank
    EXPECT_EQ(
        message_of(ErrorKind::kConfig, [&] { trial.run(); }),
        "epoch 2, step 7: the loss has become nan, the run diverged; expected a finite one, try a lower --lr than 1 "
        "(earlier checkpoints are as they were)");
    EXPECT_EQ(trial.last.step, 6);
    EXPECT_EQ(trial.metrics.size(), 1u);  // that of the first epoch
  });
}

/// Without a device for f16: what the line says depends on the options alone.
TEST(TrainEpochsTest, WhatToTryAfterADivergenceDependsOnWhatMadeStepsOrGradientsLarge) {
  const auto comm = make_self_comm();
  const auto refusal = [&](const std::function<void(TrainOptions&)>& change) {
    Trial trial(*comm);
    trial.strategy.diverges_at = 3;
    change(trial.options);
    return message_of(ErrorKind::kConfig, [&] { trial.run(); });
  };
  const std::string diverged = "epoch 1, step 4: the loss has become nan, the run diverged";
  EXPECT_EQ(refusal([](TrainOptions& options) { options.bias_rate = 1e30; }),
            diverged +
                "; expected a finite one, try a lower --bias-lr than 1e+30, or a lower --lr than 1 (earlier "
                "checkpoints are as they were)");
  EXPECT_EQ(refusal([](TrainOptions& options) { options.layer_rates = "fc1=0.1,fc3=1e30"; }),
            diverged +
                "; expected a finite one, try lower factors than --layer-lr fc1=0.1,fc3=1e30, or a lower --lr "
                "than 1 (earlier checkpoints are as they were)");
  EXPECT_EQ(refusal([](TrainOptions& options) { options.layer_rates = "fc1=0.1"; }),
            diverged + "; expected a finite one, try a lower --lr than 1 (earlier checkpoints are as they were)");
  const std::string overflowed =
      " times a gradient, and every activation, must be below 65,504; expected a finite one, try ";
  EXPECT_EQ(
      refusal([](TrainOptions& options) { options.precision = "f16(scale=65536)"; }),
      diverged + ", or overflowed f16, where 65536" + overflowed +
          "--precision 'f16(scale=8192)', or --precision bf16, or a lower --lr than 1 (earlier checkpoints are as "
          "they were)");
  EXPECT_EQ(refusal([](TrainOptions& options) { options.precision = "f16(scale=4)"; }),
            diverged + ", or overflowed f16, where 4" + overflowed +
                "--precision bf16, or a lower --lr than 1 (earlier checkpoints are as they were)");
}

TEST(TrainEpochsTest, TheLearningRateFollowsTheSchedule) {
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.options.schedule = "step";
  trial.run();
  EXPECT_THAT(trial.strategy.learning_rates, ElementsAre(1, 1, 1, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01));
}

TEST(TrainEpochsTest, CheckpointsComeEverySoManyStepsAndAtTheEnd) {
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.options.save_every = {3, 0};
  trial.run();
  EXPECT_THAT(trial.saved, ElementsAre(testing::Pair(3, "last"), testing::Pair(6, "last"), testing::Pair(9, "last"),
                                       testing::Pair(10, "last")));
  EXPECT_EQ(trial.last.epoch, 2);
  EXPECT_EQ(trial.last.batch, 0);
}

TEST(TrainEpochsTest, TheBestEvaluationIsKept) {
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.options.epochs = 3;
  trial.options.save_every = {0, 1};
  trial.evaluates = true;
  trial.accuracies = {0.5, 0.4, 0.6};
  const auto result = trial.run();
  EXPECT_THAT(trial.evaluated, ElementsAre(0, 1, 2));
  EXPECT_THAT(trial.saved, ElementsAre(testing::Pair(5, "best"), testing::Pair(5, "last"), testing::Pair(10, "last"),
                                       testing::Pair(15, "best"), testing::Pair(15, "last")));
  EXPECT_EQ(result.position.best_accuracy, 0.6);
  EXPECT_EQ(result.evaluation->accuracy(), 0.6);
}

TEST(TrainEpochsTest, EvaluationCanWaitForTheEnd) {
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.evaluates = true;
  trial.options.evaluates_each_epoch = false;
  trial.accuracies = {0, 0.7};
  trial.run();
  EXPECT_THAT(trial.evaluated, ElementsAre(1));
}

TEST(TrainEpochsTest, GoingOnInTheMiddleEndsWithTheSameEpochFigures) {
  const auto comm = make_self_comm();
  Trial first(*comm);
  first.options.save_every = {3, 0};
  std::vector<Position> positions;
  TrainParts parts{first.strategy, *comm, first.feeder, first.recorder, torch::kCPU, nullptr, {}, {}, {}};
  parts.save = [&](const Position& position, TrainParts::Save) { positions.push_back(position); };
  train_epochs(parts, first.options, {});
  Trial second(*comm);
  second.run(positions.at(1));  // position after step 6, which is the first step of the second epoch
  EXPECT_THAT(second.strategy.steps,
              ElementsAre(testing::Pair(1, 1), testing::Pair(1, 2), testing::Pair(1, 3), testing::Pair(1, 4)));
  EXPECT_DOUBLE_EQ(second.metrics.back().loss, (8 * 1 + 8 * 2 + 8 * 3 + 8 * 4 + 4 * 5) / 36.0);
}

TEST(TrainEpochsTest, ASignalAtOneRankStopsAllAtTheSameStepAndSaves) {
  const StopSignals signals;
  run_ranks(2, [](Comm& comm) {
    Trial trial(comm);
    trial.options.save_every = {0, 0};
    // The flag belongs to the process, so both ranks see it. It may be set before step 2 of one rank and after step 2
    // of the other; the vote must give the same result at both.
    if (comm.rank() == 1)
      trial.strategy.on_step = [&] {
        if (trial.strategy.steps.size() == 2) std::raise(SIGTERM);
      };
    const auto result = trial.run();
    EXPECT_EQ(result.stop_signal, SIGTERM);
    auto steps = torch::tensor({result.position.step});
    const auto all = comm.all_gather(steps);
    EXPECT_TRUE(torch::equal(all[0], all[1]));
    EXPECT_LT(result.position.step, 6);
    EXPECT_THAT(trial.saved, ElementsAre(testing::Pair(result.position.step, "last")));
  });
}

TEST(TrainEpochsTest, ASignalInAnEvaluationSavesAndWhoGoesOnEvaluates) {
  const auto comm = make_self_comm();
  Trial trial(*comm), resumed(*comm);
  for (Trial* one : {&trial, &resumed}) {
    one->evaluates = true;
    one->accuracies = {0.5, 0.7};
    one->options.schedule = "cosine";
    one->options.save_every = {0, 0};
  }
  {
    const StopSignals signals;
    trial.on_evaluation = [] { std::raise(SIGTERM); };
    const auto result = trial.run();
    EXPECT_EQ(result.stop_signal, SIGTERM);
    EXPECT_EQ(result.position.epoch, 0);
    EXPECT_EQ(result.position.batch, 5);
    EXPECT_FALSE(result.evaluation);
    EXPECT_TRUE(trial.evaluated.empty());
    EXPECT_THAT(trial.saved, ElementsAre(testing::Pair(5, "last")));
  }
  Trial whole(*comm);
  whole.evaluates = true;
  whole.accuracies = trial.accuracies;
  whole.options = trial.options;
  whole.run();
  const auto result = resumed.run(trial.last);
  EXPECT_EQ(result.step_count, 5);
  EXPECT_THAT(resumed.evaluated, ElementsAre(0, 1));
  std::vector<Metrics> ends;
  for (const auto* run : {&whole, &resumed})
    for (const auto& one : run->metrics)
      if (one.kind == Metrics::Kind::kEpoch) ends.push_back(one);
  ASSERT_EQ(ends.size(), 4u);
  for (const size_t epoch : {0, 1}) {
    EXPECT_EQ(ends[epoch].step, ends[epoch + 2].step);
    EXPECT_DOUBLE_EQ(ends[epoch].loss, ends[epoch + 2].loss);
    EXPECT_DOUBLE_EQ(ends[epoch].learning_rate, ends[epoch + 2].learning_rate);
    EXPECT_EQ(ends[epoch].test_accuracy, ends[epoch + 2].test_accuracy);
  }
}

TEST(TrainEpochsTest, ASignalInTheLastStepOfAnEpochComesBeforeItsEvaluation) {
  const StopSignals signals;
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.evaluates = true;
  trial.accuracies = {0.5, 0.7};
  trial.on_evaluation = [] { ADD_FAILURE(); };
  trial.strategy.on_step = [&] {
    if (trial.strategy.steps.size() == 4) std::raise(SIGTERM);  // it is counted one step later
  };
  const auto result = trial.run();
  EXPECT_EQ(result.position.batch, 5);
  EXPECT_TRUE(trial.evaluated.empty());
  EXPECT_EQ(trial.last.batch, 5);
  EXPECT_EQ(result.stop_signal, SIGTERM);
}

TEST(TrainEpochsTest, ASignalInTheLastStepOfAllStopsNothing) {
  const StopSignals signals;
  const auto comm = make_self_comm();
  Trial trial(*comm);
  trial.strategy.on_step = [&] {
    if (trial.strategy.steps.size() == 9) std::raise(SIGTERM);  // of 10; it is counted one step later
  };
  const auto result = trial.run();
  EXPECT_EQ(result.stop_signal, 0);
  EXPECT_EQ(result.position.epoch, 2);
}

}  // namespace
}  // namespace penstock
