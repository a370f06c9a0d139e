// Rng: the published test vectors of Philox, and the streams made from it.
#include "core/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace penstock {
namespace {

using Block = std::array<uint32_t, 4>;

// Random123 1.14, tests/kat_vectors, lines "philox4x32 10".
TEST(PhiloxTest, EqualsTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RngTest, StreamIsTheBlocksOfItsCounter) {
  Rng rng(0x1122334455667788, 9, 0xAABBCCDD00112233, 5);
  for (uint32_t block = 0; block < 3; ++block) {
    const Block expected = philox4x32({(5u << 16) + block, 9, 0x00112233, 0xAABBCCDD}, {0x55667788, 0x11223344});
    for (const uint32_t word : expected) EXPECT_EQ(rng.next(), word);
  }
}

TEST(RngTest, StreamsDifferInEveryPartOfTheirKey) {
  std::set<uint32_t> first;
  for (const auto& rng : {Rng(1, 2, 3, 4), Rng(2, 2, 3, 4), Rng(1ull << 40, 2, 3, 4), Rng(1, 3, 3, 4), Rng(1, 2, 4, 4),
                          Rng(1, 2, 3ull << 33, 4), Rng(1, 2, 3, 5)}) {
    first.insert(Rng(rng).next());
  }
  EXPECT_EQ(first.size(), 7u);
}

TEST(RngTest, UniformStaysInItsRangeAndHasItsMean) {
  Rng rng(1, 0, 0, 0);
  double sum = 0, square_sum = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const double value = rng.uniform(-3, 5);
    ASSERT_GE(value, -3);
    ASSERT_LT(value, 5);
    sum += value;
    square_sum += value * value;
  }
  EXPECT_NEAR(sum / kCount, 1, 0.08);  // 5 standard errors
  EXPECT_NEAR(square_sum / kCount - 1, 64 / 12.0, 0.2);
}

TEST(RngTest, BetweenReachesBothEndsEvenly) {
  Rng rng(2, 0, 0, 0);
  std::vector<int> counts(7);
  for (int i = 0; i < 14000; ++i) ++counts.at(static_cast<size_t>(rng.between(-3, 3) + 3));
  for (const int count : counts) EXPECT_NEAR(count, 2000, 210);  // 5 standard deviations
  EXPECT_EQ(rng.between(4, 4), 4);
  // Over the widest range, the result is the word itself, counted from the lowest int.
  Rng words = rng;
  EXPECT_EQ(rng.between(INT32_MIN, INT32_MAX), static_cast<int64_t>(words.next()) + INT32_MIN);
}

TEST(RngTest, ChanceOfZeroNeverAndOfOneAlways) {
  Rng rng(3, 0, 0, 0);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(rng.chance(0));
    EXPECT_TRUE(rng.chance(1));
  }
}

}  // namespace
}  // namespace penstock
