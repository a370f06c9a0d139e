// Buckets: the assignment of an example, and gradients that are views of buckets.
#include "train/parallel/strategy/buckets.h"

#include <gtest/gtest.h>

namespace penstock::detail {
namespace {

using Assignment = std::vector<std::vector<size_t>>;

TEST(BucketsTest, TheTensorThatReachesTheLimitClosesItsBucket) {
  //                 index:  0   1   2   3   4   5   6
  EXPECT_EQ(assign_buckets({50, 10, 10, 30, 5, 4, 6}, /*outer_limit=*/10, /*limit=*/40),
            (Assignment{{6, 5}, {4, 3, 2}, {1, 0}}));
  EXPECT_EQ(assign_buckets({100, 1}, 1, 40), (Assignment{{1}, {0}}));
  EXPECT_EQ(assign_buckets({3, 100}, 10, 40), (Assignment{{1}, {0}}));
  EXPECT_EQ(assign_buckets({1, 1, 1}, 10, 40), (Assignment{{2, 1, 0}}));
  EXPECT_EQ(assign_buckets({}, 10, 40), Assignment{});
}

/// No backward hides the last bucket.
TEST(BucketsTest, TheLastBucketIsSmallTooIfItsTensorsAre) {
  EXPECT_EQ(assign_buckets({4, 5, 2, 20, 10}, /*outer_limit=*/10, /*limit=*/40), (Assignment{{4}, {3, 2}, {1, 0}}));
  EXPECT_EQ(assign_buckets({4, 5, 2, 29, 10}, 10, 40), (Assignment{{4}, {3, 2}, {1, 0}}));
  EXPECT_EQ(assign_buckets({4, 7, 20, 10}, 10, 40), (Assignment{{3}, {2, 1}, {0}}));
  EXPECT_EQ(assign_buckets({11, 2, 20, 10}, 10, 40), (Assignment{{3}, {2, 1, 0}}));
  EXPECT_EQ(assign_buckets({4, 9}, 10, 40), (Assignment{{1}, {0}}));  // cut, although one bucket would hold both
}

TEST(BucketsTest, TheOuterLimitIs1MiBAndTheOtherOne25) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(assign_buckets({kMiB, 24 * kMiB, 1 * kMiB, kMiB / 2, kMiB / 2}), (Assignment{{4, 3}, {2, 1}, {0}}));
  EXPECT_EQ(assign_buckets({kMiB, kMiB, 2 * kMiB}), (Assignment{{2}, {1}, {0}}));
}

TEST(BucketsTest, GradientsAreViewsOfTheirBucketInItsOrder) {
  std::vector<torch::Tensor> parameters{torch::ones({2, 3}), torch::ones({4}), torch::ones({5})};
  const auto buckets = bucket_gradients(parameters, {{2, 1}, {0}}, *make_self_comm());
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].flat.numel(), 9);
  buckets[0].flat.copy_(torch::arange(9));
  EXPECT_TRUE(parameters[2].grad().equal(torch::arange(0, 5).to(torch::kFloat32)));
  EXPECT_TRUE(parameters[1].grad().equal(torch::arange(5, 9).to(torch::kFloat32)));
  parameters[0].grad().fill_(7);
  EXPECT_TRUE(buckets[1].flat.eq(7).all().item<bool>());
}

TEST(BucketsTest, BackwardAccumulatesIntoTheBucket) {
  auto parameter = torch::ones({2, 3, 2, 2}).to(torch::MemoryFormat::ChannelsLast).requires_grad_();
  const auto buckets = bucket_gradients({parameter}, {{0}}, *make_self_comm());
  EXPECT_EQ(parameter.grad().strides(), parameter.strides());
  const auto* data = parameter.grad().data_ptr();
  (parameter * 3).sum().backward();
  EXPECT_EQ(parameter.grad().data_ptr(), data);
  EXPECT_TRUE(buckets[0].flat.eq(3).all().item<bool>());
}

}  // namespace
}  // namespace penstock::detail
