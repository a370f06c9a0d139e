// Sgd: equal to torch::optim::SGD.
#include "train/optimizer.h"

#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

namespace penstock {
namespace {

std::vector<torch::Tensor> random_parameters() {
  return {torch::randn({7, 3}, torch::kFloat64), torch::randn({5}, torch::kFloat64),
          torch::randn({4, 3, 2, 2}, torch::kFloat64)};
}

TEST(SgdTest, StepsAreThoseOfTorchOptimSgd) {
  for (const double momentum : {0.0, 0.9})
    for (const double weight_decay : {0.0, 1e-2}) {
      at::manual_seed(1);
      auto mine = random_parameters();
      std::vector<torch::Tensor> theirs;
      for (const auto& parameter : mine) theirs.push_back(parameter.clone());
      Sgd sgd(mine, {.learning_rate = 0.1, .momentum = momentum, .weight_decay = weight_decay});
      torch::optim::SGD reference(theirs, torch::optim::SGDOptions(0.1).momentum(momentum).weight_decay(weight_decay));
      for (int step = 0; step < 6; ++step) {
        if (step == 3) {
          sgd.set_learning_rate(0.01);
          static_cast<torch::optim::SGDOptions&>(reference.param_groups()[0].options()).lr(0.01);
        }
        for (size_t i = 0; i < mine.size(); ++i) {
          mine[i].mutable_grad() = torch::randn_like(mine[i]);
          theirs[i].mutable_grad() = mine[i].grad().clone();
        }
        sgd.step();
        reference.step();
        for (size_t i = 0; i < mine.size(); ++i)
          EXPECT_TRUE(mine[i].allclose(theirs[i], /*rtol=*/1e-12, /*atol=*/1e-14))
              << "momentum " << momentum << ", weight decay " << weight_decay << ", step " << step << ", tensor " << i;
      }
    }
}

TEST(SgdTest, GradientsStayAsTheyWere) {
  auto parameter = torch::ones({3});
  parameter.mutable_grad() = torch::full({3}, 2.0);
  Sgd({parameter}, {.learning_rate = 1, .momentum = 0.9, .weight_decay = 0.5}).step();
  EXPECT_TRUE(parameter.grad().eq(2).all().item<bool>());
  EXPECT_TRUE(parameter.eq(1 - 2.5).all().item<bool>());
}

}  // namespace
}  // namespace penstock
