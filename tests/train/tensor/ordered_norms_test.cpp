// Block norms: whatever piece of a tensor a rank has, its sums are those of the whole tensor.
#include "train/tensor/ordered_norms.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "train/parallel/sharding/shard_layout.h"
#include "train/tensor/ordered_sum.h"

namespace penstock::detail {
namespace {

TEST(BlockNormsTest, APieceHasTheSumsOfItsPlaceInTheWhole) {
  at::manual_seed(1);
  const int64_t count = 10 * kVectorAlignment + 7;
  const auto whole = torch::randn({count});
  const auto sums = block_sums(whole);
  ASSERT_EQ(sums.numel(), block_count(count));
  for (int64_t first = 0; first < 11; ++first)
    for (int64_t end = first + 1; end <= 11; ++end) {
      const auto piece = whole.slice(0, first * kVectorAlignment, std::min(end * kVectorAlignment, count));
      EXPECT_TRUE(block_sums(piece).equal(sums.slice(0, first, end))) << first << " to " << end;
    }
}

TEST(BlockNormsTest, TheyAddUpToTheSquaredNorm) {
  at::manual_seed(2);
  const auto tensor = torch::randn({7, 13, 5}).transpose(0, 2);  // dense, with other strides
  const double expected = tensor.to(torch::kFloat64).square().sum().item<double>();
  EXPECT_NEAR(folded_sum(block_sums(tensor)).item<double>(), expected, 1e-12 * expected);
}

}  // namespace
}  // namespace penstock::detail
