// CUDA: models and strategies give the same on a GPU as on the CPU; and NCCL with one rank, because a process can have
// only one.
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/cuda/device.h"
#include "tests/train/model_shapes.h"
#include "tests/train/strategy_batches.h"
#include "train/comm/c10d_comm.h"

namespace penstock {
namespace {

TEST(CudaModelTest, LogitsAreThoseOfTheCpu) {
  at::NoGradGuard no_grad;
  for (const auto& arch : ModelRegistry::names()) {
    const auto shape = shape_for(arch, {.channels = 3, .height = 33, .width = 40, .classes = 7});
    at::manual_seed(1);
    const auto model = ModelRegistry::make(parse_spec("arch", arch), shape);
    model->to(torch::kFloat64);
    model->eval();
    const auto images = torch::randn({4, 3, shape.height, shape.width}, torch::kFloat64);
    const auto expected = model->forward(images);
    model->to(kGpu);
    EXPECT_TRUE(model->forward(images.to(kGpu)).cpu().allclose(expected, 1e-9, 1e-10)) << arch;
  }
}

std::unique_ptr<Comm> nccl_of_one_rank() {
  return make_c10d_comm(c10::make_intrusive<c10d::HashStore>(), {.rank = 0, .world_size = 1}, kGpu, "nccl");
}

TEST(NcclCommTest, OneRankIsTheIdentity) {
  auto comm = nccl_of_one_rank();
  EXPECT_EQ(comm->backend(), "nccl");
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kInt64}) {
    auto tensor = torch::arange(9, torch::dtype(dtype).device(kGpu));
    comm->all_reduce_sum(tensor)->wait();
    comm->broadcast(tensor, 0);
    EXPECT_TRUE(tensor.cpu().equal(torch::arange(9, dtype)));
    EXPECT_TRUE(comm->all_gather(tensor).cpu().equal(torch::arange(9, dtype).unsqueeze(0)));
  }
  comm->barrier();
}

StateDict train(const std::string& mode, Comm& comm, const torch::Device& device, const std::string& optimizer) {
  const ModelShape shape;
  const auto samples = random_samples(26, shape, 3);
  at::manual_seed(1);
  auto model = ModelRegistry::make(parse_spec("arch", "lenet"), shape);
  StrategyHarness one(mode, std::move(model), comm,
                      {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3, .spec = optimizer},
                      torch::kFloat64, device);
  for (int64_t i = 0; i < 2; ++i) {
    auto batch = one.part(samples, 13, i);
    for (auto* tensor : {&batch.images, &batch.labels, &batch.weights}) *tensor = tensor->to(device);
    one.strategy->step(batch);
  }
  return one.strategy->state();
}

TEST(CudaStrategyTest, EveryModeReachesTheParametersOfTheCpu) {
  auto self = make_self_comm();
  auto nccl = nccl_of_one_rank();
  for (const std::string optimizer : {"sgd", "adamw(eps=0.001)", "lamb(eps=0.001)"}) {
    const auto expected = train("single", *self, torch::kCPU, optimizer);
    EXPECT_LE(relative_difference(expected, train("single", *self, kGpu, optimizer)), 1e-9) << optimizer;
    for (const std::string mode : {"ddp", "ddp(accumulate=2)", "zero", "zero(stage=2)", "zero(stage=3)"})
      EXPECT_LE(relative_difference(expected, train(mode, *nccl, kGpu, optimizer)), 1e-9) << mode << ", " << optimizer;
  }
}

}  // namespace
}  // namespace penstock
