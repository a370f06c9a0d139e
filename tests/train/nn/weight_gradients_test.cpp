// Gradients of weights over several micro-batches at once: the sum is that of the batch in one piece.
#include "train/nn/weight_gradients.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/functional/activation.h>

#include "train/nn/layers.h"

namespace penstock {
namespace {

constexpr int kMicroBatches = 4;
constexpr int64_t kRows = 8;
constexpr double kBound = 1e-12;

torch::Tensor random(torch::IntArrayRef sizes) { return torch::randn(sizes, torch::kFloat64); }

double distance(const torch::Tensor& a, const torch::Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

/// A convolution and a linear layer whose weights are large beside what goes through them, and a small convolution.
struct Layers : torch::nn::Module {
  Layers() {
    torch::manual_seed(1);
    small = register_module("small", Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(1)));
    large = register_module("large", Conv2d(torch::nn::Conv2dOptions(4, 64, 3).stride(2).padding(1)));
    last = register_module("last", Linear(64 * 4, 32));
    to(torch::kFloat64);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::relu(large(torch::relu(small(x)))).flatten(1)); }
  Conv2d small{nullptr}, large{nullptr};
  Linear last{nullptr};
};

void backward_of(const torch::Tensor& output) { output.square().sum().backward(); }

void train(Layers& layers, const torch::Tensor& x, WeightGradients& gradients) {
  const WeightGradients::Scope scope(&gradients);
  const auto parts = x.chunk(kMicroBatches);
  for (int i = 0; i < kMicroBatches; ++i) {
    gradients.begin_backward(i + 1 == kMicroBatches);
    backward_of(layers.forward(parts[static_cast<size_t>(i)]));
  }
}

TEST(WeightGradientsTest, AreThoseOfTheBatchInOnePiece) {
  Layers whole, parts;
  const auto x = random({kRows, 3, 4, 4});
  backward_of(whole.forward(x));
  WeightGradients gradients;
  train(parts, x, gradients);
  for (size_t i = 0; i < whole.parameters().size(); ++i)
    EXPECT_LT(distance(parts.parameters()[i].grad(), whole.parameters()[i].grad()), kBound) << i;
  EXPECT_TRUE(gradients.empty());
}

/// A weight of more than a million numbers and maps of few places: its gradient is a product over unfolded maps.
TEST(WeightGradientsTest, OfALargeWeightOverFewPlacesAreThoseOfLibTorch) {
  const auto x = random({3, 256, 5, 4}), weight = random({512, 256, 3, 3}).requires_grad_();
  const std::vector<int64_t> stride{2, 1}, padding{1, 2}, dilation{1, 2};
  const auto output = torch::conv2d(x, weight, {}, stride, padding, dilation);
  const auto gradient = random(output.sizes());
  output.backward(gradient);
  const auto expected = weight.grad().clone();
  weight.mutable_grad().reset();
  WeightGradients gradients;
  conv2d(gradients, x, weight, {}, stride, padding, dilation, /*groups=*/1).backward(gradient);
  EXPECT_LT(distance(weight.grad(), expected), kBound);
}

TEST(WeightGradientsTest, ALayerGivesTheSameBitsForward) {
  Layers layers;
  WeightGradients gradients;
  const auto x = random({2, 3, 4, 4});
  const auto expected = layers.forward(x);
  const WeightGradients::Scope scope(&gradients);
  const auto output = layers.forward(x);
  EXPECT_TRUE(output.equal(expected));
  EXPECT_EQ(output.grad_fn()->name().find("Addmm"), std::string::npos);  // it is not LibTorch's own layer
  const WeightGradients::Scope without(nullptr);
  EXPECT_NE(layers.forward(x).grad_fn()->name().find("Addmm"), std::string::npos);
}

TEST(WeightGradientsTest, ALayerThatTheLastMicroBatchLeavesOutLosesNothing) {
  Layers whole, parts;
  const auto x = random({4, 3, 4, 4});
  backward_of(whole.forward(x));
  WeightGradients gradients;
  for (const auto& part : x.chunk(2)) {
    const WeightGradients::Scope scope(&gradients);
    gradients.begin_backward(/*is_last=*/false);
    backward_of(parts.forward(part));
  }
  EXPECT_FALSE(gradients.empty());
  EXPECT_FALSE(parts.large->weight.grad().defined());
  EXPECT_TRUE(parts.small->weight.grad().defined());  // as large as what goes through it
  gradients.finish();
  for (size_t i = 0; i < whole.parameters().size(); ++i)
    EXPECT_LT(distance(parts.parameters()[i].grad(), whole.parameters()[i].grad()), kBound) << i;
}

TEST(WeightGradientsTest, ALayerMayRunTwiceOnOtherSizes) {
  torch::manual_seed(2);
  Conv2d one(torch::nn::Conv2dOptions(8, 8, 3).padding(1)), other(torch::nn::Conv2dOptions(8, 8, 3).padding(1));
  one->to(torch::kFloat64);
  other->to(torch::kFloat64);
  other->weight.data().copy_(one->weight);
  other->bias.data().copy_(one->bias);
  const auto x = random({4, 8, 2, 2});
  const auto twice = [](Conv2d& layer, const torch::Tensor& rows) {
    return layer(layer(rows).narrow(2, 0, 1)).sum().square() / 1e3;
  };
  for (const auto& part : x.chunk(2)) twice(other, part).backward();
  WeightGradients gradients;
  const WeightGradients::Scope scope(&gradients);
  int count = 0;
  for (const auto& part : x.chunk(2)) {
    gradients.begin_backward(/*is_last=*/++count == 2);
    twice(one, part).backward();
  }
  EXPECT_LT(distance(one->weight.grad(), other->weight.grad()), kBound);
  EXPECT_LT(distance(one->bias.grad(), other->bias.grad()), kBound);
}

TEST(WeightGradientsTest, AllSizesOfALayerAreAddedInTheLastBackward) {
  WeightGradients gradients;
  const auto weight = torch::zeros({100, 100}, torch::requires_grad());
  const auto add = [&](int64_t length) {  // of a kernel that is as long as x
    return gradients.add(weight, torch::ones({1, length}), torch::ones({1, 2}), [](const auto& x, const auto&) {
      return torch::full({100, 100}, x.size(0) * x.size(1));
    });
  };
  gradients.begin_backward(/*is_last=*/false);
  EXPECT_FALSE(add(3).defined());
  EXPECT_FALSE(add(3).defined());
  EXPECT_FALSE(add(5).defined());
  gradients.begin_backward(/*is_last=*/true);
  EXPECT_TRUE(add(5).eq(2 * 3 + 2 * 5).all().item<bool>());
  EXPECT_TRUE(gradients.empty());
}

TEST(WeightGradientsTest, WhatAFailedStepLeavesIsForgotten) {
  Layers whole, parts;
  const auto x = random({kRows, 3, 4, 4});
  backward_of(whole.forward(x));
  WeightGradients gradients;
  {
    const WeightGradients::Scope scope(&gradients);
    gradients.begin_backward(/*is_last=*/false);
    backward_of(parts.forward(random({2, 3, 4, 4})));
  }
  parts.zero_grad();
  gradients.clear();
  train(parts, x, gradients);
  EXPECT_LT(distance(parts.large->weight.grad(), whole.large->weight.grad()), kBound);
}

TEST(WeightGradientsTest, AGradientHasTheStridesOfItsWeight) {
  Layers layers;
  WeightGradients gradients;
  const auto x = random({2, 4, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  const WeightGradients::Scope scope(&gradients);
  gradients.begin_backward(/*is_last=*/false);
  backward_of(layers.large(x));
  gradients.finish();
  EXPECT_EQ(layers.large->weight.grad().strides(), layers.large->weight.strides());
}

TEST(WeightGradientsTest, FactorsTakeNoMoreThanTheWeight) {
  WeightGradients gradients;
  const auto weight = torch::zeros({10, 10}, torch::requires_grad());
  std::vector<int64_t> rows;  // of each product
  const auto add = [&] {
    return gradients.add(weight, torch::ones({2, 10}), torch::ones({2, 10}), [&](const auto& x, const auto& gradient) {
      rows.push_back(x.size(0));
      return gradient.t().mm(x);
    });
  };
  EXPECT_TRUE(WeightGradients::keeps(weight, 50));
  EXPECT_FALSE(WeightGradients::keeps(weight, 51));
  gradients.begin_backward(/*is_last=*/false);
  EXPECT_FALSE(add().defined());
  EXPECT_TRUE(add().eq(4).all().item<bool>());  // 80 numbers are kept, and 40 more would not fit
  EXPECT_FALSE(add().defined());
  gradients.begin_backward(/*is_last=*/true);
  EXPECT_TRUE(add().eq(4).all().item<bool>());
  EXPECT_EQ(rows, (std::vector<int64_t>{4, 4}));
}

TEST(WeightGradientsTest, WhatIsFrozenOrOnlyRunsForwardIsLibTorchs) {
  Layers layers;
  layers.large->weight.requires_grad_(false);
  WeightGradients gradients;
  const WeightGradients::Scope scope(&gradients);
  gradients.begin_backward(/*is_last=*/false);
  backward_of(layers.forward(random({2, 3, 4, 4})));
  gradients.finish();
  EXPECT_FALSE(layers.large->weight.grad().defined());
  EXPECT_TRUE(layers.large->bias.grad().defined());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(layers.forward(random({2, 3, 4, 4})).requires_grad());
}

}  // namespace
}  // namespace penstock
