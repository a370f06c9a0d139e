// dp on CUDA: replicas on GPUs train what the CPU trains, and one on another device than the output gets copies.
#include <gtest/gtest.h>

#include "tests/cuda/device.h"
#include "tests/train/strategy_batches.h"
#include "train/parallel/replicas/replicas.h"

namespace penstock {
namespace {

constexpr ModelShape kShape{.channels = 1, .height = 12, .width = 12, .classes = 4};

std::unique_ptr<Model> make_tiny_f64() {
  at::manual_seed(1);
  auto model = std::make_unique<TinyNorm>();
  model->to(torch::kFloat64);
  return model;
}

StateDict train(const std::string& mode, const torch::Device& device) {
  const auto samples = random_samples(26, {}, 3);
  const auto comm = make_self_comm();
  const auto make = [] {
    at::manual_seed(1);
    return ModelRegistry::make(parse_spec("arch", "lenet"), ModelShape{});
  };
  StrategyHarness one(mode, make, *comm, {.learning_rate = 0.05, .momentum = 0.9}, torch::kFloat64, device);
  for (int64_t i = 0; i < 2; ++i) {
    auto batch = one.part(samples, 13, i);
    for (auto* tensor : {&batch.images, &batch.labels, &batch.weights}) *tensor = tensor->to(device);
    one.strategy->step(batch);
  }
  if (device.is_cuda()) {
    for (const auto& replica : one.strategy->replica_use()) {
      EXPECT_GT(replica.busy_ms, 0);
      EXPECT_GT(replica.peak_memory_bytes, 0);
    }
  }
  return one.strategy->state();
}

TEST(CudaDpTest, ReplicasOnAllGpusTrainWhatTheCpuTrains) {
  EXPECT_LE(relative_difference(train("single", torch::kCPU), train("dp", kGpu)), 1e-9);
  EXPECT_LE(relative_difference(train("single", torch::kCPU), train("dp(devices=0)", kGpu)), 1e-9);
}

TEST(CudaDpTest, AReplicaOnAnotherDeviceThanTheOutputGetsCopiesAndGivesGradients) {
  const auto samples = random_samples(8, kShape, 3);
  const auto alone = make_tiny_f64(), model = make_tiny_f64();
  model->to(kGpu);
  detail::Replicas replicas(*model, kGpu, {torch::kCPU, kGpu}, make_tiny_f64, {});
  for (int step = 0; step < 2; ++step) {
    model->train();
    replicas.reset_gradients();
    const auto logits = replicas.forward(samples.images.to(kGpu), 8, std::nullopt);
    EXPECT_EQ(logits.device(), kGpu);
    logits.square().sum().backward();
    replicas.backward(logits.grad());
    replicas.sum_gradients();
    alone->zero_grad();
    for (const int64_t first : {0, 4}) alone->forward(samples.images.narrow(0, first, 4)).square().sum().backward();
    at::NoGradGuard no_grad;
    auto own = model->parameters(), expected = alone->parameters();
    for (size_t i = 0; i < own.size(); ++i) {
      if (!expected[i].grad().defined()) continue;  // of the layer that forward() does not use
      EXPECT_TRUE(own[i].grad().cpu().allclose(expected[i].grad(), 1e-9, 1e-10)) << i;
      own[i].sub_(own[i].grad(), 0.01);
      expected[i].sub_(expected[i].grad(), 0.01);
    }
  }
}

}  // namespace
}  // namespace penstock
