// Bottleneck: the numbers that the model gives, and the sentence for each kind of run.
#include "loader/bottleneck/bottleneck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/loader/disk_times.h"

namespace penstock {
namespace {

TEST(PredictionTest, WithoutWorkersLoadAndUpdateTakeTurns) {
  const StepCosts times{.load_ms = 6, .load_cpu_ms = 6, .update_ms = 2, .update_cpu_ms = 0, .cores = 8};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 8);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 6);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 3);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 3), 2);  // the device
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 8), 2);
}

TEST(PredictionTest, CoresAreShared) {
  // A trainer on the CPU with 4 ms of its own and 6 ms of loading per step, on two cores.
  const StepCosts times{.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 10);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 6);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 5.5);   // for 6 * 3 / 4 ms, three threads want two cores
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 4), 6.25);  // more workers delay the trainer more
  // Two ranks on the same cores do twice the work.
  EXPECT_DOUBLE_EQ(predicted_step_ms(
                       {.load_ms = 3, .load_cpu_ms = 3, .update_ms = 4, .update_cpu_ms = 4, .cores = 2, .ranks = 2}, 1),
                   7);
}

TEST(PredictionTest, WorkersCrowdAStepOfTwoThreadsMore) {
  StepCosts times{.load_ms = 1, .load_cpu_ms = 1, .update_ms = 8, .update_cpu_ms = 8, .cores = 2};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 8);
  times.update_threads = 2;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 8.5);  // for 1.5 ms three threads on two cores: each misses a third
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 8.5);
}

TEST(PredictionTest, ThreadsThatSpinLeaveWorkersLessOfTheCores) {
  StepCosts times{.load_ms = 8, .load_cpu_ms = 8, .update_ms = 1, .update_cpu_ms = 2, .update_threads = 2, .cores = 2};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 5);  // 10 ms of processor time on two cores
  times.crowding = CorePolicy::kKeep;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 8);  // four threads on two cores
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 9);  // nobody is held up
}

TEST(PredictionTest, ThreadsThatGiveWayAreNotCrowded) {
  StepCosts times{.load_ms = 2, .load_cpu_ms = 2, .update_ms = 8, .update_cpu_ms = 8, .update_threads = 2, .cores = 2};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 9);  // for 2 ms, four threads on two cores: each misses half of them
  times.crowding = CorePolicy::kYield;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 8);
}

TEST(PredictionTest, AnAsynchronousDeviceWorksWhileTheHostLoads) {
  const StepCosts times{
      .load_ms = 6, .load_cpu_ms = 6, .update_ms = 2, .update_cpu_ms = 1, .cores = 8, .is_async = true};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 0), 7);  // load, then launch
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 3);
}

TEST(PredictionTest, WaitingForADiskTakesNoCore) {
  const StepCosts times{.load_ms = 8, .load_cpu_ms = 1, .update_ms = 1, .update_cpu_ms = 1, .cores = 2};
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 4), 2);
}

TEST(OtherProgramsTest, ThreadsAreCountedByHowLongOursQueue) {
  EXPECT_DOUBLE_EQ(other_threads(1.05, 1, 0.5), 0);  // so little is the kernel itself
  EXPECT_DOUBLE_EQ(other_threads(2, 1, 0), 1);       // no thread queues: the other program has the core that it wants
  EXPECT_DOUBLE_EQ(other_threads(2, 1, 0.5), 1.5);   // ours want 1.5 cores for each that they get, and so do the others
  EXPECT_DOUBLE_EQ(other_threads(0.6, 0, 0), 0.6);   // an emulated step takes no processor
}

TEST(OtherProgramsTest, TakeTheirEvenShareOfTheCores) {
  // 10 ms of loading with a device, on two cores, where another program keeps one thread busy.
  StepCosts times{.load_ms = 10, .load_cpu_ms = 10, .update_ms = 1, .cores = 2, .other_threads = 1};
  EXPECT_NEAR(predicted_step_ms(times, 1), 10, 1e-6);   // a core for each
  EXPECT_NEAR(predicted_step_ms(times, 2), 7.5, 1e-6);  // three threads on two cores
  EXPECT_NEAR(predicted_step_ms(times, 0), 11, 1e-6);
  times.other_threads = 2;
  EXPECT_NEAR(predicted_step_ms(times, 1), 15, 1e-6);
  EXPECT_NEAR(predicted_step_ms(times, 2), 10, 1e-6);
  times.other_threads = 0;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 5);
}

/// The same if the disk was not measured.
StepCosts unsettled() {
  LoopMeasurement run{.times = from_disk(1), .workers = 1, .step_ms = 10};
  settle_storage(run, 0, 0);
  return run.times;
}

/// Nothing of this step can be had by more workers, nor be lost by what the other programs do: its range is of whose
/// core they take. Runs beside one differed from such a promise by up to 22 % (docs/reports/finding.md).
TEST(OtherProgramsTest, AStepThatOnlyWaitsHasARangeToo) {
  LoopMeasurement run{.times = {.load_ms = 1, .load_cpu_ms = 1, .update_ms = 10, .cores = 2, .other_threads = 1},
                      .workers = 1,
                      .step_ms = 10,
                      .images_per_second = 3200};
  for (const auto& prediction : find_bottleneck(run).predictions) {
    EXPECT_LE(prediction.low, prediction.images_per_second / 1.19);
    EXPECT_GE(prediction.high, prediction.images_per_second * 1.19);
  }
  run.times.other_threads = 0;
  for (const auto& prediction : find_bottleneck(run).predictions) EXPECT_EQ(prediction.low, prediction.high);
}

TEST(OtherProgramsTest, ARangeBesideThemAndADiskHoldsTheErrorsOfBoth) {
  LoopMeasurement run{.times = from_disk(1), .workers = 1, .step_ms = 10, .images_per_second = 100};
  run.times.other_threads = 1;
  const Bottleneck bottleneck = find_bottleneck(run);
  for (const auto& prediction : bottleneck.predictions) {
    EXPECT_LE(prediction.low * 1.13, prediction.images_per_second * 1.0001);
    EXPECT_GE(prediction.high, prediction.images_per_second * 1.1299);
  }
}

struct Case {
  const char* name;
  LoopMeasurement run;
  Resource bound;
  int best_workers;
  const char* sentence;
};

class SentenceTest : public testing::TestWithParam<Case> {};

TEST_P(SentenceTest, SaysWhatLimitsAndWhatWouldHelp) {
  const Bottleneck bottleneck = find_bottleneck(GetParam().run);
  EXPECT_EQ(bottleneck.bound, GetParam().bound);
  EXPECT_EQ(bottleneck.best_workers, GetParam().best_workers);
  EXPECT_EQ(bottleneck.sentence, GetParam().sentence);
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
             Resource::kLoad,
             4,
             "load-bound: the trainer waited 75 % of the time; 3 more workers would give about 4.0x (32,000 images/s), "
             "the limit is 4.0x (compute)"},
        Case{"load, nobody to load",
             {.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 2, .update_cpu_ms = 2, .cores = 2},
              .workers = 0,
              .step_ms = 8,
              .wait_ms = 6,
              .images_per_second = 8000},
             Resource::kLoad,
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
             Resource::kCompute,
             1,
             "compute-bound: the loader waited 97 % of the time; 1 worker would be enough"},
        Case{"compute, nothing to gain",
             {.times = {.load_ms = 1, .load_cpu_ms = 1, .update_ms = 8, .update_cpu_ms = 8, .cores = 4},
              .workers = 1,
              .step_ms = 8,
              .wait_ms = 0,
              .loader_idle_share = 0.88,
              .images_per_second = 8000,
              .is_emulated = true},
             Resource::kCompute,
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
             Resource::kCommunication,
             1,
             "communication-bound: the trainer waited 75 % of the time for other ranks; more workers would give "
             "nothing"},
        Case{"storage, measured",
             {.times = from_disk(1),
              .workers = 2,
              .step_ms = 8,
              .wait_ms = 4,
              .images_per_second = 180,
              .image_bytes = 110'200,
              .disk_bytes_per_second = 20'000'000,
              .coefficient_share = 0.7},
             Resource::kStorage,
             2,
             "storage-bound: 20.0 MB/s is what the storage gives in images of 110.2 KB; more workers would give "
             "nothing, --encode coef would give 1.4x, the limit is 2.0x (compute)"},
        Case{"storage that answers late",
             {.times = from_disk(2),
              .workers = 1,
              .step_ms = 10,
              .wait_ms = 6,
              .images_per_second = 60,
              .image_bytes = 100'000,
              .disk_bytes_per_second = 40'000'000},
             Resource::kStorage,
             3,
             "storage-bound: 40.0 MB/s is what the storage gives, 6.0 MB/s of it in images of 100.0 KB; 2 more workers "
             "would give about 2.5x (150 images/s), half the bytes would give 1.7x, the limit is 2.5x (compute)"},
        Case{
            "storage, not measured",
            {.times = unsettled(),
             .workers = 1,
             .step_ms = 10,
             .wait_ms = 6,
             .images_per_second = 60,
             .image_bytes = 100'000},
            Resource::kStorage,
            1,
            "storage-bound: the loader waited for the storage, which gave 6.0 MB/s in images of 100.0 KB; more workers "
            "would give nothing or up to 2.5x depending on how busy the storage is, half the bytes would give 1.7x, "
            "the limit is 2.5x (compute)"},
        Case{"load beside other programs",
             {.times = {.load_ms = 10, .load_cpu_ms = 10, .update_ms = 1, .cores = 2, .other_threads = 1},
              .workers = 1,
              .step_ms = 10,
              .wait_ms = 9,
              .images_per_second = 6000,
              .busy_cores = 1.9},
             Resource::kLoad,
             2,
             "load-bound: the trainer waited 90 % of the time, while other programs had 0.9 of 2 cores; 1 more worker "
             "would give about 1.3x (8,000 images/s), 0.83x to 2.4x depending on the other programs, the limit "
             "is 10x (compute)"},
        Case{"compute beside other programs",
             {.times =
                  {.load_ms = 1, .load_cpu_ms = 1, .update_ms = 8, .update_cpu_ms = 8, .cores = 4, .other_threads = 1},
              .workers = 1,
              .step_ms = 8,
              .loader_idle_share = 0.88,
              .images_per_second = 8000,
              .busy_cores = 2.1},
             Resource::kCompute,
             1,
             "compute-bound: the loader waited 88 % of the time, while other programs had 1.0 of 4 cores; more workers "
             "would give nothing while the other programs run"},
        Case{"cores",
             {.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2},
              .workers = 2,
              .step_ms = 5,
              .wait_ms = 1,
              .images_per_second = 8000},
             Resource::kCores,
             2,
             "core-bound: loader and trainer kept 2 cores 100 % busy; more workers would give nothing, the limit is "
             "1.4x (compute)"}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::erase_if(name, [](char letter) { return !std::isalnum(static_cast<unsigned char>(letter)); });
      return name;
    });

/// A trainer with 10 ms per step and a loader with 10 ms per batch, each with cores of its own.
LoopMeasurement balanced(int workers, double load_ms) {
  return {.times = {.load_ms = load_ms, .load_cpu_ms = load_ms, .update_ms = 10, .update_cpu_ms = 10, .cores = 8},
          .workers = workers,
          .step_ms = std::max(10.0, load_ms / workers),
          .images_per_second = 1000};
}

TEST(LimitTest, NoiseOfFivePercentDoesNotTurnTheAdvice) {
  // The load is from 2 % below to 4 % above the update. One worker is as good as two, and no sentence says otherwise.
  for (const double load : {9.8, 9.9, 10.1, 10.4}) {
    for (const int workers : {1, 2}) {
      const Bottleneck bottleneck = find_bottleneck(balanced(workers, load));
      EXPECT_THAT(bottleneck.sentence, testing::HasSubstr("; more workers would give nothing"))
          << workers << " " << load;
      EXPECT_EQ(bottleneck.best_workers, workers);
    }
  }
  EXPECT_THAT(find_bottleneck(balanced(1, 10.7)).sentence, testing::HasSubstr("1 more worker would give about 1.07x"));
  EXPECT_THAT(find_bottleneck(balanced(2, 9)).sentence, testing::HasSubstr("; 1 worker would be enough"));
}

TEST(LimitTest, FewerWorkersThatGiveMoreAreAdvised) {
  const Bottleneck bottleneck = find_bottleneck(
      {.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2}, .workers = 4});
  EXPECT_EQ(bottleneck.best_workers, 2);  // 5.5 ms per step; 6.25 ms with 4
}

TEST(LimitTest, CoresThatOthersUseAreNotCalledBusy) {
  LoopMeasurement run{.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2},
                      .workers = 2,
                      .step_ms = 5 / 0.7};
  EXPECT_THAT(find_bottleneck(run).sentence,
              testing::StartsWith("core-bound: loader and trainer want all of 2 cores and got "
                                  "70 %; other programs had the rest; "));
  run.step_ms = 5 / 0.92;
  EXPECT_THAT(find_bottleneck(run).sentence,
              testing::StartsWith("core-bound: loader and trainer kept 2 cores 92 % busy; "));
}

TEST(LimitTest, OfFewStepsOrAShortTimeTheSentenceSaysSo) {
  LoopMeasurement run{.times = {.load_ms = 6, .load_cpu_ms = 6, .update_ms = 4, .update_cpu_ms = 4, .cores = 2},
                      .workers = 2};
  run.step_ms = 100;
  run.step_count = 49;
  EXPECT_THAT(find_bottleneck(run).sentence, testing::EndsWith(" [of 49 steps: too few to rely on]"));
  run.step_count = 50;
  EXPECT_THAT(find_bottleneck(run).sentence, testing::Not(testing::HasSubstr("too ")));
  run.step_ms = 5;
  EXPECT_THAT(find_bottleneck(run).sentence, testing::EndsWith(" [of 50 steps in 0.2 s: too short to rely on]"));
  run.step_count = 400;
  EXPECT_THAT(find_bottleneck(run).sentence, testing::Not(testing::HasSubstr("too ")));
}

TEST(LimitTest, TheSentencesRatesArePredictions) {
  for (const double gain : {1.0, 1.3, 100.0}) {
    const LoopMeasurement run{.times = from_disk(gain), .workers = 1, .step_ms = 10, .images_per_second = 60};
    const Bottleneck bottleneck = find_bottleneck(run);
    ASSERT_GT(bottleneck.predictions.size(), 8U);
    const auto& best = bottleneck.predictions[static_cast<size_t>(bottleneck.best_workers)];
    EXPECT_EQ(best.workers, bottleneck.best_workers);
    EXPECT_NEAR(best.images_per_second, 60 * bottleneck.speed_up, 1e-9);
    if (bottleneck.best_workers == run.workers) continue;
    EXPECT_THAT(bottleneck.sentence, testing::HasSubstr("(" + rate_text(best.images_per_second) + ")"));
    // The advice promises no more than the best of all predictions, and comes within 2 % of it.
    for (const auto& one : bottleneck.predictions)
      EXPECT_LE(one.images_per_second, 1.021 * best.images_per_second) << gain;
  }
}

TEST(LimitTest, ARangeHoldsThePredictionAndIsOneNumberWhereAllIsKnown) {
  LoopMeasurement run{.times = unsettled(), .workers = 1, .step_ms = 10, .images_per_second = 60};
  run.times.other_threads = 1.5;
  for (const auto& one : find_bottleneck(run).predictions) {
    EXPECT_LE(one.low, one.images_per_second);
    EXPECT_GE(one.high, one.images_per_second);
  }
  run.times.other_threads = 0;
  run.times = from_disk(1);
  for (const auto& one : find_bottleneck(run).predictions) {
    EXPECT_EQ(one.low, one.images_per_second);
    EXPECT_EQ(one.high, one.images_per_second);
  }
}

TEST(LimitTest, ARunWithoutStepsHasNoNumbers) {
  const Bottleneck bottleneck = find_bottleneck({});
  EXPECT_DOUBLE_EQ(bottleneck.speed_up, 1);
  EXPECT_THAT(bottleneck.sentence, testing::HasSubstr("compute-bound"));
}

}  // namespace
}  // namespace penstock
