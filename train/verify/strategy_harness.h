// StrategyHarness: the model and the strategy of one rank, without a loader and a run around them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/nn/model.h"
#include "train/parallel/strategy/mesh.h"
#include "train/parallel/strategy/strategy.h"
#include "train/verify/samples.h"

namespace penstock {

using ModelMaker = std::function<std::unique_ptr<Model>()>;

struct StrategyHarness {
  /// For modes that need one model.
  StrategyHarness(const std::string& mode, std::unique_ptr<Model> built, Comm& comm, const OptimizerOptions& options,
                  torch::ScalarType dtype = torch::kFloat64, const torch::Device& device = torch::kCPU,
                  const std::vector<int64_t>& input_sizes = {})
      : StrategyHarness(mode, std::move(built), {}, comm, options, dtype, device, input_sizes, /*micro_shards=*/0, {},
                        nullptr, {}) {}
  /// For any mode.
  StrategyHarness(const std::string& mode, const ModelMaker& make, Comm& comm, const OptimizerOptions& options,
                  torch::ScalarType dtype = torch::kFloat64, const torch::Device& device = torch::kCPU,
                  const std::vector<int64_t>& input_sizes = {}, int micro_shards = 0, const StepOptions& step = {},
                  detail::StepTaps* taps = nullptr, const std::map<std::string, double>& rate_factors = {})
      : StrategyHarness(mode, make(), make, comm, options, dtype, device, input_sizes, micro_shards, step, taps,
                        rate_factors) {}

  /// This rank's part. Without tensors where the rank is not fed, as a feeder gives it.
  DeviceBatch part(const Samples& samples, int64_t batch_size, int64_t index) const;

  Recorder recorder;
  std::unique_ptr<Model> model;
  std::unique_ptr<Strategy> strategy;
  std::vector<std::string> said;  // lines for people

 private:
  StrategyHarness(const std::string& mode, std::unique_ptr<Model> built, const ModelMaker& make, Comm& comm,
                  const OptimizerOptions& options, torch::ScalarType dtype, const torch::Device& device,
                  const std::vector<int64_t>& input_sizes, int micro_shards, const StepOptions& step,
                  detail::StepTaps* taps, const std::map<std::string, double>& rate_factors);

  ShortBatch short_batch_;
};

}  // namespace penstock
