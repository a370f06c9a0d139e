// What limits ranks that wait for each other.
#include "train/measure/bottleneck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace penstock {
namespace {

StepTimes rank_of(double wait, double compute, double bubble) {
  StepTimes step;
  step[Phase::kWait] = wait;
  step[Phase::kForward] = compute;
  step[Phase::kBubble] = bubble;
  return step;
}

TEST(BubbleTest, IsTheShareOfTheTimeOfAllRanks) {
  EXPECT_DOUBLE_EQ(bubble_share({rank_of(0, 8, 2), rank_of(0, 4, 6)}), 0.4);
  EXPECT_EQ(bubble_share({}), 0);
}

TEST(BubbleTest, WaitingForARankThatWaitsForItsLoaderDoesNotCount) {
  EXPECT_DOUBLE_EQ(bubble_share({rank_of(5, 8, 2), rank_of(0, 4, 11)}), 0.4);
  EXPECT_DOUBLE_EQ(bubble_share({rank_of(5, 8, 2), rank_of(0, 12, 3)}), 2 / 22.0);
}

/// 100 ms, of which backward leaves `exposed` ms of sums visible.
StepTimes summing(double exposed) {
  StepTimes step;
  step[Phase::kForward] = (98 - exposed) / 3;
  step[Phase::kBackward] = 2 * (98 - exposed) / 3;
  step[Phase::kCommunication] = exposed;
  step[Phase::kOptimizer] = 2;
  return step;
}

/// Two ranks that come to their sums at the same time, in one step.
ParallelRun two_ranks(const StepCollectives& sums) {
  const StepTimes step = summing(sums.exposed);
  return {.ranks = {step, step}, .collectives = {{sums}, {sums}}, .batch_size = 64};
}

constexpr StepCollectives kLast{5, 40, 4}, kFirst{30, 65, 29};  // of one sum, that of the rank that comes last

TEST(SumsTest, TheRankThatComesLastTellsWhatIsHidden) {
  const auto sums = timed_sums({.collectives = {{kFirst}, {kLast}}});
  ASSERT_TRUE(sums);
  EXPECT_DOUBLE_EQ(sums->hidden_share, 1 - 5 / 40.0);
  EXPECT_DOUBLE_EQ(sums->all_ms, 40);
  EXPECT_FALSE(timed_sums({.collectives = {{{}, {}}, {{}, {}}}}));
  EXPECT_FALSE(timed_sums({.collectives = {{}, {}}}));
  EXPECT_FALSE(timed_sums({}));
}

TEST(SumsTest, AnotherRankMayComeLastInEachStep) {
  const StepCollectives longer{15, 60, 14};
  const auto sums = timed_sums({.collectives = {{kFirst, kLast, longer}, {kLast, kFirst, longer}}});
  ASSERT_TRUE(sums);
  EXPECT_DOUBLE_EQ(sums->hidden_share, 1 - (5 + 5 + 15) / 140.0);
  EXPECT_DOUBLE_EQ(sums->all_ms, 140 / 3.0);
}

/// Ranks that take three steps alone; what comes after the last sums tells nothing.
TEST(SumsTest, StepsWithoutSumsCount) {
  const std::vector<StepCollectives> steps{{}, {}, {15, 60, 15}, {}, {}, {15, 30, 15}, {}};
  const auto sums = timed_sums({.collectives = {steps, steps}});
  ASSERT_TRUE(sums);
  EXPECT_DOUBLE_EQ(sums->all_ms, 90 / 6.0);
  EXPECT_DOUBLE_EQ(sums->hidden_share, 1 - 30 / 90.0);
}

TEST(SumsTest, TheCopiesOfAPartSumWithEachOtherAlone) {
  const StepCollectives other{2, 20, 2};
  const auto sums = timed_sums({.collectives = {{kFirst}, {other}, {kLast}, {other}}, .parts = 2});
  ASSERT_TRUE(sums);
  EXPECT_DOUBLE_EQ(sums->all_ms, (40 + 20) / 2.0);
  EXPECT_DOUBLE_EQ(sums->hidden_share, 1 - (5 + 2) / 60.0);
}

TEST(SumsTest, ALargerBatchHasTheSameSums) {
  const auto predictions = setting_predictions(two_ranks({38, 38, 38}), 1000);
  ASSERT_EQ(predictions.size(), 3U);
  EXPECT_EQ(predictions[1].setting, "batch-size");
  EXPECT_EQ(predictions[1].value, 256);
  // 4 x 60 ms of work, 2 ms of update and 38 ms of sums
  EXPECT_DOUBLE_EQ(predictions[1].images_per_second, 1000 * 400 / 280.0);
  EXPECT_DOUBLE_EQ(predictions[1].low, predictions[1].images_per_second);
  EXPECT_DOUBLE_EQ(predictions[1].high, predictions[1].images_per_second);
}

TEST(SumsTest, ALargerBatchHidesMoreButNotTheLastSum) {
  const auto twice = setting_predictions(two_ranks({38, 58, 10}), 1000)[0];  // hides 40 of 58 ms
  EXPECT_DOUBLE_EQ(twice.images_per_second, 1000 * 200 / (122 + 18.0));
  EXPECT_DOUBLE_EQ(twice.low, 1000 * 200 / (122 + 38.0));
  EXPECT_DOUBLE_EQ(twice.high, twice.images_per_second);
  const auto more = setting_predictions(two_ranks({38, 58, 10}), 1000)[1];
  EXPECT_DOUBLE_EQ(more.images_per_second, 1000 * 400 / (242 + 10.0));
  EXPECT_DOUBLE_EQ(more.high, 1000 * 400 / 242.0);
}

/// A rank of a step of 28 ms, with 2 ms of loader and `compute` ms of work; it waits for the sums otherwise.
StepTimes meeting(double compute, double wait = 2) {
  StepTimes step = rank_of(wait, compute, 0);
  step[Phase::kCommunication] = 28 - wait - compute;
  return step;
}

TEST(SlowRankTest, IsNamedWithWhatTakesItsTime) {
  const auto loader = slow_rank({.ranks = {meeting(18), meeting(17), meeting(16), meeting(18, 10)}});
  ASSERT_TRUE(loader);
  EXPECT_EQ(loader->rank, 3);
  EXPECT_DOUBLE_EQ(loader->factor, 28 / 20.0);
  EXPECT_EQ(to_text(*loader), "rank 3 makes every step 1.4x longer (its loader; 8.0 ms per step)");
  const auto compute = slow_rank({.ranks = {meeting(26), meeting(16)}});
  ASSERT_TRUE(compute);
  EXPECT_EQ(to_text(*compute), "rank 0 makes every step 1.6x longer (its forward and backward; 10.0 ms per step)");
}

TEST(SlowRankTest, NobodyIsNamedWhereNoSingleRankHoldsTheOthersUp) {
  EXPECT_FALSE(slow_rank({.ranks = {meeting(25), meeting(25), meeting(10)}}));
  EXPECT_FALSE(slow_rank({.ranks = {meeting(20), meeting(18)}}));  // 28 / 26 ms
  EXPECT_FALSE(slow_rank({.ranks = {meeting(26)}}));
  EXPECT_FALSE(slow_rank({.ranks = {meeting(26), meeting(10)}, .parts = 2}));
  EXPECT_FALSE(slow_rank({}));
}

ParallelRun pipeline(double first, double second, double step_ms, int micro_batches = 4) {
  const auto rank = [&](double work) {
    StepTimes step = rank_of(0, work / 3, step_ms - work - 2);
    step[Phase::kBackward] = work * 2 / 3;
    step[Phase::kOptimizer] = 2;
    return step;
  };
  return {.ranks = {rank(first), rank(second)},
          .parts = 2,
          .micro_batches = micro_batches,
          .predicted_bubble = 1.0 / (micro_batches + 1),
          .batch_size = 48};
}

TEST(PipelinePredictionTest, MoreMicroBatchesFillTheBubble) {
  const auto predictions = setting_predictions(pipeline(40, 40, 52), 1000);
  ASSERT_EQ(predictions.size(), 4U);  // 32 do not divide 48 rows
  const std::vector<std::pair<int, double>> expected{{1, 82}, {2, 62}, {8, 47}, {16, 44.5}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(predictions[i].setting, "micro-batches");
    EXPECT_EQ(predictions[i].value, expected[i].first);
    EXPECT_NEAR(predictions[i].images_per_second, 1000 * 52 / expected[i].second, 1e-6);
  }
}

TEST(PipelinePredictionTest, OnlyNumbersThatTheScheduleTakesAreProposed) {
  auto run = pipeline(40, 40, 52);
  run.micro_batch_step = 4;
  const auto predictions = setting_predictions(run, 1000);
  ASSERT_EQ(predictions.size(), 2U);
  EXPECT_EQ(predictions[0].value, 8);
  EXPECT_EQ(predictions[1].value, 16);
}

TEST(PipelinePredictionTest, NoneIsProposedWhereAnotherNumberIsRefused) {
  auto run = pipeline(40, 40, 52);
  run.micro_batch_step = 0;
  EXPECT_TRUE(setting_predictions(run, 1000).empty());
}

TEST(PipelinePredictionTest, MessagesGrowWithTheirNumber) {
  // 50 ms of work, 2 ms of update; the other 48 ms are the messages of 5 micro-batch times.
  const auto predictions = setting_predictions(pipeline(40, 40, 100), 1000);
  EXPECT_NEAR(predictions[1].images_per_second, 1000 * 100 / (60 + 2 + 48 * 3 / 5.0), 1e-6);
  EXPECT_NEAR(predictions[2].images_per_second, 1000 * 100 / (45 + 2 + 48 * 9 / 5.0), 1e-6);
  EXPECT_NEAR(predictions[2].high, 1000 * 100 / 95.0, 1e-6);
  EXPECT_NEAR(predictions[2].low, 1000 * 100 / (45 + 50 * 9 / 5.0), 1e-6);
}

TEST(PipelinePredictionTest, AScheduleWithASmallerBubbleFillsFaster) {
  auto run = pipeline(40, 40, 47);
  run.predicted_bubble = 1.0 / 9;  // interleaved by 2: half the bubble
  EXPECT_NEAR(setting_predictions(run, 1000)[2].images_per_second, 1000 * 47 / (42.5 + 2), 1e-6);
}

ParallelRun cut_by_hand(ParallelRun run) {
  run.has_cut = true;
  return run;
}

RunMeasurement observed(const ParallelRun& run, double rate = 1000) {
  return {{.times = {.load_ms = 5, .update_ms = run.ranks[0].total(), .update_cpu_ms = 20, .cores = 4, .ranks = 2},
           .workers = 1,
           .step_ms = run.ranks[0].total(),
           .images_per_second = rate},
          run};
}

struct SentenceCase {
  const char* name;
  ParallelRun run;
  Resource bound;
  const char* sentence;
};
class ParallelSentenceTest : public testing::TestWithParam<SentenceCase> {};

TEST_P(ParallelSentenceTest, SaysWhatLimitsAndWhatWouldHelp) {
  const RunBottleneck bottleneck = find_run_bottleneck(observed(GetParam().run));
  EXPECT_EQ(bottleneck.sentence, GetParam().sentence);
  EXPECT_EQ(name_of(bottleneck.bound), std::string(name_of(GetParam().bound)));
  EXPECT_FALSE(bottleneck.setting_predictions.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Runs, ParallelSentenceTest,
    testing::Values(
        SentenceCase{
            "sums", two_ranks({38, 38, 38}), Resource::kCommunication,
            "communication-bound: for 38 % of the time backward did not hide the sums over ranks; -b 256 would give "
            "about 1.4x (1,429 images/s) or more"},
        SentenceCase{
            "sumsOfALargeModel", two_ranks({70, 80, 20}), Resource::kCommunication,
            "communication-bound: for 70 % of the time backward did not hide the sums over ranks; -b 256 would give "
            "about 2.6x (2,597 images/s) or more, 2.2x to 2.6x depending on how much of the sums it hides, 1 rank "
            "would give 1.7x or more"},
        SentenceCase{"hiddenSums", two_ranks({10, 80, 10}), Resource::kCompute,
                     "compute-bound: the loader waited 0 % of the time; more workers would give nothing"},
        SentenceCase{
            "bubble", pipeline(40, 40, 52), Resource::kBubble,
            "bubble-bound: ranks waited 19 % of the time for their neighbours; micro-batches=16 would give about 1.17x "
            "(1,169 images/s)"},
        SentenceCase{
            "part", pipeline(20, 60, 67), Resource::kPart,
            "stage 1 is the slowest: it takes 75 % of the time of all stages, and ranks waited 37 % of the time for "
            "their neighbours; stages that take equally long (balance=time) would give up to 1.3x"},
        SentenceCase{
            "partOfACut", cut_by_hand(pipeline(20, 60, 67)), Resource::kPart,
            "stage 1 is the slowest: it takes 75 % of the time of all stages, and ranks waited 37 % of the time for "
            "their neighbours; stages that take equally long (balance=time, no cut) would give up to 1.3x"},
        SentenceCase{
            "messages", pipeline(40, 40, 100), Resource::kCommunication,
            "communication-bound: messages took 48 % of the time; ranks waited 58 % of the time for their neighbours; "
            "micro-batches=2 would give about 1.10x (1,101 images/s)"},
        SentenceCase{"fullPipeline", pipeline(40, 40, 43, 40), Resource::kCompute,
                     "compute-bound: the loader waited 0 % of the time; more workers would give nothing"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ParallelSentenceTest, ARunWithoutALoaderNamesNoWorkers) {
  RunMeasurement run{{.times = {.load_ms = 3, .update_ms = 10, .update_cpu_ms = 10, .cores = 4},
                      .step_ms = 10,
                      .wait_ms = 1,
                      .images_per_second = 1000}};
  run.has_loader = false;
  EXPECT_EQ(find_run_bottleneck(run).sentence,
            "compute-bound: waiting for plans took 10 % of the time; no loader made batches, so workers would change "
            "nothing");
  run.wait_ms = 8;
  EXPECT_EQ(find_run_bottleneck(run).sentence,
            "load-bound: the trainer waited 80 % of the time for plans; no loader made batches, so workers would "
            "change nothing");
  EXPECT_EQ(find_run_bottleneck(run).bound, Resource::kLoad);
}

TEST(ParallelSentenceTest, ARunThatWaitsForItsLoaderIsLoadBound) {
  auto run = observed(pipeline(20, 60, 67));
  run.times.load_ms = 200;
  EXPECT_THAT(find_run_bottleneck(run).sentence, testing::StartsWith("load-bound: "));
}

}  // namespace
}  // namespace penstock
