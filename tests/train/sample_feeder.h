// What tests evaluate: samples in memory, by the model that a harness trains.
#pragma once

#include <optional>
#include <vector>

#include "train/feed/feeder.h"
#include "train/loop/evaluate.h"
#include "train/losses/target.h"
#include "train/verify/strategy_harness.h"

namespace penstock {

/// The samples in order. Their targets, for losses of a field, are 0.3 times their labels.
class SampleFeeder final : public Feeder {
 public:
  SampleFeeder(const StrategyHarness& trainee, const Samples& samples) : trainee_(trainee), samples_(samples) {}
  void start_epoch(int64_t, int64_t first_batch) override { next_ = first_batch; }
  std::optional<DeviceBatch> next() override {
    if (next_ == batches_per_epoch()) return std::nullopt;
    auto batch = trainee_.part(samples_, kBatchSize, next_++);
    if (batch.labels.defined()) batch.columns[kTargetColumn] = batch.labels.unsqueeze(1).to(torch::kFloat32) * 0.3f;
    return batch;
  }
  int64_t batches_per_epoch() const override { return (samples_.labels.size(0) + kBatchSize - 1) / kBatchSize; }
  uint64_t samples_per_epoch() const override { return static_cast<uint64_t>(samples_.labels.size(0)); }
  LoaderStatistics statistics() const override { return {}; }

 private:
  static constexpr int64_t kBatchSize = 24;  // of 8 shards each has 3 rows, which are no power of two
  const StrategyHarness& trainee_;
  const Samples& samples_;
  int64_t next_ = 0;
};

/// What an evaluation by `loss` says of a model with so many outputs: samples, loss, scores, and scores of classes, -1
/// for a class without samples.
inline std::vector<double> scores_of(const StrategyHarness& trainee, Comm& comm, const Samples& samples,
                                     const Loss& loss, int64_t output_count, int micro_shards) {
  SampleFeeder feeder(trainee, samples);
  const auto evaluation = *evaluate(*trainee.strategy, comm, feeder, loss, output_count, torch::kCPU, 0, {},
                                    TestViews::kFlip, micro_shards);
  std::vector<double> said{static_cast<double>(evaluation.sample_count), evaluation.loss};
  for (const auto& score : evaluation.scores) said.push_back(score.value);
  for (const auto& score : evaluation.class_scores) said.push_back(score.value_or(-1));
  return said;
}

}  // namespace penstock
