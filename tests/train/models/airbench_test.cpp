// airbench: whitening filters, the identity at the start, and the published number of parameters.
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/testing.h"
#include "train/models/whitening.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

constexpr ModelShape kCifar{.channels = 3, .height = 32, .width = 32, .classes = 10};

/// Neighbouring pixels alike, as in photographs.
torch::Tensor smooth_images(int64_t count) {
  at::manual_seed(3);
  return torch::avg_pool2d(torch::randn({count, 3, 36, 36}), 5, 1) * 3 + 0.5;
}

/// These images in batches of so many.
NextImages in_batches(const torch::Tensor& images, int64_t rows) {
  return [batches = images.split(rows), next = size_t{0}]() mutable {
    return next < batches.size() ? batches[next++] : torch::Tensor();
  };
}

torch::Tensor filters_of(const torch::Tensor& images, double eps = 5e-4, int64_t rows = 256) {
  return detail::whitening_filters(in_batches(images, rows), 2, eps);
}

/// After the filters, patches are uncorrelated and, where eps is small beside an eigenvalue, of mean square 1.
TEST(WhiteningTest, PatchesOfThePicturesComeOutWhite) {
  const auto images = smooth_images(300);
  const auto filters = filters_of(images, 1e-9);
  EXPECT_EQ(filters.sizes(), torch::IntArrayRef({24, 3, 2, 2}));
  EXPECT_EQ(filters.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(filters.narrow(0, 12, 12).equal(-filters.narrow(0, 0, 12)));
  const auto white =
      torch::conv2d(images, filters.narrow(0, 0, 12)).permute({1, 0, 2, 3}).reshape({12, -1}).to(torch::kFloat64);
  const auto products = white.mm(white.t()) / white.size(1);
  EXPECT_LT((products - torch::eye(12, torch::kFloat64)).abs().max().item<double>(), 1e-3);
}

TEST(WhiteningTest, EpsHoldsSmallEigenvaluesDown) {
  const auto constant = torch::full({4, 1, 8, 8}, 2.0);  // one eigenvalue is 16, the others are 0
  const auto filters = filters_of(constant, 0.01);
  const auto norms = filters.narrow(0, 0, 4).flatten(1).norm(2, 1);
  EXPECT_NEAR(norms.max().item<double>(), 1 / std::sqrt(0.01), 1e-4);
  EXPECT_NEAR(norms.min().item<double>(), 1 / std::sqrt(16.01), 1e-4);
}

/// Eigenvectors of near eigenvalues, of arbitrary sign: what the filters share is the inverse of the covariance.
TEST(WhiteningTest, EveryPictureCountsOnceWhateverTheBatches) {
  const auto images = smooth_images(300);
  const auto inverse = [&](const torch::Tensor& some, int64_t rows) {
    const auto half = filters_of(some, 0.1, rows).narrow(0, 0, 12).flatten(1);
    return half.t().mm(half);
  };
  const auto whole = inverse(images, 300);
  for (const int64_t rows : {1, 7, 256}) EXPECT_TRUE(inverse(images, rows).allclose(whole, 1e-5, 1e-5)) << rows;
  EXPECT_FALSE(inverse(images.narrow(0, 0, 256), 256).allclose(whole, 1e-5, 1e-5));
}

TEST(AirbenchTest, ItBeginsFromThePicturesAndPassesThemOn) {
  at::manual_seed(1);
  const auto model = ModelRegistry::make(parse_spec("arch", "airbench"), kCifar);
  int64_t trained = 0, all = 0;
  for (const auto& parameter : model->parameters()) {
    all += parameter.numel();
    trained += parameter.requires_grad() ? parameter.numel() : 0;
  }
  // 24 x 64, 64 x 64, 64 x 256 and three of 256 x 256 filters of 3 x 3; biases of 2 (64 + 256 + 256); 24; 2,560
  EXPECT_EQ(trained, 9 * (24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256) + 2 * 576 + 24 + 2560);
  EXPECT_EQ(all - trained, 24 * 12 + 2 * 576);
  const auto parameters = model->named_parameters();
  const auto& first = parameters["block1.conv1.weight"];
  EXPECT_EQ(first[5][5][1][1].item<float>(), 1);
  EXPECT_EQ(first[5].abs().sum().item<float>(), 1);
  EXPECT_NE(first[40].abs().sum().item<float>(), 1);
  EXPECT_NEAR(parameters["head.weight"].std().item<double>(), 1, 1e-5);
  EXPECT_EQ(model->initial_image_count(), 5000);
  const auto images = smooth_images(64);
  const auto weights = model->initial_weights(in_batches(images, 256));
  ASSERT_EQ(weights.size(), 1U);
  EXPECT_EQ(weights[0].second.sizes(), parameters[weights[0].first].sizes());
  EXPECT_TRUE(weights[0].second.equal(filters_of(images)));
  EXPECT_EQ(ModelRegistry::make(parse_spec("arch", "lenet"), ModelShape())->initial_image_count(), 0);
}

TEST(AirbenchTest, SmallPicturesAndBadWidthsAreRefused) {
  const auto refusal = [](const std::string& arch, int64_t side) {
    return message_of(ErrorKind::kConfig, [&] {
      ModelRegistry::make(parse_spec("arch", arch), ModelShape{.channels = 3, .height = side, .width = 32});
    });
  };
  EXPECT_EQ(refusal("airbench", 8), "arch airbench: pictures are 32 x 8; expected at least 9 x 9");
  EXPECT_EQ(refusal("airbench(width=-1)", 32), "arch airbench: width is -1; expected more than 0, up to 64");
  ModelRegistry::make(parse_spec("arch", "airbench(width=0.1)"), ModelShape{.channels = 3, .height = 9, .width = 9});
}

}  // namespace
}  // namespace penstock
