// A small training with captured steps or with plain ones, on any device, and all that it has changed in the end.
#pragma once

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/small_dataset.h"
#include "tests/train/strategy_batches.h"
#include "train/comm/comm.h"
#include "train/loop/cuda_graph_step.h"
#include "train/options/rate_schedule.h"
#include "train/resident/resident_feeder.h"

namespace penstock {

constexpr int64_t kCapturedEpochs = 4;  // of 130 samples in batches of 25: the last one has 5

/// A graph that counts what is asked of it and may fail to capture.
class CountingGraph final : public CudaGraph {
 public:
  struct Counts {
    int warm_ups = 0, captures = 0, replays = 0;
    bool fails = false;
  };
  CountingGraph(Counts& counts, const torch::Device& device) : counts_(counts), graph_(make_device_graph(device)) {}

  void warm_up(const Work& work) override {
    ++counts_.warm_ups;
    graph_->warm_up(work);
    results_ = graph_->results();
  }
  void capture(const Work& work) override {
    ++counts_.captures;
    TORCH_CHECK(!counts_.fails, "operation not permitted when stream is capturing\nand a second line");
    graph_->capture(work);
  }
  void replay() override {
    ++counts_.replays;
    graph_->replay();
    results_ = graph_->results();
  }
  void reset() override { graph_->reset(); }

 private:
  Counts& counts_;
  std::unique_ptr<CudaGraph> graph_;
};

/// One model and what feeds it.
struct CapturedTraining {
  explicit CapturedTraining(const std::string& augment, const std::string& mode = "single",
                            const OptimizerOptions& optimizer = {.learning_rate = 0.05,
                                                                 .momentum = 0.9,
                                                                 .weight_decay = 1e-3},
                            const torch::Device& device = torch::kCPU, const ModelMaker& make = make_normed_lenet)
      : device(device),
        one(mode, make, *comm, optimizer, torch::kFloat32, device),
        pipeline(augment, small_dataset()->manifest().statistics),
        feeder(make_resident_feeder(
            small_dataset(), pipeline,
            {.workers = 0, .prefetch = 2, .batch_size = 25, .seed = 7, .epoch_count = kCapturedEpochs}, device,
            recorder)),
        sums(torch::zeros({2}, torch::dtype(torch::kFloat64).device(device))) {}

  static std::unique_ptr<Model> make_normed_lenet() {
    at::manual_seed(1);
    return ModelRegistry::make(parse_spec("arch", "lenet(batch-norm=true)"),
                               ModelShape{.channels = 1, .height = 20, .width = 20, .classes = 10});
  }

  /// Calls `step` for every batch, with another learning rate each time. Returns all that training has changed.
  template <class Step>
  StateDict train(const Step& step) {
    const int64_t steps = kCapturedEpochs * feeder->batches_per_epoch();
    int64_t done = 0;
    for (int64_t epoch = 0; epoch < kCapturedEpochs; ++epoch) {
      feeder->start_epoch(epoch, 0);
      while (const auto batch = feeder->next()) {
        one.strategy->set_learning_rate(0.05 * RateSchedule("cosine").factor(done++, steps));
        step(*batch);
      }
    }
    auto state = one.strategy->state();
    state["sums"] = sums.cpu();
    return state;
  }

  StateDict train_plainly() {
    return train([&](const DeviceBatch& batch) {
      const auto step = one.strategy->step(batch);
      sums[0].add_(step.loss);
      sums[1].add_(step.correct);
    });
  }

  StateDict train_captured(CountingGraph::Counts& counts) {
    EXPECT_EQ(halves().capture_obstacle(), "");
    EXPECT_TRUE(feeder->defer_rendering());
    CudaGraphStep captured(*one.strategy, halves(), *feeder, recorder, std::make_unique<CountingGraph>(counts, device),
                           sums, [this](const std::string& line) { said.push_back(line); });
    int64_t rows = 0;
    auto state = train([&](const DeviceBatch& batch) { rows += captured.run(batch); });
    EXPECT_EQ(rows, kCapturedEpochs * 130);
    EXPECT_EQ(captured.replay_count(), counts.replays);
    return state;
  }

  CapturableStep& halves() { return dynamic_cast<CapturableStep&>(*one.strategy); }

  torch::Device device;
  std::unique_ptr<Comm> comm = make_self_comm();
  Recorder recorder;
  StrategyHarness one;
  Pipeline pipeline;
  std::unique_ptr<Feeder> feeder;
  torch::Tensor sums;
  std::vector<std::string> said;
};

inline void expect_same_bits(const StateDict& one, const StateDict& other) {
  ASSERT_EQ(one.size(), other.size());
  for (const auto& [name, tensor] : one) {
    const auto bits = [](const torch::Tensor& t) { return t.contiguous().view({-1}).view(torch::kUInt8); };
    EXPECT_TRUE(torch::equal(bits(tensor), bits(other.at(name)))) << name;
  }
}

}  // namespace penstock
