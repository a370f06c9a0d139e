// Order: a permutation for every size, chosen by seed and epoch, with no position or sample preferred.
#include "loader/order/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace penstock {
namespace {

std::vector<uint64_t> all_of(const Order& order) {
  std::vector<uint64_t> samples(order.size());
  for (uint64_t position = 0; position < order.size(); ++position) samples[position] = order.at(position);
  return samples;
}

TEST(OrderTest, IsAPermutationOfEverySize) {
  for (const uint64_t size : {0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000, 60000, 65536, 65537}) {
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      for (const uint64_t epoch : {0, 1, 1000000}) {
        auto samples = all_of(Order::shuffled(size, seed, epoch));
        std::sort(samples.begin(), samples.end());
        for (uint64_t i = 0; i < size; ++i) {
          ASSERT_EQ(samples[i], i) << "size " << size << ", seed " << seed << ", epoch " << epoch;
        }
      }
    }
  }
}

TEST(OrderTest, FindsThePositionOfEverySample) {
  for (const uint64_t size : {1, 2, 3, 5, 8, 9, 63, 64, 65, 1000, 65537}) {
    const auto order = Order::shuffled(size, 3, 9);
    for (uint64_t position = 0; position < size; ++position) ASSERT_EQ(order.position_of(order.at(position)), position);
  }
  EXPECT_EQ(Order::sequential(10).position_of(7), 7U);
}

TEST(OrderTest, SequentialIsTheIdentity) {
  const auto order = Order::sequential(1000);
  for (uint64_t position = 0; position < order.size(); ++position) ASSERT_EQ(order.at(position), position);
}

TEST(OrderTest, DiffersBySeedAndByEpoch) {
  const auto base = all_of(Order::shuffled(1000, 7, 3));
  EXPECT_EQ(all_of(Order::shuffled(1000, 7, 3)), base);
  for (const auto& other : {Order::shuffled(1000, 8, 3), Order::shuffled(1000, 7, 4), Order::shuffled(1000, 3, 7)}) {
    const auto samples = all_of(other);
    int fixed = 0;  // for two unrelated permutations this is Poisson distributed with mean 1
    for (size_t i = 0; i < samples.size(); ++i) fixed += samples[i] == base[i];
    EXPECT_LT(fixed, 8);
  }
}

/// The chi-square statistic of `counts` against equal expectations, in standard deviations from its mean.
double excess(const std::vector<int>& counts, double expected) {
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

TEST(OrderTest, PutsEverySampleAtEveryPositionEquallyOften) {
  for (const uint64_t size : {2, 3, 5, 16, 50}) {
    const int epochs = static_cast<int>(size) * 400;
    std::vector<int> counts(size * size);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const auto samples = all_of(Order::shuffled(size, 42, static_cast<uint64_t>(epoch)));
      for (uint64_t position = 0; position < size; ++position) ++counts[position * size + samples[position]];
    }
    // Rows and columns have fixed sums. The statistic therefore has (size-1)^2 degrees of freedom instead of size^2 -
    // 1, and only a value that is too high is a fault.
    EXPECT_LT(excess(counts, 400), 4) << "size " << size;
  }
}

/// The number of a permutation among all of its size (Lehmer's code).
size_t rank_of(const std::vector<uint64_t>& samples) {
  size_t rank = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    rank *= samples.size() - i;
    for (size_t j = i + 1; j < samples.size(); ++j) rank += samples[j] < samples[i];
  }
  return rank;
}

TEST(OrderTest, GivesEveryPermutationOfAFewEquallyOften) {
  size_t permutations = 6;
  for (uint64_t size = 4; size <= 8; ++size) {
    std::vector<int> counts(permutations *= size);
    const uint64_t expected = size < 8 ? 40 : 8;
    for (uint64_t i = 0; i < expected * permutations; ++i) ++counts[rank_of(all_of(Order::shuffled(size, i % 3, i)))];
    EXPECT_LT(std::abs(excess(counts, static_cast<double>(expected))), 4) << "size " << size;
  }
}

TEST(OrderTest, HasEveryPairOfNeighboursEquallyOften) {
  for (const uint64_t size : {8, 16, 32, 63}) {
    std::vector<int> counts(size * size);
    const uint64_t epochs = 400 * size;
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      const auto samples = all_of(Order::shuffled(size, 5, epoch));
      for (size_t i = 1; i < size; ++i) ++counts[samples[i - 1] * size + samples[i]];
    }
    for (uint64_t i = size; i-- > 0;) counts.erase(counts.begin() + static_cast<std::ptrdiff_t>(i * size + i));
    EXPECT_LT(excess(counts, 400), 4) << "size " << size;
  }
}

TEST(OrderTest, IsTheNetworkOfEarlierVersionsFromSixtyFourOn) {
  const auto sum = [](uint64_t size) {
    uint64_t sum = 0;
    for (const uint64_t sample : all_of(Order::shuffled(size, 7, 3))) sum = sum * 31 + sample;
    return sum;
  };
  EXPECT_EQ(sum(64), 18088954972286761908U);
  EXPECT_EQ(sum(65), 17560384999066398950U);
  EXPECT_EQ(sum(1000), 16519955508841078186U);
}

TEST(OrderTest, NeighboursAreUnrelated) {
  // Counts the distances between the samples of neighbouring positions in 64 bins, for a size that is not a power of
  // two.
  constexpr uint64_t kSize = 60000;
  const auto samples = all_of(Order::shuffled(kSize, 1, 0));
  std::vector<int> counts(64);
  for (uint64_t i = 0; i < kSize; ++i) {
    const uint64_t distance = (samples[(i + 1) % kSize] + kSize - samples[i]) % kSize;
    ++counts[distance * counts.size() / kSize];
  }
  EXPECT_LT(excess(counts, kSize / 64.0), 4);
}

TEST(OrderTest, SeeksInAVeryLargeDataSet) {
  const uint64_t size = (uint64_t{1} << 40) + 1;
  const auto order = Order::shuffled(size, 9, 2);
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(order.at(size - 1 - i), size);
    EXPECT_NE(order.at(i), order.at(size - 1 - i));
  }
}

}  // namespace
}  // namespace penstock
