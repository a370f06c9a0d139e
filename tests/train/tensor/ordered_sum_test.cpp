// Ordered sums: which numbers are added to which.
#include "train/tensor/ordered_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace penstock::detail {
namespace {

// Chosen so that the sums below have other bits in other orders.
std::vector<float> leaves_of(int count) {
  std::vector<float> leaves;
  for (int i = 0; i < count; ++i) leaves.push_back(1000.F / static_cast<float>(6 * i % 22 + 1));
  return leaves;
}

float sum_in_order(const std::vector<float>& leaves, const std::vector<int>& order) {
  PairwiseSum tree(static_cast<int>(leaves.size()));
  size_t put = 0;
  for (const int leaf : order)
    EXPECT_EQ(tree.put(leaf, torch::tensor({leaves[static_cast<size_t>(leaf)]})), ++put == leaves.size());
  return tree.take().item<float>();
}

TEST(PairwiseSumTest, AddsNeighboursFirstInWhateverOrderTheyCome) {
  const auto v = leaves_of(8);
  const float expected = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  std::vector<int> order(8);
  std::iota(order.begin(), order.end(), 0);
  EXPECT_NE(std::accumulate(v.begin(), v.end(), 0.F), expected);
  EXPECT_NE(((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])), expected);
  EXPECT_EQ(sum_in_order(v, order), expected);
  EXPECT_EQ(sum_in_order(v, {7, 6, 5, 4, 3, 2, 1, 0}), expected);
  EXPECT_EQ(sum_in_order(v, {4, 1, 6, 0, 7, 3, 2, 5}), expected);
}

TEST(PairwiseSumTest, SubtreesOfRanksMakeTheSameTree) {
  const auto v = leaves_of(16);
  std::vector<int> order(16);
  std::iota(order.begin(), order.end(), 0);
  const float expected = sum_in_order(v, order);
  for (const int ranks : {1, 2, 4, 8, 16}) {
    const int own = 16 / ranks;
    const auto roots = torch::empty({ranks, 1});
    for (int rank = 0; rank < ranks; ++rank)
      roots[rank].fill_(
          sum_in_order({v.begin() + rank * own, v.begin() + (rank + 1) * own}, {order.begin(), order.begin() + own}));
    EXPECT_EQ(pairwise_sum(roots).item<float>(), expected) << ranks << " ranks";
  }
}

/// As the header draws it, also where a tensor has no neighbour.
TEST(OrderedSumTest, PairwiseTheLastOfAnOddNumberIsAddedWhereItsNeighboursAre) {
  for (const size_t count : {1, 2, 3, 5, 6, 7}) {
    const std::vector<float> v{1e8F, 3, 3, 3, 3, 3, 3};  // 1e8 + 3 is 1e8, and 1e8 + 6 is 1e8 + 8
    const std::vector<float> expected{v[0],
                                      v[0] + v[1],
                                      (v[0] + v[1]) + v[2],
                                      0,
                                      ((v[0] + v[1]) + (v[2] + v[3])) + v[4],
                                      ((v[0] + v[1]) + (v[2] + v[3])) + (v[4] + v[5]),
                                      ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + v[6])};
    EXPECT_EQ(pairwise_sum(torch::tensor(v).narrow(0, 0, static_cast<int64_t>(count))).item<float>(),
              expected[count - 1])
        << count;
  }
}

/// Numbers whose sum depends on the order: 1e16 + 1 is 1e16 in float64.
TEST(OrderedSumTest, FoldedHalvesAreAddedToEachOther) {
  const auto numbers = torch::tensor({1e16, 1.0, 1.0, -1e16, 1.0}, torch::kFloat64);
  // The five numbers and three zeros are added in three rounds, each number to the one half a list further on:
  // 1e16 + 1, 1 + 0, 1 + 0, -1e16 + 0; then (1e16 + 1) + 1 and 1 - 1e16; then their sum.
  EXPECT_EQ(folded_sum(numbers).item<double>(), ((1e16 + 1.0) + 1.0) + (1.0 + -1e16));
  EXPECT_EQ(folded_sum(torch::tensor({3.0}, torch::kFloat64)).item<double>(), 3);
}

TEST(OrderedSumTest, FoldedEachRowHasTheSameOrder) {
  const auto v = leaves_of(8);
  const float expected = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
  EXPECT_NE(((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])), expected);
  EXPECT_TRUE(folded_sum(torch::tensor(v).repeat({3, 1})).equal(torch::full({3}, expected)));
}

/// A rank without rows sends zeros; where another rank has all leaves, the same sum must not keep a -0.
TEST(PairwiseSumTest, ALeafThatDoesNotComeIsZero) {
  PairwiseSum tree(4);
  EXPECT_FALSE(tree.take().defined());
  tree.put(1, torch::tensor({-0.F, 3.F}));
  const auto sum = tree.take();
  EXPECT_EQ(sum[1].item<float>(), 3);
  EXPECT_FALSE(std::signbit(sum[0].item<float>()));
  EXPECT_FALSE(tree.put(0, torch::tensor({1.F}))) << "begins anew";
}

TEST(PairwiseSumTest, HoldsNoMoreThanOneSumPerLevel) {
  PairwiseSum tree(8);
  int64_t most = 0;
  for (int leaf = 0; leaf < 8; ++leaf) {
    tree.put(leaf, torch::ones({10}));
    most = std::max(most, tree.bytes());
  }
  EXPECT_EQ(most, 3 * 40);  // after leaf 6; leaf 7 then joins all of them
}

TEST(PairwiseSumTest, TheLastAdditionWritesToTheRoot) {
  for (const int leaves : {1, 2, 4}) {
    PairwiseSum tree(leaves);
    const auto root = torch::zeros({1});
    for (int leaf = 0; leaf < leaves; ++leaf) tree.put(leaf, torch::ones({1}), root);
    EXPECT_EQ(root.item<float>(), static_cast<float>(leaves));
    EXPECT_EQ(tree.take().const_data_ptr(), root.const_data_ptr());
  }
}

}  // namespace
}  // namespace penstock::detail
