// relu_max_pool(): equal to LibTorch's operators to the bit.
#include "train/nn/relu_max_pool.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

namespace penstock::detail {
namespace {

/// The output, and the gradient of the input for an output gradient of distinct numbers.
template <class Operator>
std::pair<torch::Tensor, torch::Tensor> both(const torch::Tensor& x, const Operator& operate) {
  auto input = x.clone().requires_grad_();
  const auto output = operate(input);
  output.backward(torch::arange(1, output.numel() + 1).to(x.scalar_type()).view(output.sizes()));
  return {output.detach(), input.grad()};
}

void expect_equal(const torch::Tensor& x) {
  const auto mine = both(x, relu_max_pool);
  const auto theirs = both(x, [](const auto& input) { return torch::max_pool2d(torch::relu(input), 2); });
  EXPECT_TRUE(mine.first.nan_to_num(-7).equal(theirs.first.nan_to_num(-7)));
  EXPECT_TRUE(mine.second.equal(theirs.second)) << mine.second << theirs.second;
}

TEST(ReluMaxPoolTest, OutputAndGradientAreLibTorchs) {
  at::manual_seed(1);
  for (const auto dtype : {torch::kFloat32, torch::kFloat64})
    for (const auto& [height, width] : {std::pair(28, 28), {2, 2}, {7, 10}, {10, 5}, {3, 3}})
      expect_equal(torch::randn({3, 20, height, width}, dtype));
}

TEST(ReluMaxPoolTest, TheFirstOfEqualElementsGetsTheGradient) {
  at::manual_seed(1);
  expect_equal(torch::randint(-1, 3, {4, 6, 14, 14}).to(torch::kFloat32));
}

TEST(ReluMaxPoolTest, NotANumberPassesThrough) {
  auto x = torch::randn({1, 1, 8, 8});
  for (int i = 0; i < 4; ++i) x[0][0][2 * i + i / 2][2 * i + i % 2] = std::numeric_limits<float>::quiet_NaN();
  expect_equal(x);
}

TEST(ReluMaxPoolTest, OtherLayoutsAreTakenToo) {
  at::manual_seed(1);
  expect_equal(torch::randn({2, 3, 6, 6}).to(torch::MemoryFormat::ChannelsLast));
  expect_equal(torch::randn({2, 3, 6, 8}).transpose(2, 3));
  const auto data = torch::randn({2, 3, 9, 9});
  const auto mine = both(data, [](const auto& x) { return relu_max_pool(x.slice(3, 1, 8)); });
  const auto theirs = both(data, [](const auto& x) { return torch::max_pool2d(torch::relu(x.slice(3, 1, 8)), 2); });
  EXPECT_TRUE(mine.first.equal(theirs.first) && mine.second.equal(theirs.second));
}

TEST(ReluMaxPoolTest, AGradientThatIsOneNumberForAllIsTakenToo) {
  at::manual_seed(1);
  const auto data = torch::randn({2, 3, 6, 6});
  const auto gradient = [&](const auto& operate) {
    auto x = data.clone().requires_grad_();
    operate(x).sum().backward();  // an expanded tensor: its strides are 0
    return x.grad();
  };
  EXPECT_TRUE(
      gradient(relu_max_pool).equal(gradient([](const auto& x) { return torch::max_pool2d(torch::relu(x), 2); })));
}

TEST(ReluMaxPoolTest, ResultsDoNotDependOnThreads) {
  at::manual_seed(1);
  const auto data = torch::randn({64, 6, 28, 28});  // 24 tasks
  const int before = at::get_num_threads();
  const auto expected = both(data, relu_max_pool);
  at::set_num_threads(before == 1 ? 2 : 1);
  const auto found = both(data, relu_max_pool);
  at::set_num_threads(before);
  EXPECT_TRUE(found.first.equal(expected.first) && found.second.equal(expected.second));
}

}  // namespace
}  // namespace penstock::detail
