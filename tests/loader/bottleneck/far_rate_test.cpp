// Far rate: what comes over a link per batch, and how fast a node loads with it.
#include "loader/bottleneck/far_rate.h"

#include <gtest/gtest.h>

#include "tests/support/testing.h"

namespace penstock {
namespace {

/// 4,000 images of 100 kB in 40 shards of 10 MB.
FarSet far_set(Shuffle shuffle = Shuffle::kGlobal, int nodes = 1) {
  return {.image_count = 4000,
          .image_bytes = 100e3,
          .shard_count = 40,
          .shuffle = shuffle,
          .batch_size = 100,
          .nodes = nodes};
}
constexpr uint64_t kShardBytes = 10'000'000;
const LinkSpeed kFarLink{.delay_ms = 0, .bytes_per_second = 50e6};  // 500 images/s

TEST(FarRateTest, WithoutACacheEveryImageIsWaitedFor) {
  const FarSet set = far_set();
  const LinkLoad load = load_of_images(set);
  EXPECT_DOUBLE_EQ(load.bytes, 10e6);
  // 2 ms over the link and 2 ms of work: one worker does them in turn, eight fill the link.
  const FarRate one = far_rate(set, load, kFarLink, 1, 500);
  EXPECT_DOUBLE_EQ(one.images_per_second, 250);
  const FarRate eight = far_rate(set, load, kFarLink, 8, 4000);
  EXPECT_DOUBLE_EQ(eight.images_per_second, 500);
  EXPECT_EQ(eight.bound, Resource::kLink);
  const FarRate delayed = far_rate(set, load, {.delay_ms = 4, .bytes_per_second = 50e6}, 1, 500);
  EXPECT_DOUBLE_EQ(delayed.images_per_second, 125);
  EXPECT_EQ(delayed.bound, Resource::kLink);
  EXPECT_EQ(far_rate(set, load, kFarLink, 1, 100).bound, Resource::kLoad);
}

TEST(FarRateTest, ACacheOfAllBringsEveryShardOnce) {
  for (const Shuffle& shuffle : {Shuffle::kGlobal, Shuffle::shards(8, 2), Shuffle::shards(64, 2)}) {
    const FarSet set = far_set(shuffle);
    const auto loads = load_of_shards(set, 40 * kShardBytes);
    ASSERT_TRUE(loads.has_value());
    EXPECT_DOUBLE_EQ(loads->first.bytes * set.batches(), 400e6) << shuffle.text();
    EXPECT_DOUBLE_EQ(loads->first.requests * set.batches(), 40) << shuffle.text();
    EXPECT_DOUBLE_EQ(loads->later.bytes, 0) << shuffle.text();
    const FarRate first = far_rate(set, loads->first, kFarLink, 2, 1000);
    EXPECT_DOUBLE_EQ(first.images_per_second, 500) << shuffle.text();
    EXPECT_EQ(first.bound, Resource::kLink);
    const FarRate later = far_rate(set, loads->later, kFarLink, 2, 1000);
    EXPECT_DOUBLE_EQ(later.images_per_second, 1000) << shuffle.text();
    EXPECT_EQ(later.bound, Resource::kLoad);
  }
}

TEST(FarRateTest, ASmallerCacheBringsLessWithAWindowThanWithout) {
  const auto windowed = load_of_shards(far_set(Shuffle::shards(8, 2)), 20 * kShardBytes);
  const auto full = load_of_shards(far_set(), 20 * kShardBytes);
  ASSERT_TRUE(windowed && full);
  // Half the shards are there: with a window the others come once, without one for every second row.
  EXPECT_LT(windowed->later.bytes * 40, 400e6);
  EXPECT_GT(windowed->later.bytes * 40, 100e6);
  EXPECT_DOUBLE_EQ(full->later.bytes, 50.0 * kShardBytes);
  EXPECT_FALSE(full->later.is_ahead);
  const auto larger = load_of_shards(far_set(Shuffle::shards(8, 2)), 30 * kShardBytes);
  EXPECT_LT(larger->later.bytes, windowed->later.bytes);
}

TEST(FarRateTest, NodesFetchTheShardsOfTheirLanes) {
  const auto alone = load_of_shards(far_set(Shuffle::shards(8, 4)), 40 * kShardBytes);
  const auto shared = load_of_shards(far_set(Shuffle::shards(8, 4), 4), 40 * kShardBytes);
  const auto full = load_of_shards(far_set(Shuffle::kGlobal, 4), 40 * kShardBytes);
  EXPECT_DOUBLE_EQ(alone->first.requests * 40, 40);
  EXPECT_NEAR(shared->first.requests * 40, 10, 1.5);  // neighbours share a shard
  EXPECT_DOUBLE_EQ(full->first.requests * 40, 40);    // every node needs all
}

TEST(FarRateTest, ACacheWithoutRoomForWhatIsInUseIsSaid) {
  EXPECT_FALSE(load_of_shards(far_set(Shuffle::shards(8, 2)), 4 * kShardBytes).has_value());
  EXPECT_FALSE(load_of_shards(far_set(), kShardBytes / 2).has_value());
  EXPECT_EQ(message_of(ErrorKind::kConfig, [] { load_of_shards(far_set(Shuffle::shards(200, 101)), 1); }),
            "shuffle shards(window=200,lanes=101) with a batch size of 100; expected lanes of at most the batch size");
}

// Four requests at a time, with 200 ms of bytes each: a delay of three times that costs nothing, one of seven times
// half.
TEST(FarRateTest, ALongDelayLimitsWhatIsFetchedAhead) {
  const FarSet set = far_set(Shuffle::shards(8, 2));
  const LinkLoad load = load_of_shards(set, 40 * kShardBytes)->first;
  EXPECT_DOUBLE_EQ(far_rate(set, load, {600, 50e6}, 2, 4000).images_per_second, 500);
  EXPECT_DOUBLE_EQ(far_rate(set, load, {1400, 50e6}, 2, 4000).images_per_second, 250);
}

}  // namespace
}  // namespace penstock
