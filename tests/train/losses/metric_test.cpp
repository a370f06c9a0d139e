// Metrics: average precision as scikit-learn has it, errors, and that all rows of all ranks count once.
#include "train/losses/metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/counting_training.h"
#include "tests/train/rank_threads.h"
#include "train/loop/evaluate.h"

namespace penstock {
namespace {

using testing::ElementsAre;

/// The average precision of one class.
double average_precision(const std::vector<double>& outputs, const std::vector<double>& targets) {
  const auto rows = torch::stack({torch::ones({static_cast<int64_t>(outputs.size())}, torch::kFloat64),
                                  torch::tensor(outputs, torch::kFloat64), torch::tensor(targets, torch::kFloat64)},
                                 /*dim=*/1);
  return make_average_precision(1)->scores(rows)[1].item<double>();
}

TEST(AveragePrecisionTest, IsThatOfScikitLearn) {
  EXPECT_NEAR(average_precision({0.1, 0.4, 0.35, 0.8}, {0, 0, 1, 1}), 5.0 / 6, 1e-15);  // the example of its manual
  EXPECT_EQ(average_precision({3, 2, 1}, {1, 1, 0}), 1);
  EXPECT_NEAR(average_precision({1, 2, 3}, {1, 0, 0}), 1.0 / 3, 1e-15);
  // Rows of equal outputs make one threshold, in whatever order they come: 2/3 * 2/3 + 1/3 * 3/4.
  EXPECT_NEAR(average_precision({0.5, 0.5, 0.5, 0.2}, {1, 0, 1, 1}), 25.0 / 36, 1e-15);
  EXPECT_NEAR(average_precision({0.5, 0.5, 0.2, 0.5}, {0, 1, 1, 1}), 25.0 / 36, 1e-15);
  EXPECT_TRUE(std::isnan(average_precision({1, 2}, {0, 0})));
}

TEST(AveragePrecisionTest, TheMeanIsOverClassesThatSomeRowHas) {
  const auto rows = torch::tensor({{1.0, 3.0, 1.0, 0.0, 1.0, 0.0, 0.0}, {1.0, 2.0, 1.0, 2.0, 0.0, 1.0, 0.0}},
                                  torch::kFloat64);  // weight, three outputs, three targets
  const auto scores = make_average_precision(3)->scores(rows);
  EXPECT_NEAR(scores[1].item<double>(), 1, 1e-15);
  EXPECT_NEAR(scores[2].item<double>(), 0.5, 1e-15);
  EXPECT_TRUE(std::isnan(scores[3].item<double>()));
  EXPECT_NEAR(scores[0].item<double>(), 0.75, 1e-15);
}

TEST(ErrorsTest, RowsOfWeightZeroDoNotCount) {
  DeviceBatch batch;
  batch.weights = torch::tensor({1.0F, 0.0F, 1.0F});
  batch.columns[kTargetColumn] = torch::tensor({{1.0, 2.0}, {0.0, 0.0}, {0.0, 0.0}}, torch::kFloat64);
  const auto outputs = torch::tensor({{2.0, 2.0}, {std::nan(""), 7.0}, {0.0, -3.0}}, torch::kFloat64);
  for (const bool squared_first : {false, true}) {
    const auto metric = make_errors(squared_first);
    const auto scores = metric->scores(metric->of_batch(outputs, batch));
    EXPECT_DOUBLE_EQ(scores[squared_first ? 1 : 0].item<double>(), 1);               // (1 + 0 + 0 + 3) / 4
    EXPECT_DOUBLE_EQ(scores[squared_first ? 0 : 1].item<double>(), std::sqrt(2.5));  // (1 + 9) / 4
    EXPECT_EQ(metric->names()[squared_first ? 1 : 0], "mean absolute error");
    EXPECT_TRUE(metric->is_error());
  }
}

/// A loss of one yes or no per sample, which CountingFeeder's labels become: those of label 1 are a yes.
class OfOne final : public Loss {
 public:
  const LossTarget& target() const override { return target_; }
  std::unique_ptr<Metric> metric(int64_t outputs) const override { return make_average_precision(outputs); }

 private:
  torch::Tensor of_targets(const torch::Tensor& outputs, const DeviceBatch&) const override {
    return outputs.select(1, 0);
  }
  LossTarget target_{.field = "yes", .columns = "field(name=yes)", .outputs = 1};
};

/// CountingStrategy's, with an output that falls with the label: 0, -1, -2.
class Falling final : public Strategy {
 public:
  int data_rank() const override { return 0; }
  int data_world_size() const override { return 1; }
  StepSums step(const DeviceBatch&) override { return {}; }
  torch::Tensor evaluate(DeviceBatch& batch) override {
    batch.columns[kTargetColumn] = batch.labels.eq(1).to(torch::kFloat32);
    return -batch.labels.unsqueeze(1).to(torch::kFloat32);
  }
  void set_learning_rate(double) override {}
  NamedTensors state_sizes() override { return {}; }
  void for_each_state(const UseTensor&) override {}
  void load_state(const StateDict&) override {}
};

/// A third of the samples comes before the third that is wanted: precision 1/2 at recall 1.
TEST(AveragePrecisionTest, RowsOfAllRanksCountOnceAndEveryRankHasTheResult) {
  for (const int world_size : {1, 2, 3, 4})
    run_ranks(world_size, [](Comm& comm) {
      Falling strategy;
      CountingFeeder feeder(comm.rank(), comm.world_size());
      const auto evaluation = *evaluate(strategy, comm, feeder, OfOne(), 1, torch::kCPU, 0);
      EXPECT_EQ(evaluation.sample_count, kSamples);
      EXPECT_EQ(evaluation.scores.front().key(), "mean_average_precision");
      EXPECT_DOUBLE_EQ(evaluation.scores.front().value, 0.5);
      EXPECT_THAT(evaluation.class_scores, ElementsAre(0.5));
      EXPECT_FALSE(evaluation.accuracy());
    });
}

TEST(EvaluationTest, ABetterErrorIsASmallerOne) {
  Evaluation evaluation{.scores = {{"mean absolute error", 2}}, .is_error = true};
  EXPECT_TRUE(evaluation.is_better_than(std::nullopt));
  EXPECT_TRUE(evaluation.is_better_than(3));
  EXPECT_FALSE(evaluation.is_better_than(2));
  evaluation.is_error = false;
  EXPECT_TRUE(evaluation.is_better_than(1));
  EXPECT_FALSE(evaluation.is_better_than(2));
  evaluation.scores.front().value = NAN;
  EXPECT_FALSE(evaluation.is_better_than(std::nullopt));
}

}  // namespace
}  // namespace penstock
