// WeightedOrder, GroupOrder and AliasTable: how often what is drawn.
#include "loader/order/weighted_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "loader/order/alias_table.h"
#include "loader/order/group_order.h"
#include "loader/order/mix.h"

namespace penstock {
namespace {

std::vector<uint64_t> drawn_weights(std::mt19937_64& random, size_t size) {
  std::vector<uint64_t> weights(size);
  for (auto& weight : weights)
    if (random() % 4 != 0) weight = (random() >> (20 + random() % 44)) + 1;
  weights[random() % size] += 1;
  return weights;
}

uint64_t whole_of(const std::vector<uint64_t>& weights) {
  uint64_t sum = 0;
  for (const uint64_t weight : weights) sum += weight;
  return sum;
}

/// rows * weight / sum, rounded down.
uint64_t share_of(uint64_t weight, uint64_t rows, uint64_t sum) {
  return static_cast<uint64_t>(static_cast<detail::Wide>(weight) * rows / sum);
}

TEST(WeightedOrderTest, AnEpochHasEveryElementItsShareOfTheRowsRoundedDownOrUp) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const auto weights = drawn_weights(random, 1 + random() % 100);
    const uint64_t sum = whole_of(weights), rows = 1 + random() % 500;
    const WeightedOrder order(weights);
    const WeightedOrder::Epoch epoch(order, rows, random(), random() % 100, trial % 2 == 0);
    std::map<uint64_t, std::set<uint32_t>> copies;
    for (uint64_t tick = 0; tick < rows; ++tick) {
      const Draw draw = epoch.at(tick);
      EXPECT_TRUE(copies[draw.element].insert(draw.copy).second) << "trial " << trial << ", tick " << tick;
    }
    for (uint64_t e = 0; e < weights.size(); ++e) {
      const uint64_t count = copies[e].size(), share = share_of(weights[e], rows, sum);
      EXPECT_GE(count, share) << "trial " << trial << ", element " << e;
      EXPECT_LE(count, share + (share_of(weights[e], rows, sum) * static_cast<detail::Wide>(sum) ==
                                        static_cast<detail::Wide>(weights[e]) * rows
                                    ? 0
                                    : 1))
          << "trial " << trial << ", element " << e;
      if (count == 0) continue;
      EXPECT_EQ(*copies[e].rbegin(), count - 1) << "copies are numbered from 0";
    }
  }
}

TEST(WeightedOrderTest, WithEqualWeightsAndAsManyRowsEveryElementOccursOnce) {
  const WeightedOrder order(std::vector<uint64_t>(1000, uint64_t{1} << 40));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const WeightedOrder::Epoch epoch(order, 1000, seed, 7, true);
    std::set<uint64_t> seen;
    for (uint64_t tick = 0; tick < 1000; ++tick) seen.insert(epoch.at(tick).element);
    EXPECT_EQ(seen.size(), 1000U) << "seed " << seed;
  }
}

TEST(WeightedOrderTest, OverManyEpochsRareElementsComeAsOftenAsTheirWeightsAndNotAlwaysTogether) {
  // Element e weighs e + 1, and an epoch has 100 of 1,000 rows' worth: most occur in few epochs.
  std::vector<uint64_t> weights(1000);
  for (size_t e = 0; e < weights.size(); ++e) weights[e] = e + 1;
  const WeightedOrder order(weights);
  const uint64_t rows = 100, epochs = 4000;
  std::vector<uint64_t> counts(weights.size());
  uint64_t together = 0;  // elements 900 and 950, which are in other blocks
  for (uint64_t number = 0; number < epochs; ++number) {
    const WeightedOrder::Epoch epoch(order, rows, 5, number, true);
    std::set<uint64_t> seen;
    for (uint64_t tick = 0; tick < rows; ++tick) ++counts[epoch.at(tick).element], seen.insert(epoch.at(tick).element);
    together += seen.contains(900) && seen.contains(950) ? 1 : 0;
  }
  for (const uint64_t e : {0U, 99U, 499U, 999U}) {
    const double expected = static_cast<double>(weights[e]) / 500500.0 * static_cast<double>(rows * epochs);
    EXPECT_NEAR(static_cast<double>(counts[e]), expected, 5 * std::sqrt(expected) + 1) << "element " << e;
  }
  const double chance = 901.0 / 500500 * 100 * 951.0 / 500500 * 100;
  EXPECT_NEAR(static_cast<double>(together), chance * epochs, 5 * std::sqrt(chance * epochs));
}

TEST(GroupOrderTest, GroupsHaveTheirSharesAndTheirElementsEqualOnes) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<uint64_t> sizes(1 + random() % 12), weights(sizes.size());
    for (size_t g = 0; g < sizes.size(); ++g) sizes[g] = random() % 40, weights[g] = sizes[g] > 0 ? random() >> 40 : 0;
    sizes[0] = 5, weights[0] += 1;
    const uint64_t rows = 1 + random() % 600, sum = whole_of(weights);
    const GroupOrder order(sizes, weights);
    const GroupOrder::Epoch epoch(order, rows, random(), random() % 9, trial % 2 == 0);
    std::map<uint64_t, uint64_t> counts;
    std::set<std::pair<uint64_t, uint32_t>> draws;
    for (uint64_t tick = 0; tick < rows; ++tick) {
      const Draw draw = epoch.at(tick);
      ++counts[draw.element];
      EXPECT_TRUE(draws.emplace(draw.element, draw.copy).second) << "trial " << trial;
    }
    for (size_t g = 0; g < sizes.size(); ++g) {
      uint64_t in_group = 0, least = UINT64_MAX, most = 0;
      for (uint64_t e = order.begin(g); e < order.begin(g + 1); ++e)
        in_group += counts[e], least = std::min(least, counts[e]), most = std::max(most, counts[e]);
      EXPECT_EQ(in_group, epoch.rows_of(g));
      EXPECT_GE(in_group, share_of(weights[g], rows, sum)) << "trial " << trial;
      EXPECT_LE(in_group, share_of(weights[g], rows, sum) + 1) << "trial " << trial;
      if (sizes[g] == 0) continue;
      EXPECT_LE(most - least, 1U) << "trial " << trial;
    }
  }
}

TEST(GroupOrderTest, WithoutShufflingOtherEpochsHaveOtherElementsToo) {
  const GroupOrder order({100}, {1});
  std::set<uint64_t> seen;
  for (uint64_t number = 0; number < 50; ++number) {
    const GroupOrder::Epoch epoch(order, 10, 1, number, false);
    for (uint64_t tick = 0; tick < 10; ++tick) seen.insert(epoch.at(tick).element);
  }
  EXPECT_GT(seen.size(), 90U);
}

TEST(AliasTableTest, DrawsByWeightAndNeverWhatWeighsNothing) {
  const std::vector<uint64_t> weights{0, 1, 2, 3, 0, 10, uint64_t{1} << 5, 0};
  const AliasTable table(weights);
  std::vector<uint64_t> counts(weights.size());
  const uint64_t draws = 200000;
  for (uint64_t i = 0; i < draws; ++i) ++counts[table.draw(detail::keyed_bits(9, i, 1), detail::keyed_bits(9, i, 2))];
  for (size_t e = 0; e < weights.size(); ++e) {
    const double expected = static_cast<double>(weights[e]) / 48 * draws;
    EXPECT_NEAR(static_cast<double>(counts[e]), expected, 5 * std::sqrt(expected)) << "element " << e;
  }
}

}  // namespace
}  // namespace penstock
