// Bottleneck: the part of the model that is about the storage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/loader/disk_times.h"

namespace penstock {
namespace {

TEST(StoragePredictionTest, AUsedUpDiskGivesNoMoreToMoreReaders) {
  EXPECT_DOUBLE_EQ(predicted_step_ms(from_disk(1), 0), 14);
  EXPECT_DOUBLE_EQ(predicted_step_ms(from_disk(1), 1), 10);
  EXPECT_DOUBLE_EQ(predicted_step_ms(from_disk(1), 2), 8);
  EXPECT_DOUBLE_EQ(predicted_step_ms(from_disk(1), 8), 8);
}

TEST(StoragePredictionTest, ALateDiskGivesMoreUpToItsRate) {
  EXPECT_DOUBLE_EQ(predicted_step_ms(from_disk(1.6), 1), 10);
  EXPECT_DOUBLE_EQ(predicted_step_ms(from_disk(1.6), 2), 5);  // 8 / 1.6, and 10 / 2
  EXPECT_DOUBLE_EQ(predicted_step_ms(from_disk(1.6), 4), 5);
  EXPECT_DOUBLE_EQ(predicted_step_ms(from_disk(100), 6), 4);  // the step
}

TEST(StoragePredictionTest, ReadersThatWaitedForEachOtherWaitLessAlone) {
  auto times = from_disk(1);
  times.storage_ms = 16, times.load_ms = 18;  // two workers, which both wait nearly all the time
  times.storage_readers = 2;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 8);  // it waits 8 - 2 ms: in the 2 ms of decoding the disk reads ahead
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 8);
  times.load_cpu_ms = 9;
  times.load_ms = 25;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 13);  // reading ahead saves half at most
  times.load_cpu_ms = 2;
  times.load_ms = 18;
  times.storage_gain = 2;  // two are served at once, so a single one waits as long
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 18);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 9);
}

TEST(StoragePredictionTest, RanksOfAMachineShareTheDisk) {
  auto times = from_disk(1);
  times.ranks = 2;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 4), 16);
}

/// One worker, which waits for the disk in 8 of 10 ms.
LoopMeasurement waiting_run() {
  return {.times = {.load_ms = 10, .load_cpu_ms = 2, .storage_ms = 8, .update_ms = 4}, .workers = 1, .step_ms = 10};
}

TEST(SettleStorageTest, CountedBytesAndTheRateAreTheTimeThatItIsBusy) {
  LoopMeasurement run = waiting_run();
  run.storage_bytes = 180'000;
  settle_storage(run, 19e6, 20e6);
  EXPECT_DOUBLE_EQ(run.times.storage_gain, 1);  // 5 % more with eight readers does not count as a gain
  EXPECT_DOUBLE_EQ(run.times.storage_busy_ms, 9);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_low_ms, run.times.storage_busy_high_ms);
  EXPECT_DOUBLE_EQ(run.disk_bytes_per_second, 20e6);
  run.storage_bytes = 1e6;  // in the run the rate was another one: the disk cannot be busy for longer than the step
  settle_storage(run, 19e6, 20e6);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_ms, 10);
}

TEST(SettleStorageTest, BytesThatExplainNoneOfTheWaitingAreNotTheStorages) {
  LoopMeasurement run = waiting_run();
  run.storage_bytes =
      20'000;  // 1 ms, where a reader waited 8: a network file system counts none, the program's pages do
  settle_storage(run, 20e6, 20e6);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_low_ms, 8);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_high_ms, 10);
  settle_storage(run, 20e6, 160e6);  // with eight readers at once 0.125 ms
  EXPECT_DOUBLE_EQ(run.times.storage_busy_low_ms, 1);
}

TEST(SettleStorageTest, WithoutBytesItIsBusyBetweenTheWaitingAndTheStep) {
  LoopMeasurement run = waiting_run();
  settle_storage(run, 20e6, 20e6);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_low_ms, 8);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_high_ms, 10);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_ms, 9.6);
  settle_storage(run, 20e6, 40e6);
  EXPECT_DOUBLE_EQ(run.times.storage_gain, 2);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_ms, 4.8);
}

TEST(SettleStorageTest, WithoutAMeasurementMoreReadersMayGetAnything) {
  LoopMeasurement run = waiting_run();
  settle_storage(run, 0, 0);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_low_ms, 0);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_high_ms, 10);
  EXPECT_DOUBLE_EQ(run.disk_bytes_per_second, 0);
}

TEST(SettleStorageTest, RanksShareTheStep) {
  LoopMeasurement run = waiting_run();
  run.times.ranks = 2;
  run.times.storage_readers = 1.6;
  settle_storage(run, 20e6, 20e6);
  EXPECT_DOUBLE_EQ(run.times.storage_busy_high_ms, 5);  // the parts of two ranks in 10 ms
}

TEST(StoragePredictionTest, ManyWorkersComeToTheDisksEndThoughDecodingTakesLonger) {
  const StepCosts times{
      .load_ms = 20, .load_cpu_ms = 12, .storage_ms = 8, .storage_busy_ms = 8, .update_ms = 1, .cores = 16};
  EXPECT_EQ(slowest(times, 1), Resource::kLoad);
  EXPECT_EQ(slowest(times, 4), Resource::kStorage);
}

TEST(StoragePredictionTest, MoreWorkersThanCoresAreAdvisedWhereTheyWaitForALateDisk) {
  const StepCosts times{.load_ms = 20,
                        .load_cpu_ms = 1,
                        .storage_ms = 19,
                        .storage_gain = 8,
                        .storage_busy_ms = 19 / 8.0,
                        .update_ms = 1,
                        .cores = 2};
  EXPECT_EQ(find_bottleneck({.times = times, .workers = 1, .step_ms = 20, .images_per_second = 100}).best_workers, 8);
}

TEST(StoragePredictionTest, AFewPageFaultsAdviseNobodyToTakeMoreWorkersThanCores) {
  const StepCosts times{.load_ms = 20,
                        .load_cpu_ms = 1,
                        .storage_ms = 0.5,
                        .storage_gain = 8,
                        .storage_busy_ms = 0.1,
                        .update_ms = 1,
                        .cores = 2};
  EXPECT_EQ(find_bottleneck({.times = times, .workers = 1, .step_ms = 20, .images_per_second = 100}).best_workers, 2);
}

}  // namespace
}  // namespace penstock
