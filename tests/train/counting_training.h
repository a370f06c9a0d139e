// A strategy and a feeder without a model and pictures, for tests of the loops that call them.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "loader/order/partition.h"
#include "train/comm/comm.h"
#include "train/feed/feeder.h"
#include "train/nn/precision.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {

constexpr int64_t kBatchSize = 8, kSamples = 36;  // the last batch holds 4

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
    sums.is_skipped = overflows_above > 0 && scales.back() > overflows_above;
    if (std::exchange(is_measured_, false)) sums.compression_error = torch::tensor(0.25);
    return sums;
  }
  void measure_next_step() override {
    measured.push_back(steps.size() + 1);
    is_measured_ = true;
  }
  void average_weights(double decay, bool restarts) override { averaged.emplace_back(steps.size(), decay, restarts); }
  void compute_in(const Precision& precision) override { scales.push_back(precision.gradient_scale); }
  torch::Tensor evaluate(DeviceBatch& batch) override {
    // It predicts class 1 for every row, which is right where the label is 1.
    return torch::tensor({0.0f, 5.0f, 0.0f}).expand({batch.rows, 3});
  }
  void set_learning_rate(double learning_rate) override { learning_rate_ = learning_rate; }
  NamedTensors state_sizes() override { return {}; }
  void for_each_state(const UseTensor&) override {}
  void load_state(const StateDict&) override {}

  std::vector<std::pair<int64_t, int64_t>> steps;  // one entry per step: epoch, batch
  std::vector<double> learning_rates;
  std::vector<std::tuple<size_t, double, bool>> averaged;  // steps of this process so far, decay, restarts
  std::vector<size_t> measured;  // steps of this process, from 1, before which it was asked to measure
  std::vector<double> scales;    // of gradients, in the order in which they were set
  double overflows_above = 0;    // a step with a greater scale is skipped; 0: none
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

}  // namespace penstock
