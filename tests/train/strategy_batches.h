// Batches for the tests of strategies: a global batch of random pictures, and each rank's part of it.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "loader/partition.h"
#include "train/device_batch.h"
#include "train/models/model.h"
#include "train/strategies/strategy.h"

namespace penstock {

struct Samples {
  torch::Tensor images, labels;
};

inline Samples random_samples(int64_t count, const ModelShape& shape, int seed) {
  at::manual_seed(seed);
  return {torch::randn({count, shape.channels, shape.height, shape.width}, torch::kFloat64),
          torch::randint(shape.classes, {count}, torch::kInt64)};
}

/// Batch `index` of `samples` in order, as a feeder gives it to this rank: padding rows hold zeros.
inline DeviceBatch part_of(const Samples& samples, int64_t batch_size, int64_t index, int rank, int world_size) {
  const Partition partition(static_cast<uint64_t>(samples.labels.size(0)), batch_size, rank, world_size, Tail::kPad);
  const auto rows = partition.rows(index);
  DeviceBatch batch;
  batch.rows = partition.rows_per_rank();
  batch.count = rows.count;
  batch.global_count = rows.global_count;
  batch.index = index;
  auto sizes = samples.images.sizes().vec();
  sizes[0] = batch.rows;
  batch.images = torch::zeros(sizes, samples.images.options());
  batch.labels = torch::zeros({batch.rows}, torch::kInt64);
  batch.weights = torch::zeros({batch.rows});
  if (batch.count == 0) return batch;
  const auto first = static_cast<int64_t>(rows.first_position);
  batch.images.narrow(0, 0, batch.count).copy_(samples.images.narrow(0, first, batch.count));
  batch.labels.narrow(0, 0, batch.count).copy_(samples.labels.narrow(0, first, batch.count));
  batch.weights.narrow(0, 0, batch.count).fill_(1);
  return batch;
}

/// A model with BatchNorm and with a parameter that forward() does not use, for pictures of 1 x 12 x 12.
class TinyNorm final : public Model {
 public:
  TinyNorm() {
    torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(1));
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(144, 4));
    register_module("idle", torch::nn::Linear(3, 2));
    add_stage("all", {"norm", "fc", "idle"},
              [norm, fc](const torch::Tensor& x) mutable { return fc(norm(x).flatten(1)); });
  }
};

using ModelMaker = std::function<std::unique_ptr<Model>()>;

/// The model and strategy of one rank.
struct Trainee {
  /// For modes that need one model.
  Trainee(const std::string& mode, std::unique_ptr<Model> built, Comm& comm, const OptimizerOptions& options,
          torch::ScalarType dtype = torch::kFloat64, const torch::Device& device = torch::kCPU,
          const std::vector<int64_t>& input_sizes = {})
      : Trainee(mode, std::move(built), {}, comm, options, dtype, device, input_sizes) {}
  /// For any mode.
  Trainee(const std::string& mode, const ModelMaker& make, Comm& comm, const OptimizerOptions& options,
          torch::ScalarType dtype = torch::kFloat64, const torch::Device& device = torch::kCPU,
          const std::vector<int64_t>& input_sizes = {})
      : Trainee(mode, make(), make, comm, options, dtype, device, input_sizes) {}

  /// Without tensors where the rank is not fed, as a feeder gives it.
  DeviceBatch part(const Samples& samples, int64_t batch_size, int64_t index) const {
    auto batch = part_of(samples, batch_size, index, strategy->data_rank(), strategy->data_world_size());
    if (!strategy->is_fed()) batch.images = batch.labels = batch.weights = torch::Tensor();
    return batch;
  }

  Recorder recorder;
  std::unique_ptr<Model> model;
  std::unique_ptr<Strategy> strategy;
  std::vector<std::string> said;  // lines for people

 private:
  Trainee(const std::string& mode, std::unique_ptr<Model> built, const ModelMaker& make, Comm& comm,
          const OptimizerOptions& options, torch::ScalarType dtype, const torch::Device& device,
          const std::vector<int64_t>& input_sizes)
      : model(std::move(built)) {
    model->to(dtype);
    StrategyContext context{*model, comm, device, options, recorder};
    context.input_sizes = input_sizes;
    context.make_model = make;
    context.say = [this](const std::string& line) { said.push_back(line); };
    strategy = StrategyRegistry::make(parse_spec("mode", mode), context);
  }
};

/// The largest difference in any tensor, relative to the largest element of that tensor.
inline double relative_difference(const StateDict& one, const StateDict& other) {
  double largest = one.size() == other.size() ? 0 : 1e300;
  for (const auto& [name, tensor] : one) {
    if (!other.contains(name)) return 1e300;
    const auto scale = tensor.to(torch::kFloat64).abs().max().item<double>();
    const auto difference = (tensor.to(torch::kFloat64) - other.at(name)).abs().max().item<double>();
    if (difference > 0) largest = std::max(largest, difference / scale);
  }
  return largest;
}

}  // namespace penstock
