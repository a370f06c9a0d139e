// Watch and foresee(): what a loop of anybody's own tells the model of bottleneck.h.
#include "loader/bottleneck/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "core/clock.h"
#include "loader/bottleneck/observe.h"

namespace penstock {
namespace {

constexpr int64_t kMs = 1'000'000;

void take_batch(Watch& watch, int64_t wait_ns, int64_t step_ns) {
  watch.begin_wait();
  burn_cpu(wait_ns);
  watch.end_wait(8);
  burn_cpu(step_ns);
}

TEST(WatchTest, CountsTheEpochAndNotWhatComesAfterIt) {
  const LoaderStatistics nothing;
  Watch watch(nothing);
  const int64_t start_ns = now_ns();
  for (int epoch = 0; epoch < 2; ++epoch) {
    take_batch(watch, 10 * kMs, 5 * kMs);
    take_batch(watch, 10 * kMs, 5 * kMs);
    watch.begin_wait();
    watch.pause();
    burn_cpu(40 * kMs);  // an evaluation
  }
  const double elapsed_ms = ms_since(start_ns);
  const LoopMeasurement run = watch.observed({.workers = 1}, nothing);
  EXPECT_EQ(run.step_count, 4);
  EXPECT_GE(run.step_ms * 4, 60);
  EXPECT_LE(run.step_ms * 4, elapsed_ms - 80);
  EXPECT_GE(run.wait_ms * 4, 40);
  EXPECT_LE(run.wait_ms * 4, run.step_ms * 4 - 20);
  EXPECT_GE(run.times.update_cpu_ms * 4, 60);
  EXPECT_DOUBLE_EQ(run.images_per_second, 8e3 / run.step_ms);
}

TEST(WatchTest, CountsWhatWorkersDidSinceItBegan) {
  LoaderStatistics before, now;
  before.read.count = 10, before.sample_bytes = 10'000;
  before.workers = {{.busy_ms = 100, .cpu_ms = 100}};
  now.read.count = 30, now.sample_bytes = 70'000;
  now.workers = {{.busy_ms = 160, .cpu_ms = 140, .queued_ms = 4}};
  Watch watch(before);
  take_batch(watch, 0, kMs);
  take_batch(watch, 0, kMs);
  watch.pause();
  const LoopMeasurement run = watch.observed({.workers = 1}, now);
  EXPECT_DOUBLE_EQ(run.times.load_cpu_ms, 20);
  EXPECT_DOUBLE_EQ(run.times.load_ms, 28);
  EXPECT_DOUBLE_EQ(run.image_bytes, 3000);
}

/// Lets the calling thread queue for a core: it shares one with another thread.
void queue_for(int64_t ns) {
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  std::thread other([ns] { burn_cpu(ns); });  // on the same core
  burn_cpu(ns);
  other.join();
  sched_setaffinity(0, sizeof before, &before);
}

TEST(WatchTest, MayBeEndedByAThreadThatHasQueuedForSomethingElse) {
  const LoaderStatistics nothing;
  Watch watch(nothing);
  queue_for(40 * kMs);
  int64_t loop_queued_ns = 0;
  std::thread([&] {
    take_batch(watch, 0, kMs);
    loop_queued_ns = queued_ns(this_thread());
  }).join();
  watch.pause();
  const LoopMeasurement run = watch.observed({.workers = 1}, nothing);
  EXPECT_LE(run.queued_ms, static_cast<double>(loop_queued_ns) * 1e-6);
}

TEST(WatchTest, SaysThatALoopWasTooShortInsteadOfWhatLimitedIt) {
  EXPECT_EQ(too_short_text({.step_ms = 2.5, .step_count = 10}),
            "too short to say what limits the loop: 10 steps in 25 ms; expected 50 steps and 2 s, or more");
  EXPECT_EQ(too_short_text({.step_ms = 25, .step_count = 4}), "");
}

LoaderStatistics made(double busy_ms) {
  LoaderStatistics loader;
  loader.read.count = 640;
  loader.sample_bytes = 640'000;
  loader.workers = {{.busy_ms = busy_ms, .cpu_ms = busy_ms}};
  return loader;
}

TEST(ForeseeTest, ALoopThatWaitsForItsLoaderGainsByWorkers) {
  const LoopMeasurement run = foresee({.times = {.cores = 4}, .workers = 1}, made(400), 10, 64, 10, 10);
  EXPECT_DOUBLE_EQ(run.step_ms, 40);
  EXPECT_DOUBLE_EQ(run.wait_ms, 30);
  EXPECT_DOUBLE_EQ(run.images_per_second, 1600);
  EXPECT_EQ(find_bottleneck(run).sentence,
            "load-bound: the trainer waited 75 % of the time; 3 more workers would give about 3.2x (5,120 images/s), "
            "the limit is 4.0x (compute)");
}

TEST(ForeseeTest, AStepOfNoLengthHasNoNumberForItsLimit) {
  const LoopMeasurement run = foresee({.times = {.cores = 4}, .workers = 1}, made(400), 10, 64, 0, 0);
  EXPECT_THAT(find_bottleneck(run).sentence, testing::HasSubstr(", the limit is over 1,000x (compute)"));
}

TEST(ForeseeTest, ALoopThatIsSlowItselfLetsItsWorkersWait) {
  const LoopMeasurement run = foresee({.times = {.cores = 4}, .workers = 2}, made(100), 10, 64, 10, 10);
  EXPECT_DOUBLE_EQ(run.step_ms, 10);
  EXPECT_DOUBLE_EQ(run.loader_idle_share, 0.5);
  EXPECT_EQ(find_bottleneck(run).sentence,
            "compute-bound: the loader waited 50 % of the time; more workers would give nothing");
}

TEST(ForeseeTest, WithoutWorkersLoadAndUpdateTakeTurns) {
  const LoopMeasurement run = foresee({.times = {.cores = 4}, .workers = 0}, made(100), 10, 64, 10, 10);
  EXPECT_DOUBLE_EQ(run.step_ms, 20);
  EXPECT_EQ(find_bottleneck(run).best_workers, 1);
}

}  // namespace
}  // namespace penstock
