// train_epochs(): what it calls when, what it reports, where it continues, and how ranks stop together.
#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <tuple>

#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "train/stop.h"

namespace penstock {
namespace {

using testing::ElementsAre;

constexpr int64_t kBatches = 5, kBatchSize = 8, kSamples = 36;  // the last batch holds 4

/// A strategy whose loss per sample is the index of the batch + 1, and for which every second sample is right. It keeps
/// a list of the batches that it was given.
class CountingStrategy final : public Strategy {
 public:
  explicit CountingStrategy(Comm& comm) : comm_(comm) {}
  int data_rank() const override { return comm_.rank(); }
  int data_world_size() const override { return comm_.world_size(); }
  StepSums step(const DeviceBatch& batch) override {
    steps.emplace_back(batch.epoch, batch.index);
    learning_rates.push_back(learning_rate_);
    if (on_step) on_step();
    const double loss = steps.size() == diverges_at ? NAN : static_cast<double>((batch.index + 1) * batch.count);
    StepSums sums{torch::tensor(loss), torch::tensor(batch.count / 2)};
    if (std::exchange(is_measured_, false)) sums.compression_error = torch::tensor(0.25);
    return sums;
  }
  void measure_next_step() override {
    measured.push_back(steps.size() + 1);
    is_measured_ = true;
  }
  void average_weights(double decay, bool restarts) override { averaged.emplace_back(steps.size(), decay, restarts); }
  torch::Tensor evaluate(DeviceBatch& batch) override {
    // It predicts class 1 for every row, which is right where the label is 1.
    return torch::tensor({0.0f, 5.0f, 0.0f}).expand({batch.rows, 3});
  }
  void set_learning_rate(double learning_rate) override { learning_rate_ = learning_rate; }
  StateSizes state_sizes() override { return {}; }
  void for_each_state(const UseTensor&) override {}
  void load_state(const StateDict&) override {}

  std::vector<std::pair<int64_t, int64_t>> steps;  // one entry per step: epoch, batch
  std::vector<double> learning_rates;
  std::vector<std::tuple<size_t, double, bool>> averaged;  // steps of this process so far, decay, restarts
  std::vector<size_t> measured;  // steps of this process, from 1, before which it was asked to measure
  std::function<void()> on_step;
  size_t diverges_at = 0;  // the step of this process, from 1, whose loss is not finite; 0: none

 private:
  Comm& comm_;
  double learning_rate_ = -1;
  bool is_measured_ = false;
};

/// kSamples samples in batches of kBatchSize, divided among the ranks.
class CountingFeeder final : public Feeder {
 public:
  CountingFeeder(int rank, int world_size) : partition_(kSamples, kBatchSize, rank, world_size, Tail::kPad) {}
  void start_epoch(int64_t epoch, int64_t first_batch) override {
    epoch_ = epoch;
    next_ = first_batch;
  }
  std::optional<DeviceBatch> next() override {
    if (next_ >= partition_.batch_count()) return std::nullopt;
    const auto rows = partition_.rows(next_);
    DeviceBatch batch;
    batch.epoch = epoch_;
    batch.index = next_++;
    batch.rows = partition_.rows_per_rank();
    batch.count = rows.count;
    batch.global_count = rows.global_count;
    batch.images = torch::zeros({batch.rows, 1, 2, 2});
    batch.labels = torch::zeros({batch.rows}, torch::kInt64);
    batch.weights = torch::zeros({batch.rows});
    for (int64_t i = 0; i < batch.count; ++i) {
      batch.labels[i] = static_cast<int64_t>(rows.first_position + static_cast<uint64_t>(i)) % class_count;
      batch.weights[i] = 1;
    }
    return batch;
  }
  int64_t batches_per_epoch() const override { return partition_.batch_count(); }
  uint64_t samples_per_epoch() const override { return partition_.sample_count(); }
  LoaderStatistics statistics() const override { return {}; }

  int64_t class_count = 3;  // sample i has the label i mod class_count

 private:
  Partition partition_;
  int64_t epoch_ = 0, next_ = 0;
};

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
      parts.evaluate = [&](int64_t epoch) {
        evaluated.push_back(epoch);
        Evaluation evaluation;
        evaluation.accuracy = accuracies.at(static_cast<size_t>(epoch));
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
  EXPECT_DOUBLE_EQ(trial.metrics[0].accuracy, 0.5);
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
  EXPECT_EQ(result.evaluation->accuracy, 0.6);
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

TEST(EvaluateTest, EverySampleCountsOnceAtAnyNumberOfRanks) {
  for (const int world_size : {1, 2, 3, 4}) {
    run_ranks(world_size, [](Comm& comm) {
      CountingStrategy strategy(comm);
      CountingFeeder feeder(comm.rank(), comm.world_size());
      const auto evaluation = evaluate(strategy, comm, feeder, 3, torch::kCPU, 0);
      EXPECT_EQ(evaluation.sample_count, kSamples);
      EXPECT_DOUBLE_EQ(evaluation.accuracy, 1.0 / 3);
      EXPECT_THAT(evaluation.class_accuracy, ElementsAre(0.0, 1.0, 0.0));
      const double right = std::log(2 + std::exp(5.0)) - 5, wrong = std::log(2 + std::exp(5.0));
      EXPECT_NEAR(evaluation.loss, (right + 2 * wrong) / 3, 1e-6);
    });
  }
}

TEST(EvaluateTest, AClassWithoutSamplesHasNoAccuracy) {
  const auto comm = make_self_comm();
  CountingStrategy strategy(*comm);
  CountingFeeder feeder(0, 1);
  feeder.class_count = 2;
  const auto evaluation = evaluate(strategy, *comm, feeder, 3, torch::kCPU, 0);
  EXPECT_THAT(evaluation.class_accuracy, ElementsAre(0.0, 1.0, std::nullopt));
}

}  // namespace
}  // namespace penstock
