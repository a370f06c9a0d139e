// Machine costs: between measured numbers of rows, and through a file.
#include "train/parallel/plan/machine_costs.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace penstock::detail {
namespace {

PassCosts pass_of(int64_t rows, double forward, bool joins = false) {
  PassCosts pass;
  pass.rows = rows;
  pass.joins = joins;
  pass.blocks.resize(1);
  pass.blocks.front().forward = {forward, 2 * forward};
  return pass;
}

MachineCosts costs_of(std::vector<PassCosts> passes) {
  MachineCosts costs;
  costs.passes = std::move(passes);
  costs.activation_bytes = costs.output_bytes = {1};
  return costs;
}

double forward_of(const MachineCosts& costs, int64_t rows, bool joins = false) {
  const auto pass = costs.pass(rows, {.joins = joins});
  EXPECT_EQ(pass.blocks[0].forward.beside, 2 * pass.blocks[0].forward.alone);
  return pass.blocks[0].forward.alone;
}

TEST(MachineCostsTest, TimesAreLinearInRowsBetweenThoseThatWereMeasured) {
  const auto costs = costs_of({pass_of(16, 17), pass_of(4, 5)});
  EXPECT_DOUBLE_EQ(forward_of(costs, 4), 5);
  EXPECT_DOUBLE_EQ(forward_of(costs, 10), 11);
  EXPECT_DOUBLE_EQ(forward_of(costs, 32), 33);
  EXPECT_DOUBLE_EQ(forward_of(costs, 1), 2);
  EXPECT_DOUBLE_EQ(forward_of(costs_of({pass_of(16, 8)}), 4), 2);  // one alone: in proportion
}

TEST(MachineCostsTest, MicroBatchesThatJoinGradientsHaveTheirOwnTimes) {
  const auto costs = costs_of({pass_of(4, 5), pass_of(4, 3, /*joins=*/true)});
  EXPECT_DOUBLE_EQ(forward_of(costs, 4), 5);
  EXPECT_DOUBLE_EQ(forward_of(costs, 4, /*joins=*/true), 3);
  EXPECT_DOUBLE_EQ(forward_of(costs_of({pass_of(4, 5)}), 4, /*joins=*/true), 5);  // where nobody measured them
}

TEST(MachineCostsTest, WhatWasNotMeasuredIsRefused) {
  const auto costs = costs_of({pass_of(4, 5)});
  EXPECT_THROW(costs.pass(4, {.threads = 2}), Error);
  EXPECT_THROW(costs.pass(4, {.splits = true}), Error);
  EXPECT_THROW(costs.pass(4, {.syncs = true}), Error);
  EXPECT_THROW(costs.compressed({.name = "fp16"}), Error);
}

TEST(MachineCostsTest, AFileGivesWhatWasWritten) {
  auto costs = costs_of({pass_of(4, 5), pass_of(16, 8, true)});
  costs.setting = "a \"model\"";
  costs.collectives.front().sum = {.seconds = 1, .seconds_per_byte = 2, .cores = 3};
  costs.collectives.front().half_sum = {.seconds = 4};
  costs.collectives.front().ring_gather = {.seconds = 5};
  costs.compressions = {
      {.compression = {.name = "powersgd", .rank = 2}, .start = Work::of(1), .turn = {}, .finish = {}}};
  costs.passes.back().syncs = true;
  const auto text = to_json(costs);
  const auto again = costs_from_json(text, "file");
  EXPECT_EQ(to_json(again), text);
  EXPECT_EQ(again.collectives.front().half_sum.seconds, 4);
  EXPECT_EQ(again.collectives.front().ring_gather.seconds, 5);
  EXPECT_EQ(again.compressed({.name = "powersgd", .rank = 2}).start.alone, 1);
  EXPECT_TRUE(again.passes.back().syncs);
}

TEST(MachineCostsTest, AFileThatIsNoneIsRefusedInOneLine) {
  const auto said = [](const std::string& text) {
    try {
      costs_from_json(text, "m.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(said("{"), testing::StartsWith("m.json: "));
  auto dear = costs_of({pass_of(4, 5)});
  dear.load = Work::of(1e308);
  EXPECT_THAT(said(to_json(dear)),
              testing::StartsWith("m.json: alone is 1e+308; expected at most 10000, and 0 or more"));
  EXPECT_THAT(said(std::string(20, '[')), testing::StartsWith("m.json: JSON nested deeper than 12"));
  EXPECT_THAT(said(R"({"format": 9})"), testing::StartsWith("m.json: is of format 9; expected 4"));
  auto costs = costs_of({pass_of(4, 5)});
  costs.collectives.clear();
  EXPECT_THAT(said(to_json(costs)), testing::StartsWith("m.json: has no collectives of two ranks or more; expected"));
  costs = costs_of({pass_of(4, 5)});
  costs.passes.front().blocks.clear();
  EXPECT_THAT(said(to_json(costs)), testing::StartsWith("m.json: a pass of 4 rows has 0 blocks; expected"));
}

TEST(MachineCostsTest, RingsWaitForEachRankAndSharedMemoryForAllAtOnce) {
  MachineCosts costs;
  costs.shares_memory = true;
  const LineCost cost{.seconds = 1, .seconds_per_byte = 2};
  costs.collectives = {{2, cost, cost, cost, cost, cost, /*vote=*/{.seconds = 5}}};
  using enum MachineCosts::Collective;
  EXPECT_DOUBLE_EQ(costs.collective_seconds(kSum, 10, 4), 1 + 20);
  EXPECT_DOUBLE_EQ(costs.collective_seconds(kGather, 10, 4), 1 + 20 * 1.5);
  EXPECT_DOUBLE_EQ(costs.collective_seconds(kHalfSum, 10, 4), 1 + 20);
  for (const auto kind : {kScatter, kRingSum, kRingGather})
    EXPECT_DOUBLE_EQ(costs.collective_seconds(kind, 10, 4), 3 + 20 * 1.5);
  EXPECT_DOUBLE_EQ(costs.collective_seconds(kVote, 0, 4), 15);
  costs.shares_memory = false;
  EXPECT_DOUBLE_EQ(costs.collective_seconds(kSum, 10, 4), 3 + 20 * 1.5);
  EXPECT_DOUBLE_EQ(costs.collective_seconds(kSum, 10, 2), 1 + 20);
}

TEST(MachineCostsTest, CollectivesCountAsMeasuredWithTheNearestNumberOfRanks) {
  MachineCosts costs;
  costs.shares_memory = true;
  costs.collectives.assign(2, {});
  costs.collectives[0].sum.seconds = 1;
  costs.collectives[1].ranks = 4;
  costs.collectives[1].sum.seconds = 7;
  using enum MachineCosts::Collective;
  EXPECT_DOUBLE_EQ(costs.collective_seconds(kSum, 0, 2), 1);
  EXPECT_DOUBLE_EQ(costs.collective_seconds(kSum, 0, 4), 7);
  EXPECT_DOUBLE_EQ(costs.collective_seconds(kSum, 0, 8), 7);
}

}  // namespace
}  // namespace penstock::detail
