// Dropout and stochastic depth: how much they drop, and that a row's masks are its own.
#include "train/nn/drop.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/testing.h"
#include "train/nn/row_draws.h"

namespace penstock {
namespace {

torch::Tensor factors(const BatchRows& rows, const torch::IntArrayRef& sizes, double rate, uint32_t layer,
                      bool per_element) {
  const RowScope scope(rows);
  return detail::keep_factors(torch::empty(sizes), rate, layer, per_element);
}

/// A share of n coins is off by at most 5 sqrt(p (1 - p) / n), but for one in 1.7 million.
TEST(DropTest, TheShareThatIsDroppedIsTheRateAndTheRestKeepsTheMean) {
  for (const bool per_element : {false, true}) {
    for (const double rate : {0.1, 0.5, 0.9}) {
      const auto kept = factors({.seed = 3, .epoch = 1}, {20'000, 10}, rate, 2, per_element);
      EXPECT_EQ(kept.sizes(), per_element ? torch::IntArrayRef({20'000, 10}) : torch::IntArrayRef({20'000, 1}));
      const auto is_kept = kept.gt(0);
      EXPECT_TRUE(kept.masked_select(is_kept).sub(1 / (1 - rate)).abs().max().item<double>() < 1e-5);
      const double bound = 5 * std::sqrt(rate * (1 - rate) / static_cast<double>(kept.numel()));
      EXPECT_NEAR(is_kept.to(torch::kFloat64).mean().item<double>(), 1 - rate, bound) << rate;
    }
  }
}

/// 64 rows, each with its neighbour, itself in the next layer, epoch and seed: half of the elements agree.
TEST(DropTest, RowsLayersEpochsSeedsAndElementsAreIndependent) {
  constexpr int64_t kRows = 64, kElements = 4096;
  const auto mask = [&](const BatchRows& rows, uint32_t layer) {
    return factors(rows, {kRows, kElements}, 0.5, layer, true).gt(0);
  };
  const BatchRows rows{.seed = 1, .epoch = 2, .first_position = 100};
  const auto one = mask(rows, 4);
  BatchRows next_row = rows, next_epoch = rows, next_seed = rows;
  ++next_row.first_position, ++next_epoch.epoch, ++next_seed.seed;
  for (const auto& other : {mask(next_row, 4), mask(next_epoch, 4), mask(next_seed, 4), mask(rows, 5), one.roll(1, 1),
                            one.roll(64, 1), one.roll(1, 0)}) {
    const auto agree = one.eq(other).to(torch::kFloat64);
    EXPECT_NEAR(agree.mean().item<double>(), 0.5, 5 * 0.5 / std::sqrt(kRows * kElements));
    EXPECT_LT(agree.mean(1).sub(0.5).abs().max().item<double>(), 6 * 0.5 / std::sqrt(kElements));
  }
}

TEST(DropTest, ARowHasItsMaskWhereverTheBatchIsCut) {
  for (const bool per_element : {false, true}) {
    const auto all = factors({.seed = 1, .first_position = 7}, {8, 3, 5}, 0.4, 1, per_element);
    const auto rest = factors({.seed = 1, .first_position = 10}, {5, 3, 5}, 0.4, 1, per_element);
    EXPECT_TRUE(all.narrow(0, 3, 5).equal(rest));
    EXPECT_FALSE(all.narrow(0, 0, 5).equal(rest));
  }
}

TEST(DropTest, LayersMultiplyWhereRowsAreTrained) {
  DropPath path(0.5, 3);
  const auto x = torch::randn({6, 2});
  {
    const RowScope scope(BatchRows{.seed = 9});
    EXPECT_TRUE(path(x).equal(x * detail::keep_factors(x, 0.5, 3, false)));
    EXPECT_FALSE(path(x).equal(x));
    EXPECT_TRUE(Dropout(0, 3)->forward(x).is_same(x));
  }
  EXPECT_NE(message_of(ErrorKind::kBug, [&] { path(x); }).find("expected a RowScope"), std::string::npos);
  path->eval();
  EXPECT_TRUE(path(x).is_same(x));
  const RowScope scope(BatchRows{.seed = 9});
  EXPECT_FALSE(path(x).equal(x));
  const RowScope inner(std::nullopt);
  EXPECT_TRUE(path(x).is_same(x));
}

TEST(DropTest, RatesOfBranchesRiseFromZeroToTheLast) {
  EXPECT_EQ(detail::drop_path_rate(0.2, 0, 5), 0);
  EXPECT_EQ(detail::drop_path_rate(0.2, 4, 5), 0.2);
  EXPECT_EQ(detail::drop_path_rate(0.2, 0, 1), 0);
}

}  // namespace
}  // namespace penstock
