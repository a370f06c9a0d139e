// Loader: what its statistics count and time.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "core/clock.h"
#include "loader/batch/loader.h"
#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using testing_data::consume;
using testing_data::make_loader;
using testing_data::pipeline_for;
using testing_data::TestData;

TEST(LoaderStatisticsTest, CountsSamplesBatchesAndReadiness) {
  const TestData data({100});
  const int64_t start_ns = now_ns();
  auto loader = make_loader(data, {.workers = 0, .batch_size = 10}, "flip");
  loader.start_epoch(0);
  consume(loader);
  const auto statistics = loader.statistics();
  // Every read is timed, so that the total is no estimate.
  EXPECT_LE(statistics.read.total_ms, static_cast<double>(now_ns() - start_ns) * 1e-6);
  for (const auto& stage : {statistics.read, statistics.plan, statistics.decode, statistics.render}) {
    EXPECT_EQ(stage.count, 100U);
    EXPECT_GT(stage.total_ms, 0);
    EXPECT_NEAR(stage.mean_us() * 100, stage.total_ms * 1e3, 1e-6 * stage.total_ms);
    EXPECT_GT(stage.p99_us, 0);
  }
  EXPECT_EQ(statistics.batch_count, 10U);
  EXPECT_EQ(statistics.wait.count, 10U);
  EXPECT_EQ(statistics.ready_count, 0U);  // the caller's thread makes the batches, so that none can be ready before
  EXPECT_EQ(statistics.masked_count + statistics.substituted_count, 0U);

  auto ahead = make_loader(data, {.workers = 2, .prefetch = 10, .batch_size = 10, .epoch_count = 1});
  ahead.start_epoch(0);
  ASSERT_TRUE(ahead.next());
  while (ahead.statistics().render.count < 100) std::this_thread::yield();
  consume(ahead);
  EXPECT_GE(ahead.statistics().ready_count, 8U);  // the last chunk may be counted before its batch is handed over
}

TEST(LoaderStatisticsTest, TellsWhatEachWorkerDid) {
  const TestData data({100});
  constexpr int64_t kLoadNs = 20'000;
  for (const int workers : {0, 1, 3}) {
    auto loader = make_loader(
        data, {.workers = workers, .batch_size = 10, .epoch_count = 1, .emulated_load_ns = kLoadNs}, "flip");
    loader.start_epoch(0);
    EXPECT_EQ(consume(loader), 10);
    const auto statistics = loader.statistics();
    ASSERT_EQ(statistics.workers.size(), static_cast<size_t>(std::max(workers, 1)));
    LoaderStatistics::Worker all;
    for (const auto& worker : statistics.workers) {
      EXPECT_GE(worker.idle_ms, 0);
      all.render_ms += worker.render_ms;
      all.decode_ms += worker.decode_ms;
      all.cpu_ms += worker.cpu_ms;
    }
    EXPECT_NEAR(all.decode_ms, statistics.decode.total_ms, 0.3 * statistics.decode.total_ms);
    // 20 us of processor time per sample take at least 20 us of wall time.
    EXPECT_GE(all.render_ms, 100 * kLoadNs * 1e-6);
    EXPECT_GE(all.cpu_ms, 100 * kLoadNs * 1e-6);
    EXPECT_EQ(statistics.sample_bytes, 100 * data.open()->at(0).bytes.size());
  }
}

TEST(LoaderStatisticsTest, WhatNeitherRanNorQueuedWaitedForTheStorage) {
  LoaderStatistics statistics;
  statistics.read.count = 1000;
  statistics.workers = {{.busy_ms = 10, .cpu_ms = 2, .queued_ms = 3, .major_faults = 7},
                        {.busy_ms = 6, .cpu_ms = 2},
                        {.busy_ms = 6, .cpu_ms = 6.5}};
  statistics.find_storage_waits();
  EXPECT_EQ(statistics.workers[0].storage_ms, 5);
  EXPECT_EQ(statistics.workers[1].storage_ms, 4);  // it waited for a page that the first one had requested
  EXPECT_EQ(statistics.workers[2].storage_ms, 0);
  EXPECT_DOUBLE_EQ(statistics.storage().mean_us(), 9);
  statistics.workers[0].major_faults = 0;  // none has waited for a page: they slept for another reason
  statistics.find_storage_waits();
  EXPECT_EQ(statistics.storage().total_ms, 0);
}

}  // namespace
}  // namespace penstock
