// Clipping: equal to LibTorch's and, for agc, to timm's formula over 100 steps; and what is refused.
#include "train/optimizers/clip.h"

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>

#include <functional>

#include "core/text.h"
#include "tests/support/testing.h"
#include "train/optimizers/optimizer.h"

namespace penstock {
namespace {

using Parameters = std::vector<torch::Tensor>;

/// After timm 1.0, timm/utils/agc.py: adaptive_clip_grad(parameters, clip_factor, eps=1e-3), written anew.
void clip_as_timm(const Parameters& parameters, double factor) {
  const auto norm_of = [](const torch::Tensor& tensor) {
    if (tensor.dim() <= 1) return tensor.norm(2);
    std::vector<int64_t> others;
    for (int64_t dimension = 1; dimension < tensor.dim(); ++dimension) others.push_back(dimension);
    return tensor.norm(2, others, /*keepdim=*/true);
  };
  for (const auto& parameter : parameters) {
    const auto most = norm_of(parameter.detach()).clamp_min(1e-3) * factor;
    const auto norm = norm_of(parameter.grad());
    const auto clipped = parameter.grad() * (most / norm.clamp_min(1e-6));
    parameter.mutable_grad() = at::where(norm < most, parameter.grad(), clipped);
  }
}

/// 100 steps of SGD beside one whose gradients `clip` has changed. Gradients are of lengths on both sides of the limit.
void expect_clips_as(const std::string& text, const std::function<void(const Parameters&)>& clip) {
  at::manual_seed(1);
  Parameters mine{torch::randn({7, 3}, torch::kFloat64), torch::zeros({5}, torch::kFloat64),
                  torch::randn({4, 3, 2, 2}, torch::kFloat64)};
  Parameters theirs;
  for (const auto& parameter : mine) theirs.push_back(parameter.clone());
  const OptimizerOptions options{.learning_rate = 0.1, .momentum = 0.9};
  const auto clipping = make_optimizer({.parameters = mine, .options = options, .clip = parse_clip(text)});
  const auto plain = make_optimizer({.parameters = theirs, .options = options});
  int changed_count = 0;
  for (int step = 0; step < 100; ++step) {
    for (size_t i = 0; i < mine.size(); ++i) {
      mine[i].mutable_grad() = torch::randn_like(mine[i]) * (0.001 * (step + 1));
      theirs[i].mutable_grad() = mine[i].grad().clone();
    }
    double squares = 0;
    for (const auto& parameter : mine) squares += parameter.grad().square().sum().item<double>();
    const auto before = theirs.back().grad().clone();
    clip(theirs);
    changed_count += theirs.back().grad().equal(before) ? 0 : 1;
    clipping->step();
    plain->step();
    EXPECT_NEAR(clipping->gradient_norm().item<double>(), std::sqrt(squares), 1e-12 * std::sqrt(squares)) << text;
    for (size_t i = 0; i < mine.size(); ++i)
      ASSERT_TRUE(mine[i].allclose(theirs[i], /*rtol=*/1e-12, /*atol=*/1e-14)) << text << ", step " << step;
  }
  EXPECT_GT(changed_count, 10) << text;
  EXPECT_LT(changed_count, 100) << text;
}

TEST(ClipTest, NormIsThatOfTorch) {
  expect_clips_as("norm=0.5", [](const Parameters& list) { torch::nn::utils::clip_grad_norm_(list, 0.5); });
}

TEST(ClipTest, ValueIsThatOfTorch) {
  expect_clips_as("value=0.1", [](const Parameters& list) { torch::nn::utils::clip_grad_value_(list, 0.1); });
}

TEST(ClipTest, AgcIsThatOfTimm) {
  expect_clips_as("agc=0.05", [](const Parameters& list) { clip_as_timm(list, 0.05); });
}

TEST(ClipTest, OtherWordsAndNumbersAreRefused) {
  for (const char* text : {"norm", "norm=", "norm=1x", "length=1", "1.0", "=1"})
    EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { parse_clip(text); }),
              concat("--clip-grad is ", text, "; expected norm=1.0, value=0.5 or agc=0.01"));
  for (const char* text : {"norm=0", "value=-1", "agc=inf", "norm=nan"})
    EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { parse_clip(text); }),
              concat("--clip-grad is ", text, "; expected a number of more than 0"));
  EXPECT_FALSE(parse_clip("").is_on());
}

}  // namespace
}  // namespace penstock
