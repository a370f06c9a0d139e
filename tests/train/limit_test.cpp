// limit: the model's numbers, and the sentence for every kind of run.
#include "train/limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(PredictionTest, WithoutWorkersLoadAndUpdateTakeTurns) {
  const ServiceTimes times{.load_ms = 6, .load_cpu_ms = 6, .update_ms = 2, .update_cpu_ms = 0, .cores = 8};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 8);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 6);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 3);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 3), 2);  // the device
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 8), 2);
}

TEST(PredictionTest, CoresAreShared) {
  // A trainer on the CPU: 4 ms of its own and 6 ms of loading a step, on two cores.
  const ServiceTimes times{.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 10);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 6);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 5.5);   // three threads want two cores for 6 * 3 / 4 of them
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 4), 6.25);  // more workers hold the trainer up more
  // Two ranks on the same cores do twice the work.
  EXPECT_DOUBLE_EQ(predicted_step_ms(
                       {.load_ms = 3, .load_cpu_ms = 3, .update_ms = 4, .update_cpu_ms = 4, .cores = 2, .ranks = 2}, 1),
                   7);
}

TEST(PredictionTest, AnAsynchronousDeviceWorksWhileTheHostLoads) {
  const ServiceTimes times{
      .load_ms = 6, .load_cpu_ms = 6, .update_ms = 2, .update_cpu_ms = 1, .cores = 8, .is_async = true};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 7);  // load, then launch
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 3);
}

TEST(PredictionTest, WaitingForADiskTakesNoCore) {
  const ServiceTimes times{.load_ms = 8, .load_cpu_ms = 1, .update_ms = 1, .update_cpu_ms = 1, .cores = 2};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 4), 2);
}

struct Case {
  const char* name;
  Observed run;
  Bound bound;
  int best_workers;
  const char* sentence;
};

class SentenceTest : public testing::TestWithParam<Case> {};

TEST_P(SentenceTest, SaysWhatLimitsAndWhatWouldHelp) {
  const Limit limit = find_limit(GetParam().run);
  EXPECT_EQ(limit.bound, GetParam().bound);
  EXPECT_EQ(limit.best_workers, GetParam().best_workers);
  EXPECT_EQ(limit.sentence, GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, SentenceTest,
    testing::Values(
        Case{"load",
             {.times = {.load_ms = 8, .load_cpu_ms = 8, .update_ms = 2, .update_cpu_ms = 0.2, .cores = 8},
              .workers = 1,
              .step_ms = 8,
              .wait_ms = 6,
              .images_per_second = 8000},
             Bound::kLoad,
             4,
             "load-bound: the trainer waited 75 % of the time; 3 more workers would give about 4.0x (32,000 images/s), "
             "the limit is 4.0x (compute)"},
        Case{"load, nobody to load",
             {.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 2, .update_cpu_ms = 2, .cores = 2},
              .workers = 0,
              .step_ms = 8,
              .wait_ms = 6,
              .images_per_second = 8000},
             Bound::kLoad,
             2,
             "load-bound: the trainer waited 75 % of the time; 2 more workers would give about 2.0x (16,000 images/s), "
             "the limit is 4.0x (compute)"},
        Case{"compute",
             {.times = {.load_ms = 1, .load_cpu_ms = 1, .update_ms = 8, .update_cpu_ms = 8, .cores = 4},
              .workers = 4,
              .step_ms = 8,
              .wait_ms = 0,
              .loader_idle_share = 0.97,
              .images_per_second = 8000},
             Bound::kCompute,
             1,
             "compute-bound: the loader waited 97 % of the time; 1 worker would do"},
        Case{"compute, nothing to gain",
             {.times = {.load_ms = 1, .load_cpu_ms = 1, .update_ms = 8, .update_cpu_ms = 8, .cores = 4},
              .workers = 1,
              .step_ms = 8,
              .wait_ms = 0,
              .loader_idle_share = 0.88,
              .images_per_second = 8000,
              .is_emulated = true},
             Bound::kCompute,
             1,
             "compute-bound: the loader waited 88 % of the time; more workers would give nothing [emulated]"},
        Case{"communication",
             {.times = {.load_ms = 1,
                        .load_cpu_ms = 1,
                        .update_ms = 8,
                        .update_cpu_ms = 2,
                        .communication_ms = 6,
                        .cores = 4,
                        .ranks = 2},
              .workers = 1,
              .step_ms = 8,
              .wait_ms = 0,
              .loader_idle_share = 0.88,
              .images_per_second = 8000},
             Bound::kCommunication,
             1,
             "communication-bound: the trainer waited 75 % of the time for other ranks; more workers would give "
             "nothing"},
        Case{"cores",
             {.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2},
              .workers = 2,
              .step_ms = 5,
              .wait_ms = 1,
              .images_per_second = 8000},
             Bound::kCores,
             2,
             "core-bound: loader and trainer kept 2 cores 100 % busy; more workers would give nothing, the limit is "
             "1.4x (compute)"}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::erase_if(name, [](char letter) { return !std::isalnum(static_cast<unsigned char>(letter)); });
      return name;
    });

/// A trainer of 10 ms beside a loader of 10 ms a batch, each with cores of its own.
Observed balanced(int workers, double load_ms) {
  return {.times = {.load_ms = load_ms, .load_cpu_ms = load_ms, .update_ms = 10, .update_cpu_ms = 10, .cores = 8},
          .workers = workers,
          .step_ms = std::max(10.0, load_ms / workers),
          .images_per_second = 1000};
}

TEST(LimitTest, NoiseOfFivePercentDoesNotTurnTheAdvice) {
  // Loads from 2 % below to 4 % above the update: one worker or two are as good, and no sentence says otherwise.
  for (const double load : {9.8, 9.9, 10.1, 10.4}) {
    for (const int workers : {1, 2}) {
      const Limit limit = find_limit(balanced(workers, load));
      EXPECT_THAT(limit.sentence, testing::HasSubstr("; more workers would give nothing")) << workers << " " << load;
      EXPECT_EQ(limit.best_workers, workers);
    }
  }
  EXPECT_THAT(find_limit(balanced(1, 10.7)).sentence, testing::HasSubstr("1 more worker would give about 1.07x"));
  EXPECT_THAT(find_limit(balanced(2, 9)).sentence, testing::HasSubstr("; 1 worker would do"));
}

TEST(LimitTest, FewerWorkersThatGiveMoreAreAdvised) {
  const Limit limit = find_limit(
      {.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2}, .workers = 4});
  EXPECT_EQ(limit.best_workers, 2);  // 5.5 ms a step, 6.25 with 4
}

TEST(LimitTest, CoresThatOthersUseAreNotCalledBusy) {
  Observed run{.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2},
               .workers = 2,
               .step_ms = 5 / 0.7};
  EXPECT_THAT(find_limit(run).sentence,
              testing::StartsWith("core-bound: loader and trainer want all of 2 cores and got "
                                  "70 %; other programs had the rest; "));
  run.step_ms = 5 / 0.92;
  EXPECT_THAT(find_limit(run).sentence, testing::StartsWith("core-bound: loader and trainer kept 2 cores 92 % busy; "));
}

TEST(LimitTest, OfFewStepsTheSentenceSaysSo) {
  Observed run{.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2}, .workers = 2};
  run.step_count = 49;
  EXPECT_THAT(find_limit(run).sentence, testing::EndsWith(" [of 49 steps: too few to rely on]"));
  run.step_count = 50;
  EXPECT_THAT(find_limit(run).sentence, testing::Not(testing::HasSubstr("too few")));
}

TEST(LimitTest, ARunWithoutStepsHasNoNumbers) {
  const Limit limit = find_limit({});
  EXPECT_DOUBLE_EQ(limit.speed_up, 1);
  EXPECT_THAT(limit.sentence, testing::HasSubstr("compute-bound"));
}

}  // namespace
}  // namespace penstock
