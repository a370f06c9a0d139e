// ShardSchedule: every shard is fetched before its rows are made and dropped once they are, over epochs and restarts.
#include "loader/order/shard_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace penstock {
namespace {

constexpr uint64_t kScheduleBatch = 32, kNoLimit = ~uint64_t{0};

class ShardScheduleTest : public testing::Test {
 protected:
  ShardSchedule schedule(size_t ahead, uint64_t positions = kPositions) {
    return {[this](int64_t epoch) { return uses_of(epoch); }, positions, ahead};
  }
  std::vector<ShardUse> uses_of(int64_t epoch) const {
    return ShardOrder::Epoch(order_, static_cast<uint64_t>(epoch)).uses(0, 4);
  }
  /// The shards that have a row in [begin, end), counted over epochs.
  std::set<uint32_t> shards_in(uint64_t begin, uint64_t end) const {
    std::set<uint32_t> shards;
    for (uint64_t position = begin; position < end; ++position) {
      const ShardOrder::Epoch epoch(order_, position / kPositions);
      if (position % kPositions < order_.size())
        shards.insert(static_cast<uint32_t>(epoch.at(position % kPositions) / 20));
    }
    return shards;
  }
  /// The shards of which a use goes on somewhere in [begin, end) of one epoch.
  std::set<uint32_t> live_in(uint64_t begin, uint64_t end) const {
    std::set<uint32_t> shards;
    for (const auto& use : uses_of(0))
      if (use.first < end && use.last >= begin) shards.insert(use.shard);
    return shards;
  }

  static constexpr uint64_t kPositions = 63 * kScheduleBatch;  // of 2000 rows and a short last batch
  ShardOrder order_{std::vector<uint64_t>(100, 20), 12, 4, kScheduleBatch, 3};
};

/// Applies a step to what is held. A shard is fetched only if it is not held.
void take_step(const ShardSchedule::Step& step, std::set<uint32_t>& held) {
  for (const uint32_t shard : step.drop) held.erase(shard);
  for (const uint32_t shard : step.fetch) ASSERT_TRUE(held.insert(shard).second) << "shard " << shard;
}

TEST_F(ShardScheduleTest, HoldsWhatTheRowsBeingMadeNeedInEveryEpoch) {
  auto schedule = this->schedule(4);
  std::set<uint32_t> held;
  for (uint64_t done = 0; done < 3 * kPositions; done += kScheduleBatch) {
    take_step(schedule.go_to(done, done + 4 * kScheduleBatch, kNoLimit), held);
    for (const uint32_t shard : shards_in(done, done + 4 * kScheduleBatch))
      ASSERT_TRUE(held.contains(shard)) << "shard " << shard << ", position " << done;
    ASSERT_EQ(schedule.held_count(), held.size());
  }
}

TEST_F(ShardScheduleTest, HoldsNoMoreThanTheUsesThatGoOnAndTheNextFew) {
  auto schedule = this->schedule(4);
  std::set<uint32_t> held;
  for (uint64_t done = 0; done < kPositions; done += kScheduleBatch) {
    take_step(schedule.go_to(done, done + kScheduleBatch, kPositions), held);
    EXPECT_LE(held.size(), live_in(done, done + kScheduleBatch).size() + 4) << "position " << done;
  }
  take_step(schedule.go_to(kPositions, kPositions + kScheduleBatch, kPositions), held);
  EXPECT_TRUE(held.empty());  // there is no second epoch
}

TEST_F(ShardScheduleTest, FetchesInTheOrderOfUse) {
  auto schedule = this->schedule(10);
  const auto uses = uses_of(0);
  const auto step = schedule.go_to(0, 1, kNoLimit);
  ASSERT_GE(step.fetch.size(), 10U);
  std::vector<uint32_t> expected;
  for (const auto& use : uses)
    if (std::find(expected.begin(), expected.end(), use.shard) == expected.end()) expected.push_back(use.shard);
  expected.resize(step.fetch.size());
  EXPECT_EQ(step.fetch, expected);
  EXPECT_TRUE(step.drop.empty());
}

TEST_F(ShardScheduleTest, BeginsAnywhereWithTheShardsThatAreInUseThere) {
  for (const uint64_t begin : {uint64_t{17 * kScheduleBatch}, 5 * kPositions + 40 * kScheduleBatch}) {
    auto schedule = this->schedule(0);
    std::set<uint32_t> held;
    take_step(schedule.go_to(begin, begin + kScheduleBatch, kNoLimit), held);
    for (const uint32_t shard : shards_in(begin, begin + kScheduleBatch)) EXPECT_TRUE(held.contains(shard));
    EXPECT_LE(held.size(), 24U);
  }
}

TEST_F(ShardScheduleTest, GoesBackAndKeepsWhatItNeedsThere) {
  auto schedule = this->schedule(2);
  std::set<uint32_t> held;
  take_step(schedule.go_to(0, kScheduleBatch, kNoLimit), held);
  take_step(schedule.go_to(30 * kScheduleBatch, 31 * kScheduleBatch, kNoLimit), held);
  take_step(schedule.go_to(29 * kScheduleBatch, 30 * kScheduleBatch, kNoLimit),
            held);  // take_step() sees what is fetched twice
  for (const uint32_t shard : shards_in(29 * kScheduleBatch, 30 * kScheduleBatch)) EXPECT_TRUE(held.contains(shard));
}

// A thread that is late sees few steps. Rows that are made meanwhile read their shards all the same, and whatever a
// step does not hold must leave the memory.
TEST_F(ShardScheduleTest, WhatWasReadBetweenTwoStepsIsDroppedToo) {
  for (const uint64_t batches : {1, 7, 25, 70}) {
    auto schedule = this->schedule(4);
    std::set<uint32_t> in_memory;
    for (uint64_t done = 0; done < 3 * kPositions; done += batches * kScheduleBatch) {
      const auto step = schedule.go_to(done, done + kScheduleBatch, kNoLimit);
      for (const uint32_t shard : step.drop) in_memory.erase(shard);
      in_memory.insert(step.fetch.begin(), step.fetch.end());
      ASSERT_EQ(in_memory.size(), schedule.held_count()) << batches << " batches per step, position " << done;
      in_memory.merge(shards_in(done, done + batches * kScheduleBatch));
    }
  }
}

TEST_F(ShardScheduleTest, ABudgetLimitsWhatIsAheadAndNotWhatIsInUse) {
  std::vector<uint64_t> bytes;
  for (uint64_t shard = 0; shard < 100; ++shard) bytes.push_back(50 + shard);
  const auto sum_of = [&](const std::set<uint32_t>& shards) {
    uint64_t sum = 0;
    for (const uint32_t shard : shards) sum += bytes[shard];
    return sum;
  };
  constexpr uint64_t kLargest = 149;
  for (const uint64_t most_bytes : {0, 1500, 2500}) {
    ShardSchedule schedule([this](int64_t epoch) { return uses_of(epoch); }, kPositions, 1000, {most_bytes, bytes});
    std::set<uint32_t> held;
    for (uint64_t done = 0; done < kPositions; done += kScheduleBatch) {
      take_step(schedule.go_to(done, done + kScheduleBatch, kNoLimit), held);
      ASSERT_EQ(schedule.held_bytes(), sum_of(held));
      for (const uint32_t shard : shards_in(done, done + kScheduleBatch)) ASSERT_TRUE(held.contains(shard));
      EXPECT_LE(sum_of(held), std::max(most_bytes, sum_of(live_in(done, done + kScheduleBatch)))) << done;
      EXPECT_GE(sum_of(held) + kLargest, most_bytes) << "position " << done << ": there was room for one more";
    }
  }
}

TEST_F(ShardScheduleTest, CountsWhatIsInUseAtATime) {
  const auto uses = uses_of(0);
  MostInUse expected;
  for (const auto& at : uses) {
    uint64_t count = 0, bytes = 0;
    for (const auto& use : uses) {
      if (use.first > at.first || use.last < at.first) continue;
      ++count;
      bytes += use.shard;
    }
    expected = {std::max<size_t>(expected.count, count), std::max(expected.bytes, bytes)};
  }
  std::vector<uint64_t> bytes(100);
  std::iota(bytes.begin(), bytes.end(), 0);
  const MostInUse most = most_in_use(uses, bytes);
  EXPECT_EQ(most.count, expected.count);
  EXPECT_EQ(most.bytes, expected.bytes);
  EXPECT_EQ(most_in_use({}, bytes).count, 0U);
}

TEST_F(ShardScheduleTest, ATailThatIsDroppedIsNotFetched) {
  const uint64_t positions = 10 * kScheduleBatch;
  auto schedule = this->schedule(1000, positions);
  const auto step = schedule.go_to(0, 1, positions);
  std::set<uint32_t> expected;
  for (const auto& use : uses_of(0))
    if (use.first < positions) expected.insert(use.shard);
  EXPECT_EQ(std::set<uint32_t>(step.fetch.begin(), step.fetch.end()), expected);
}

}  // namespace
}  // namespace penstock
