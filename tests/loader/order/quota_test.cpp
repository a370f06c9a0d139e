// QuotaSequence: every prefix has its shares.
#include "loader/order/quota.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace penstock {
namespace {

TEST(QuotaSequenceTest, EveryPrefixIsRightToOne) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<uint64_t> counts(1 + random() % 8);
    for (auto& count : counts) count = random() % (trial % 2 == 0 ? 20 : 700);
    counts[0] += 1;
    const uint64_t sum = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
    const QuotaSequence turns(counts);
    std::vector<uint64_t> taken(counts.size());
    for (uint64_t turn = 0; turn < sum; ++turn) {
      const auto [part, number] = turns.at(turn);
      ASSERT_EQ(number, taken[part]++) << "trial " << trial << ", turn " << turn;
      for (size_t i = 0; i < counts.size(); ++i) {
        const uint64_t exact = (turn + 1) * counts[i];  // times sum
        ASSERT_GE(taken[i], exact / sum) << "trial " << trial << ", turn " << turn << ", part " << i;
        ASSERT_LE(taken[i], (exact + sum - 1) / sum) << "trial " << trial << ", turn " << turn << ", part " << i;
      }
    }
    EXPECT_EQ(taken, counts);
  }
}

TEST(QuotaSequenceTest, ALongSequenceIsPeriodsOfAShortOne) {
  const QuotaSequence turns({3'000'000, 1'000'000});
  EXPECT_EQ(turns.at(3'999'999).number + turns.at(3'999'998).number + 2, 1'000'000 + 3'000'000U);
  EXPECT_EQ(turns.at(4 * 123).part, turns.at(0).part);
}

}  // namespace
}  // namespace penstock
