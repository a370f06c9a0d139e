// Places: which of several differences is named, by what it is measured, and that taps change nothing.
#include "train/verify/place.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/temporary.h"
#include "tests/support/testing.h"
#include "train/verify/launch.h"
#include "train/verify/samples.h"
#include "train/verify/strategy_harness.h"

namespace penstock {
namespace {

using testing::ElementsAre, testing::HasSubstr;

TapRecord record_of(TapPoint point, size_t block, const std::string& name, int64_t first, const torch::Tensor& value,
                    int rank = 0) {
  return {0, point, rank, block, name, first, value.size(0), value};
}

torch::Tensor numbers(std::initializer_list<double> list) {
  return torch::tensor(std::vector<double>(list), torch::kFloat64);
}

/// A step of a model of one block `fc`, one number per row and one parameter.
TapRecords step_of_single() {
  return {record_of(TapPoint::kForward, 0, "fc", 8, numbers({1, 2, 3, 4})),
          record_of(TapPoint::kOutputGradient, 0, "fc", 8, numbers({1, 1, 1, 2})),
          record_of(TapPoint::kContribution, 0, "fc.w", 8, numbers({3})),
          record_of(TapPoint::kContribution, 0, "fc.w", 10, numbers({7})),
          record_of(TapPoint::kSum, 0, "fc.w", 0, numbers({10})),
          record_of(TapPoint::kUpdate, 0, "fc.w", 0, numbers({5}))};
}

/// The same over two ranks of two rows.
TapRecords step_of_ranks() {
  TapRecords records;
  for (const int rank : {0, 1}) {
    const int64_t first = 8 + 2 * rank;
    records.push_back(
        record_of(TapPoint::kForward, 0, "fc", first, rank == 0 ? numbers({1, 2}) : numbers({3, 4}), rank));
    records.push_back(
        record_of(TapPoint::kOutputGradient, 0, "fc", first, rank == 0 ? numbers({1, 1}) : numbers({1, 2}), rank));
    records.push_back(record_of(TapPoint::kContribution, 0, "fc.w", first, numbers({rank == 0 ? 3.0 : 7.0}), rank));
    records.back().count = 2;
    records.push_back(record_of(TapPoint::kSum, 0, "fc.w", 0, numbers({10}), rank));
    records.push_back(record_of(TapPoint::kUpdate, 0, "fc.w", 0, numbers({5}), rank));
  }
  return records;
}

TapRecords reference() {
  auto records = step_of_single();
  records[2].count = records[3].count = 2;  // rows
  return records;
}

std::optional<Place> place_of_ranks(const TapRecords& mode, const TapRecords& rounded = {}) {
  return first_place({mode, reference(), rounded, 1e-12, 10});
}

TapRecord& record_at(TapRecords& records, TapPoint point, int rank) {
  for (auto& one : records)
    if (one.point == point && one.rank == rank) return one;
  throw std::logic_error("no such record");
}

TEST(PlaceTest, EqualRowsInOtherPiecesHaveNone) { EXPECT_FALSE(place_of_ranks(step_of_ranks())); }

TEST(PlaceTest, OfSeveralDifferencesTheFirstOfTheStepIsNamed) {
  auto mode = step_of_ranks();
  record_at(mode, TapPoint::kUpdate, 0).value = numbers({6});
  record_at(mode, TapPoint::kSum, 1).value = numbers({11});
  auto place = place_of_ranks(mode);
  ASSERT_TRUE(place);
  EXPECT_EQ(text_of(*place), "step 0, rank 1: gradient of fc.w after the sum differs by 1.0e-01 (bound 1.0e-12)");
  record_at(mode, TapPoint::kContribution, 1).value = numbers({8});
  place = place_of_ranks(mode);
  ASSERT_TRUE(place);
  EXPECT_EQ(text_of(*place),
            "step 0, micro-batch 0, rank 1: gradient of fc.w in backward differs by 1.0e-01 (bound 1.0e-12)");
  record_at(mode, TapPoint::kForward, 1).value = numbers({3, std::nan("")});
  place = place_of_ranks(mode);
  ASSERT_TRUE(place);
  EXPECT_THAT(text_of(*place), HasSubstr("output of fc in forward differs by inf"));
}

TEST(PlaceTest, WhatRoundingAloneDoesIsNoDifference) {
  auto mode = step_of_ranks(), rounded = reference();
  record_at(mode, TapPoint::kSum, 0).value = numbers({10 + 1e-8});
  EXPECT_TRUE(place_of_ranks(mode));
  record_at(rounded, TapPoint::kSum, 0).value = numbers({10 + 2e-9});
  EXPECT_FALSE(place_of_ranks(mode, rounded));
}

TEST(PlaceTest, RowsThatNobodyRanAndBackwardsThatAreLackingAreNamed) {
  auto mode = step_of_ranks();
  std::erase_if(mode, [](const auto& one) { return one.point == TapPoint::kContribution && one.rank == 1; });
  auto place = place_of_ranks(mode);
  ASSERT_TRUE(place);
  EXPECT_EQ(text_of(*place), "step 0, micro-batch 0, rank 1: gradient of fc.w in backward is missing");
  mode.push_back(record_at(mode, TapPoint::kContribution, 0));
  place = place_of_ranks(mode);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->problem, "comes twice");
  EXPECT_EQ(place->rank, 0);
  std::erase_if(mode, [](const auto& one) { return one.point == TapPoint::kForward && one.rank == 1; });
  place = place_of_ranks(mode);
  ASSERT_TRUE(place);
  EXPECT_EQ(text_of(*place), "step 0: output of fc in forward is missing for some rows");
}

TEST(PlaceTest, AFailureIsNamedByWhatItsRankHadBegun) {
  const Place place{.step = 2, .rank = 1, .operation = "backward", .tensor = "gradients of fc", .problem = "fails"};
  EXPECT_EQ(text_of(place), "step 2, rank 1: backward (gradients of fc) fails");
}

TEST(TapsTest, TapsSeeEveryOperationAndChangeNoBit) {
  const Samples samples = digit_samples(8);
  const auto train = [&](Taps* taps) {
    const auto comm = make_self_comm();
    const auto make = [&] {
      at::manual_seed(1);
      auto model = make_model_of("mlp(hidden=16)", ModelShape{});
      if (taps) taps->attach(*model);
      return model;
    };
    StrategyHarness one("single", make, *comm, {}, torch::kFloat64, torch::kCPU, {4, 1, 28, 28}, 0, {}, taps);
    for (int64_t step = 0; step < 2; ++step) {
      const auto batch = one.part(samples, 4, step);
      if (taps) taps->begin_step(step, *one.model, *make_loss(), batch);
      one.strategy->step(batch);
    }
    return one.strategy->state();
  };
  RankProgress progress;
  Taps taps(0, {.first_step = 1, .end_step = 2, .cuts = {{1, 4, 2}}}, progress);
  const auto plain = train(nullptr), tapped = train(&taps);
  ASSERT_EQ(plain.size(), tapped.size());
  for (const auto& [name, tensor] : plain) EXPECT_TRUE(tensor.equal(tapped.at(name))) << name;

  EXPECT_STREQ(progress.operation.data(), "gather");
  ScratchFolder folder("penstock-taps");
  taps.write(folder.path() / "state");
  std::map<TapPoint, std::vector<int64_t>> counts;  // rows, or elements, of the first block's weight and output
  for (const auto& one : read_taps(folder.path() / "state", 1)) {
    EXPECT_EQ(one.step, 1);
    if (one.block == 0 && !one.name.ends_with("bias")) counts[one.point].push_back(one.count);
  }
  for (const auto point : {TapPoint::kStart, TapPoint::kSum, TapPoint::kUpdate, TapPoint::kShare})
    EXPECT_THAT(counts[point], ElementsAre(28 * 28 * 16));
  for (const auto point : {TapPoint::kForward, TapPoint::kOutputGradient}) EXPECT_THAT(counts[point], ElementsAre(4));
  EXPECT_THAT(counts[TapPoint::kContribution], testing::UnorderedElementsAre(2, 4));  // of the cut, and of all rows
}

/// Steps 2 to 4: a whole batch, the short last one of an epoch, and the first of the next.
TapRecords taps_of(const std::string& mode, int ranks, const Samples& samples, const std::set<TapCut>& cuts = {}) {
  const ScratchFolder folder("penstock-taps");
  const Launch launch{.mode = mode, .ranks = ranks, .batch_size = 8, .end_step = 5, .taps = TapPlan{2, 5, cuts}};
  EXPECT_EQ(run_launch(launch, samples, folder.path() / "state").failure, "") << mode;
  return read_taps(folder.path() / "state", ranks);
}

TEST(TapsTest, ModesThatTrainWhatSingleTrainsHaveNoPlace) {
  const Samples samples = digit_samples(3 * 8 + 3);
  const std::vector<std::pair<std::string, int>> modes{
      {"ddp(accumulate=2)", 2}, {"zero(stage=3)", 2}, {"dp(devices=cpu:2)", 1}, {"pipeline(schedule=zb-v)", 2}};
  for (const auto& [mode, ranks] : modes) {
    const auto seen = taps_of(mode, ranks, samples);
    std::set<TapCut> cuts;
    for (const auto& one : seen)
      if (one.point == TapPoint::kContribution) cuts.insert({one.step, one.first, one.count});
    EXPECT_GT(cuts.size(), 3U) << mode;
    const auto place = first_place({seen, taps_of("single", 1, samples, cuts), {}, 1e-12, 1});
    EXPECT_FALSE(place) << mode << ": " << text_of(*place);
  }
}

}  // namespace
}  // namespace penstock
