// Order audit: its figures for orders whose figures are known, and those of ShardOrder that docs/ORDER.md states.
#include "loader/order/order_audit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace penstock {
namespace {

/// 40,000 rows in 400 shards and 10 classes, batches of 256.
AuditedOrder audited(std::function<uint64_t(uint64_t)> at, bool is_dealt) {
  AuditedOrder order;
  order.at = std::move(at);
  for (uint64_t begin = 0; begin <= 40'000; begin += 100) order.shard_begins.push_back(begin);
  order.class_counts.assign(10, 4'000);
  order.label_of = [is_dealt](uint64_t element) {
    return static_cast<int64_t>(is_dealt ? element % 10 : element / 4'000);
  };
  order.batch_size = 256;
  return order;
}

struct Windowed {
  Windowed(int window, int lanes, uint64_t epoch = 0)
      : order(std::vector<uint64_t>(400, 100), window, lanes, 256, 17), places(order, epoch) {}
  AuditedOrder audit(bool is_dealt) const {
    return audited([this](uint64_t position) { return places.at(position); }, is_dealt);
  }
  ReadFigures reads(int nodes) const {
    std::vector<std::vector<ShardUse>> uses;
    const int lanes = order.lanes() / nodes;
    for (int node = 0; node < nodes; ++node) uses.push_back(places.uses(node * lanes, (node + 1) * lanes));
    return read_figures(uses, std::vector<uint64_t>(400, 1000), 256);
  }
  ShardOrder order;
  ShardOrder::Epoch places;
};

TEST(OrderAuditTest, OfTheFullShuffleItIsWhatIsExpected) {
  const auto shuffled = Order::shuffled(40'000, 5, 0);
  for (const bool is_dealt : {false, true}) {
    const auto order = audited([&](uint64_t position) { return shuffled.at(position); }, is_dealt);
    for (const auto& [begin, end] : {std::pair<uint64_t, uint64_t>{0, 8}, {74, 82}, {0, 156}}) {
      const auto found = mix_figures(order, begin, end), expected = expected_figures(order, begin, end);
      EXPECT_NEAR(found.shards, expected.shards, 6);
      EXPECT_NEAR(found.same_shard_pairs, expected.same_shard_pairs, 8);
      EXPECT_NEAR(found.class_chi2, expected.class_chi2, 0.5);
      EXPECT_NEAR(found.moved_p50, expected.moved_p50, 0.03);
      EXPECT_NEAR(found.moved_p90, expected.moved_p90, 0.03);
      EXPECT_NEAR(found.moved_p99, expected.moved_p99, 0.03);
      EXPECT_NEAR(found.correlation, 0, 0.1);
    }
  }
  const auto expected = expected_figures(audited([](uint64_t p) { return p; }, true), 0, 156);
  EXPECT_NEAR(expected.moved_p50, 1 - std::sqrt(0.5), 0.01);  // |x - u| of two uniform numbers
  EXPECT_NEAR(expected.moved_p90, 1 - std::sqrt(0.1), 0.01);
  EXPECT_NEAR(expected.shards, 400 * (1 - std::pow(0.9975, 256)), 1);
}

TEST(OrderAuditTest, OfTheStoredOrderItShowsThatNothingIsMixed) {
  const auto order = audited([](uint64_t position) { return position; }, false);
  const auto found = mix_figures(order, 0, 100);
  EXPECT_LE(found.shards, 4);
  EXPECT_NEAR(found.correlation, 1, 1e-12);
  EXPECT_EQ(found.moved_p99, 0);
  EXPECT_GT(found.class_chi2, 200);  // a batch of one class: 9 * 256 / 9
}

/// The mean chi^2 of a batch: over the whole epoch, in its last twentieth, and dealt. One last twentieth shows a few
/// shards alone, whose classes may be any, so that many epochs are needed for a mean.
struct MeanChi2 {
  double whole = 0, last = 0, dealt = 0;
};
MeanChi2 mean_chi2(int window, int lanes) {
  constexpr int kWholeEpochs = 10, kLastEpochs = 300;
  MeanChi2 mean;
  for (uint64_t epoch = 0; epoch < kLastEpochs; ++epoch) {
    const Windowed one(window, lanes, epoch);
    mean.last += mix_figures(one.audit(false), 148, 156).class_chi2 / kLastEpochs;
    if (epoch >= kWholeEpochs) continue;
    mean.whole += mix_figures(one.audit(false), 0, 156).class_chi2 / kWholeEpochs;
    mean.dealt += mix_figures(one.audit(true), 0, 156).class_chi2 / kWholeEpochs;
  }
  return mean;
}

/// A batch of B rows is of n of S shards of one class each, in equal parts: the class shares of such a draw without
/// replacement have this chi^2 per degree of freedom.
double chi2_of_shards(double in_use) { return 256 / in_use * (400 - in_use) / 399; }

TEST(OrderAuditTest, TheWindowedOrderMixesAsItsDocumentSays) {
  const auto one_lane = mean_chi2(32, 1), eight_lanes = mean_chi2(64, 8);
  EXPECT_NEAR(one_lane.whole, chi2_of_shards(31), 0.7);  // 7.6
  EXPECT_NEAR(one_lane.last, chi2_of_shards(31), 0.7);
  EXPECT_NEAR(one_lane.dealt, 0.94, 0.06);
  EXPECT_NEAR(eight_lanes.whole, chi2_of_shards(56), 0.4);  // 3.9
  EXPECT_NEAR(eight_lanes.last, chi2_of_shards(56), 0.4);
  EXPECT_NEAR(eight_lanes.dealt, 0.96, 0.06);
}

TEST(OrderAuditTest, TheWindowedOrderReadsAsItsDocumentSays) {
  const Windowed one_lane(32, 1), eight_lanes(64, 8);
  EXPECT_LE(one_lane.reads(1).burst, 4U);
  EXPECT_EQ(one_lane.reads(1).held_shards, 31U);
  EXPECT_EQ(one_lane.reads(1).first, 31U);
  EXPECT_DOUBLE_EQ(one_lane.reads(1).kept, 1);
  for (const int nodes : {1, 2, 4, 8}) {
    const auto reads = eight_lanes.reads(nodes);
    EXPECT_LE(reads.burst, 8U) << nodes << " nodes";
    EXPECT_EQ(reads.held_shards, 56U / static_cast<uint64_t>(nodes));
    EXPECT_EQ(reads.held_bytes, 56'000U / static_cast<uint64_t>(nodes));
    EXPECT_LE(reads.kept, 1.02);
    EXPECT_LE(reads.dropped, 1 + 55.0 / 400);  // the shards in which a slot begins
    EXPECT_GE(reads.dropped, 1 + 40.0 / 400);
  }
}

TEST(OrderAuditTest, ReadsOfTheFullShuffleFollowFromWhatIsHeld) {
  const auto order = audited([](uint64_t position) { return position; }, false);
  const double shards = 400 * (1 - std::pow(0.9975, 256));  // in a batch
  EXPECT_NEAR(full_shuffle_reads(order, 0, 1), shards * 156 / 400, 0.5);
  EXPECT_NEAR(full_shuffle_reads(order, 40, 1), 0.9 * shards * 156 / 400, 0.5);
  EXPECT_NEAR(full_shuffle_reads(order, 0, 8), 8 * 400 * (1 - std::pow(0.9975, 32)) * 156 / 400, 0.5);
  EXPECT_EQ(full_shuffle_reads(order, 400, 1), 0);
}

}  // namespace
}  // namespace penstock
