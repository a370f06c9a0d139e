// Bottleneck: the part of the model that is about the link and the cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "loader/bottleneck/bottleneck.h"
#include "loader/bottleneck/cache_model.h"
#include "loader/bottleneck/observe.h"

namespace penstock {
namespace {

/// A batch of 10 images of 100 kB, half of whose bytes come over a link of 50 MB/s: 10 ms. Its update takes 4 ms, one
/// worker's processor time 6 ms.
LoopMeasurement link_run() {
  return {.times = {.load_ms = 6, .load_cpu_ms = 6, .link_busy_ms = 10, .update_ms = 4, .update_cpu_ms = 1, .cores = 4},
          .workers = 1,
          .step_ms = 10,
          .wait_ms = 6,
          .images_per_second = 1000,
          .step_count = 500,
          .image_bytes = 100e3,
          .link_bytes = 500e3,
          .link_bytes_per_second = 50e6,
          .cache_share = 0.5};
}

TEST(LinkPredictionTest, TheLinkIsAsFastWithAnyNumberOfWorkers) {
  const StepCosts times = link_run().times;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 10);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 4), 10);
  EXPECT_EQ(slowest(times, 1), Resource::kLink);
  EXPECT_EQ(slowest(times, 4), Resource::kLink);
}

TEST(LinkPredictionTest, RanksOfAMachineHaveItsTimeOnce) {
  StepCosts times = link_run().times;
  times.ranks = 2;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 10);
}

TEST(LinkPredictionTest, AnotherLinkAndAnotherCacheScaleWhatComes) {
  const StepCosts times = link_run().times;
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_link(times, 0.5, 1), 1), 20);
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_link(times, 1, 0.8), 1), 8);
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_link(times, 4, 1), 1), 6);  // the worker
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_link(times, 4, 1), 2), 4);  // the update
}

TEST(LinkPredictionTest, ADelayStaysWhereTheLinkIsFaster) {
  StepCosts times{.load_ms = 36, .load_cpu_ms = 6, .link_ms = 30, .link_latency_ms = 20, .link_busy_ms = 10};
  times.cores = 8;
  EXPECT_EQ(slowest(times, 1), Resource::kLink);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 36);
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 2), 18);  // two requests at a time
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 8), 10);
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_link(times, 2, 1), 1), 31);
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_link(times, 1, 0.5), 1), 21);
}

TEST(LinkSentenceTest, SaysTheRateTheCachesShareAndWhatWouldHelp) {
  LoopMeasurement run = link_run();
  run.coefficient_share = 0.5;
  run.cache_cases = {{1'000'000, 500e3}, {2'000'000, 250e3}, {3'000'000, 0}};
  EXPECT_EQ(find_bottleneck(run).sentence,
            "load-bound: the link gives 50.0 MB/s; 50 % of the bytes come from the cache; more workers would give "
            "nothing, twice the link would give 1.7x, a cache of 2.0 MB would give 1.7x in later epochs, --encode coef "
            "would give 1.7x, the limit is 2.5x (compute)");
  EXPECT_STREQ(name_of(find_bottleneck(run).bound), "link");
}

TEST(LinkSentenceTest, SaysHowManyTimesTheImagesBytesCameWhereTheCacheIsSmall) {
  LoopMeasurement run = link_run();
  run.link_bytes = 12e6;
  run.is_emulated = true;
  EXPECT_EQ(find_bottleneck(run).sentence,
            "load-bound: the link gives 50.0 MB/s and brings 12x the bytes of the images; more workers would give "
            "nothing, twice the link would give 1.7x, the limit is 2.5x (compute) [emulated]");
}

TEST(LinkSentenceTest, DoesNotAdviseFewerWorkersWhereTheLinkLimits) {
  LoopMeasurement run = link_run();
  run.workers = 2;
  run.times.load_ms = run.times.load_cpu_ms = 1;  // one thread would be enough for so slow a link
  const Bottleneck bottleneck = find_bottleneck(run);
  EXPECT_EQ(bottleneck.best_workers, 2);
  EXPECT_EQ(bottleneck.sentence.find("would be enough"), std::string::npos) << bottleneck.sentence;
}

TEST(ObserveLinkTest, RanksShareTheLinkAndAddUpTheirBytes) {
  LoopMeasurement one = link_run(), other = link_run();
  other.times.link_busy_ms = 8;
  other.times.link_ms = 3;
  other.times.link_latency_ms = 2;
  other.link_bytes = 100e3;
  const LoopMeasurement run = over_ranks(one, {one, other});
  EXPECT_DOUBLE_EQ(run.times.link_busy_ms, 10);
  EXPECT_DOUBLE_EQ(run.times.link_ms, 3);
  EXPECT_DOUBLE_EQ(run.times.link_latency_ms, 2);
  EXPECT_DOUBLE_EQ(run.link_bytes, 600e3);
  EXPECT_DOUBLE_EQ(run.link_bytes_per_second, 50e6);  // as this rank has measured it for all of its machine
  EXPECT_DOUBLE_EQ(run.cache_share, 0.4);             // of 10 images of 100 kB
}

TEST(ObserveLinkTest, ARankThatFetchesNothingTakesTheRateFromTheOthers) {
  LoopMeasurement one = link_run(), other = link_run();
  one.link_bytes = one.link_bytes_per_second = one.times.link_busy_ms = 0;
  EXPECT_DOUBLE_EQ(over_ranks(one, {one, other}).link_bytes_per_second, 50e6);
}

/// Small shards: 4 requests at a time, each of which waits 20 ms and then brings 100 kB in 2 ms.
LoopMeasurement delayed_run() {
  LoopMeasurement run = link_run();
  run.times.link_delays_ms = 5 * 20 / 4.0;
  run.times.link_requests = 4;
  run.step_ms = 27.5;
  run.wait_ms = 23.5;
  run.images_per_second = 10 / 27.5e-3;
  run.link_delay_ms = 20;
  run.link_request_bytes = 100e3;
  return run;
}

TEST(LinkPredictionTest, RequestsAheadWaitForTheirDelaysBesideEachOther) {
  const StepCosts times = delayed_run().times;
  EXPECT_DOUBLE_EQ(predicted_step_ms(times, 1), 25 + 10 / 4.0);
  EXPECT_EQ(slowest(times, 1), Resource::kLink);
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_link(times, 2, 1), 1), 25 + 5 / 4.0);
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_link(times, 1, 0.5), 1), 13.75);
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_requests(times, 0.5), 1), 12.5 + 10 / 4.0);
  EXPECT_DOUBLE_EQ(predicted_step_ms(with_requests(times, 0), 1), 10);  // the bytes fill the link
}

TEST(LinkSentenceTest, SaysTheDelayWhereItCostsMoreThanTheBytes) {
  LoopMeasurement run = delayed_run();
  EXPECT_EQ(
      find_bottleneck(run).sentence,
      "load-bound: each request waits 20.0 ms for its first byte, and then 100.0 KB come at 50.0 MB/s; 50 % of "
      "the bytes come from the cache; more workers would give nothing, half as many shards would give up to 1.8x, "
      "the limit is 6.9x (compute)");
  run.link_bytes = 12e6;
  EXPECT_THAT(find_bottleneck(run).sentence, testing::HasSubstr("at 50.0 MB/s; the link brings 12x the bytes"));
}

/// 100 steps of 20 ms, of which one worker waited 12 ms for shards.
LoaderStatistics far_loader() {
  LoaderStatistics loader;
  loader.workers.push_back({.busy_ms = 1800, .cpu_ms = 600});
  loader.read.count = 1000;
  loader.sample_bytes = 100'000'000;
  loader.link = {.miss_count = 10,
                 .miss_bytes = 10'000'000,
                 .fetched_bytes = 50'000'000,
                 .request_count = 50,
                 .stall_count = 100,
                 .stall_ms = 1200,
                 .latency_ms = 1000,
                 .transfer_ms = 1500,
                 .is_emulated = true};
  return loader;
}

TEST(ObserveLinkTest, WaitsForTheLinkAreNotTheWorkers) {
  const LoopMeasurement run =
      observe({.times = {.cores = 4}, .workers = 1}, {.total_ms = 20, .wait_ms = 15}, far_loader(), 100);
  EXPECT_DOUBLE_EQ(run.times.link_busy_ms, 15);
  EXPECT_DOUBLE_EQ(run.times.link_latency_ms, 2);  // 10 shards that nobody fetched ahead, of 20 ms each
  EXPECT_DOUBLE_EQ(run.times.link_ms, 2 + 3);      // and their 10 MB at 33 MB/s
  EXPECT_DOUBLE_EQ(run.times.load_ms, 6 + 5);
  EXPECT_DOUBLE_EQ(run.cache_share, 0.5);
  EXPECT_DOUBLE_EQ(run.link_bytes, 500'000);
  EXPECT_TRUE(run.is_emulated);
  EXPECT_DOUBLE_EQ(run.link_delay_ms, 20);
  EXPECT_DOUBLE_EQ(run.link_request_bytes, 1e6);
}

TEST(ObserveLinkTest, TheLinkIsThatOfAllProcessesOfTheMachine) {
  LoaderStatistics loader = far_loader();
  loader.link.machine_bytes = 180'000'000;
  loader.link.machine_ms = 1800;
  loader.link.ahead_count = 40;
  const LoopMeasurement run =
      observe({.times = {.cores = 4}, .workers = 1}, {.total_ms = 20, .wait_ms = 15}, loader, 100);
  EXPECT_DOUBLE_EQ(run.times.link_busy_ms, 18);
  EXPECT_DOUBLE_EQ(run.link_bytes_per_second, 100e6);
  EXPECT_DOUBLE_EQ(run.times.link_delays_ms, 2);  // 40 shards, 4 at a time, 20 ms each
  EXPECT_DOUBLE_EQ(run.link_bytes, 500'000);
}

TEST(ObserveLinkTest, WhereNothingIsFarNothingChanges) {
  LoaderStatistics loader = far_loader();
  loader.link = {};
  const LoopMeasurement run =
      observe({.times = {.cores = 4}, .workers = 1}, {.total_ms = 20, .wait_ms = 15}, loader, 100);
  EXPECT_DOUBLE_EQ(run.times.load_ms, 18);
  EXPECT_DOUBLE_EQ(run.times.link_busy_ms, 0);
  EXPECT_FALSE(run.is_emulated);
}

/// Each shard once per epoch, one after the other, in the order that is given.
std::vector<ShardUse> one_by_one(const std::vector<uint32_t>& shards) {
  std::vector<ShardUse> uses;
  for (size_t i = 0; i < shards.size(); ++i) uses.push_back({shards[i], 10 * i, 10 * i + 9});
  return uses;
}

TEST(CacheModelTest, ACacheOfAllFetchesNothingAgain) {
  const std::vector<std::string> names{"a", "b", "c", "d"};
  const auto forward = one_by_one({0, 1, 2, 3});
  EXPECT_EQ(detail::fetched_shards({forward}, names, 4, 0), 4);
  EXPECT_EQ(detail::fetched_shards({forward, forward}, names, 4, 0), 0);
}

TEST(CacheModelTest, WhatIsLeftOfTheLastEpochIsNotFetched) {
  const std::vector<std::string> names{"a", "b", "c", "d"};
  const auto forward = one_by_one({0, 1, 2, 3}), backward = one_by_one({3, 2, 1, 0});
  // With room for two: d is in use at the end, and c has pushed b out, which had pushed a out.
  EXPECT_EQ(detail::fetched_shards({forward, backward}, names, 2, 0), 2);
  // With room for one it is the last shard alone.
  EXPECT_EQ(detail::fetched_shards({forward, backward}, names, 1, 0), 3);
  // Going forward, a, b and c push each other out, and d, whose name is the last, stays.
  EXPECT_EQ(detail::fetched_shards({forward, forward}, names, 2, 0), 3);
}

// With room for two the last name stays, and its shard is found in every later epoch. If one that was found took no
// room, there would be room for one more in each epoch after that.
TEST(CacheModelTest, ShardsThatWereFoundTakeRoomAsOthersDo) {
  const std::vector<std::string> names{"a", "b", "c", "d"};
  for (const size_t epochs : {2, 3, 6}) {
    const std::vector<std::vector<ShardUse>> uses(epochs, one_by_one({0, 1, 2, 3}));
    EXPECT_EQ(detail::fetched_shards(uses, names, 2, 0), 3) << epochs;
  }
}

TEST(CacheModelTest, AShardWithTwoUsesAtATimeIsFetchedOnce) {
  const std::vector<std::string> names{"a", "b"};
  const std::vector<ShardUse> uses{{0, 0, 50}, {1, 10, 20}, {0, 30, 40}};
  EXPECT_EQ(detail::fetched_shards({uses}, names, 2, 0), 2);
}

TEST(CacheModelTest, AFullShuffleMissesWhatIsNotInTheCache) {
  EXPECT_DOUBLE_EQ(detail::missed_share(10, 40), 0.75);
  EXPECT_DOUBLE_EQ(detail::missed_share(40, 40), 0);
  EXPECT_DOUBLE_EQ(detail::missed_share(41, 40), 0);
}

}  // namespace
}  // namespace penstock
