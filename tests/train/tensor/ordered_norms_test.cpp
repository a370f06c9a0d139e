// Block norms: whatever piece of a tensor a rank has, its sums are those of the whole tensor.
#include "train/tensor/ordered_norms.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "train/parallel/sharding/shard_layout.h"

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
  EXPECT_NEAR(sum_by_halves(block_sums(tensor)).item<double>(), expected, 1e-12 * expected);
}

/// Numbers whose sum depends on the order: 1e16 + 1 is 1e16 in float64.
TEST(BlockNormsTest, HalvesAreAddedToEachOther) {
  const auto numbers = torch::tensor({1e16, 1.0, 1.0, -1e16, 1.0}, torch::kFloat64);
  // The five numbers and three zeros are added in three rounds, each number to the one half a list further on:
  // 1e16 + 1, 1 + 0, 1 + 0, -1e16 + 0; then (1e16 + 1) + 1 and 1 - 1e16; then their sum.
  EXPECT_EQ(sum_by_halves(numbers).item<double>(), ((1e16 + 1.0) + 1.0) + (1.0 + -1e16));
  EXPECT_EQ(sum_by_halves(torch::tensor({3.0}, torch::kFloat64)).item<double>(), 3);
}

}  // namespace
}  // namespace penstock::detail
