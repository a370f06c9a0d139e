// limit: the model's numbers, and the sentence for every kind of run.
#include "train/limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(PredictionTest, WithoutWorkersLoadAndUpdateTakeTurns) {
  const ServiceTimes times{.load = 6, .load_cpu = 6, .update = 2, .update_cpu = 0, .cores = 8};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 8);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 6);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 3);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 3), 2);  // the device
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 8), 2);
}

TEST(PredictionTest, CoresAreShared) {
  // A trainer on the CPU: 4 ms of its own and 6 ms of loading a step, on two cores.
  const ServiceTimes times{.load = 6, .load_cpu = 6, .update = 4, .update_cpu = 4, .cores = 2};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 10);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 6);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 5.5);   // three threads want two cores for 6 * 3 / 4 of them
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 4), 6.25);  // more workers hold the trainer up more
  // Two ranks on the same cores do twice the work.
  EXPECT_DOUBLE_EQ(
      predicted_step_ms({.load = 3, .load_cpu = 3, .update = 4, .update_cpu = 4, .cores = 2, .ranks = 2}, 1), 7);
}

TEST(PredictionTest, AnAsynchronousDeviceWorksWhileTheHostLoads) {
  const ServiceTimes times{.load = 6, .load_cpu = 6, .update = 2, .update_cpu = 1, .cores = 8, .is_async = true};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 7);  // load, then launch
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 3);
}

TEST(PredictionTest, WaitingForADiskTakesNoCore) {
  const ServiceTimes times{.load = 8, .load_cpu = 1, .update = 1, .update_cpu = 1, .cores = 2};
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
             {.times = {.load = 8, .load_cpu = 8, .update = 2, .update_cpu = 0.2, .cores = 8},
              .workers = 1,
              .step = 8,
              .wait = 6,
              .images_per_second = 8000},
             Bound::kLoad,
             4,
             "load-bound: the trainer waited 75 % of the time; 3 more workers would give about 4.0x (32,000 images/s), "
             "the limit is 4.0x (compute)"},
        Case{"load, nobody to load",
             {.times = {.load = 6, .load_cpu = 6, .update = 2, .update_cpu = 2, .cores = 2},
              .workers = 0,
              .step = 8,
              .wait = 6,
              .images_per_second = 8000},
             Bound::kLoad,
             2,
             "load-bound: the trainer waited 75 % of the time; 2 more workers would give about 2.0x (16,000 images/s), "
             "the limit is 4.0x (compute)"},
        Case{"compute",
             {.times = {.load = 1, .load_cpu = 1, .update = 8, .update_cpu = 8, .cores = 4},
              .workers = 4,
              .step = 8,
              .wait = 0,
              .loader_idle = 0.97,
              .images_per_second = 8000},
             Bound::kCompute,
             1,
             "compute-bound: the loader waited 97 % of the time; 1 worker would do"},
        Case{"compute, nothing to gain",
             {.times = {.load = 1, .load_cpu = 1, .update = 8, .update_cpu = 8, .cores = 4},
              .workers = 1,
              .step = 8,
              .wait = 0,
              .loader_idle = 0.88,
              .images_per_second = 8000,
              .is_emulated = true},
             Bound::kCompute,
             1,
             "compute-bound: the loader waited 88 % of the time; more workers would give nothing [emulated]"},
        Case{"communication",
             {.times =
                  {.load = 1, .load_cpu = 1, .update = 8, .update_cpu = 2, .communication = 6, .cores = 4, .ranks = 2},
              .workers = 1,
              .step = 8,
              .wait = 0,
              .loader_idle = 0.88,
              .images_per_second = 8000},
             Bound::kCommunication,
             1,
             "communication-bound: the trainer waited 75 % of the time for other ranks; more workers would give "
             "nothing"},
        Case{"cores",
             {.times = {.load = 6, .load_cpu = 6, .update = 4, .update_cpu = 4, .cores = 2},
              .workers = 2,
              .step = 5,
              .wait = 1,
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

TEST(LimitTest, ARunWithoutStepsHasNoNumbers) {
  const Limit limit = find_limit({});
  EXPECT_DOUBLE_EQ(limit.speed_up, 1);
  EXPECT_THAT(limit.sentence, testing::HasSubstr("compute-bound"));
}

}  // namespace
}  // namespace penstock
