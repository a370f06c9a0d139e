// ShardOrder: a bijection of any shape, in which few shards are in use at a time and every group of rows mixes as many.
#include "loader/order/shard_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/text.h"
#include "loader/order/partition.h"

namespace penstock {
namespace {

using Sizes = std::vector<uint64_t>;

struct WindowShape {
  std::string name;
  Sizes sizes;
  int window, lanes;
  uint64_t batch_size;
};

Sizes uneven_sizes(size_t count) {
  Sizes sizes;
  for (size_t i = 0; i < count; ++i) sizes.push_back(1 + i * 37 % 23);
  return sizes;
}

std::vector<WindowShape> shapes() {
  return {{"equal shards", Sizes(50, 20), 16, 4, 32},
          {"shards of different sizes", uneven_sizes(60), 12, 3, 17},
          {"fewer shards than lanes", Sizes(3, 40), 8, 8, 16},
          {"shards of one sample", Sizes(97, 1), 16, 8, 10},
          {"fewer rows in a batch than lanes", Sizes(30, 11), 16, 8, 5},
          {"a batch of one row", Sizes(13, 7), 4, 2, 1},
          {"a short last batch of fewer rows than lanes", Sizes(21, 5), 14, 7, 26},
          {"one short batch alone", Sizes(9, 3), 6, 3, 1000},
          {"empty shards", {0, 5, 0, 0, 9, 1, 0, 30, 2, 0}, 4, 2, 8},
          {"a window of one shard", Sizes(12, 9), 1, 1, 8},
          {"a window of all shards", Sizes(12, 9), 12, 4, 8},
          {"more slots than rows", Sizes(40, 1), 1000, 2, 3},
          {"one huge shard among small ones", {1, 1, 400, 1, 1, 1, 2}, 4, 2, 12},
          {"no samples", {0, 0}, 2, 1, 4},
          {"no shards", {}, 2, 1, 4}};
}

ShardOrder order_of(const WindowShape& shape, uint64_t seed = 5) {
  return {shape.sizes, shape.window, shape.lanes, shape.batch_size, seed};
}

std::vector<uint64_t> elements_of(const ShardOrder& order, uint64_t epoch) {
  const ShardOrder::Epoch places(order, epoch);
  std::vector<uint64_t> elements;
  for (uint64_t position = 0; position < order.size(); ++position) elements.push_back(places.at(position));
  return elements;
}

/// The shard of each element.
std::vector<uint32_t> shards_of(const Sizes& sizes) {
  std::vector<uint32_t> shards;
  for (uint32_t shard = 0; shard < sizes.size(); ++shard) shards.insert(shards.end(), sizes[shard], shard);
  return shards;
}

/// The lane of each position.
std::vector<int> lanes_of(const WindowShape& shape, uint64_t size) {
  std::vector<int> lanes(size);
  const auto count = static_cast<uint64_t>(shape.lanes);
  for (uint64_t first = 0; first < size; first += shape.batch_size) {
    const uint64_t rows = std::min(shape.batch_size, size - first);
    for (uint64_t lane = 0; lane < count; ++lane)
      for (uint64_t row = lane * rows / count; row < (lane + 1) * rows / count; ++row)
        lanes[first + row] = static_cast<int>(lane);
  }
  return lanes;
}

TEST(ShardOrderTest, IsAPermutationOfEveryShape) {
  for (const auto& shape : shapes()) {
    const auto order = order_of(shape);
    ASSERT_EQ(order.size(), std::accumulate(shape.sizes.begin(), shape.sizes.end(), uint64_t{0}));
    for (const uint64_t epoch : {0, 1, 77}) {
      auto elements = elements_of(order, epoch);
      std::sort(elements.begin(), elements.end());
      for (uint64_t i = 0; i < order.size(); ++i) ASSERT_EQ(elements[i], i) << shape.name << ", epoch " << epoch;
    }
  }
}

TEST(ShardOrderTest, VersionTwoIsThisOrder) {
  // Runs are resumed by it: another order needs another kVersion.
  ASSERT_EQ(ShardOrder::kVersion, 2);
  const ShardOrder order({3, 5, 2, 4, 1, 6, 3, 2}, 4, 2, 5, 11);
  EXPECT_EQ(elements_of(order, 2), (std::vector<uint64_t>{18, 16, 5, 13, 12, 15, 19, 10, 11, 25, 20, 17, 24,
                                                          9,  8,  7, 3,  14, 1,  2,  4,  6,  0,  21, 22, 23}));
}

TEST(ShardOrderTest, DiffersBySeedAndByEpoch) {
  const auto shape = shapes()[0];
  const auto base = elements_of(order_of(shape), 2);
  EXPECT_EQ(elements_of(order_of(shape), 2), base);
  for (const auto& other : {elements_of(order_of(shape), 3), elements_of(order_of(shape, 6), 2)}) {
    int fixed = 0;  // for two unrelated permutations this is Poisson distributed with mean 1
    for (size_t i = 0; i < base.size(); ++i) fixed += other[i] == base[i];
    EXPECT_LT(fixed, 8);
  }
}

TEST(ShardOrderTest, TakesOneRowOfEachSlotInEveryGroupFromTheFirstToTheLast) {
  // Shards as long as a slot's whole piece would be in one slot each, so that groups of K rows have K shards.
  const WindowShape shape{"", Sizes(80, 25), 20, 4, 40};
  const auto order = order_of(shape);
  ASSERT_EQ(order.slots_per_lane(), 3U);  // 5 and 4 have a factor in common with the 20 shards of a lane
  const auto elements = elements_of(order, 1);
  const auto shards = shards_of(shape.sizes);
  const auto lanes = lanes_of(shape, order.size());
  for (int lane = 0; lane < shape.lanes; ++lane) {
    std::vector<uint32_t> rows;
    for (uint64_t position = 0; position < order.size(); ++position)
      if (lanes[position] == lane) rows.push_back(shards[elements[position]]);
    ASSERT_EQ(rows.size(), 500U);
    for (size_t row = 0; row + 3 <= rows.size(); row += 3)
      ASSERT_EQ(
          std::set<uint32_t>(rows.begin() + static_cast<ptrdiff_t>(row), rows.begin() + static_cast<ptrdiff_t>(row) + 3)
              .size(),
          3U)
          << "lane " << lane << ", row " << row;
  }
}

TEST(ShardOrderTest, UsesAreThoseThatTheOrderItselfShows) {
  for (const auto& shape : shapes()) {
    const auto order = order_of(shape);
    const auto elements = elements_of(order, 4);
    const auto shards = shards_of(shape.sizes);
    const auto lanes = lanes_of(shape, order.size());
    const ShardOrder::Epoch places(order, 4);
    for (int lane = 0; lane < shape.lanes; ++lane) {
      std::map<uint32_t, std::pair<uint64_t, uint64_t>> seen, said;  // by shard, over all of its uses in this lane
      std::map<uint32_t, uint64_t> rows;
      for (uint64_t position = 0; position < order.size(); ++position) {
        if (lanes[position] != lane) continue;
        const uint32_t shard = shards[elements[position]];
        seen.emplace(shard, std::pair(position, position)).first->second.second = position;
        ++rows[shard];
      }
      uint64_t before = 0;
      for (const auto& use : places.uses(lane, lane + 1)) {
        EXPECT_LE(before, use.first) << shape.name;
        before = use.first;
        // The two ends are rows of the shard.
        EXPECT_EQ(shards[elements[use.first]], use.shard) << shape.name;
        EXPECT_EQ(shards[elements[use.last]], use.shard) << shape.name;
        auto& whole = said.emplace(use.shard, std::pair(use.first, use.last)).first->second;
        whole.second = std::max(whole.second, use.last);
      }
      EXPECT_EQ(said, seen) << shape.name << ", lane " << lane;
    }
  }
}

/// The most shards that are in use at one position, and the most uses of one shard.
std::pair<int, int> most_live(const std::vector<ShardUse>& uses, uint64_t size, size_t shard_count) {
  std::vector<int> change(size + 1), count(shard_count);
  int most_uses = 0;
  for (const auto& use : uses) {
    ++change[use.first];
    --change[use.last + 1];
    most_uses = std::max(most_uses, ++count[use.shard]);
  }
  int live = 0, most = 0;
  for (const int one : change) most = std::max(most, live += one);
  return {most, most_uses};
}

TEST(ShardOrderTest, HasNoMoreShardsInUseThanTheWindow) {
  for (const auto& shape : shapes()) {
    const auto order = order_of(shape);
    const ShardOrder::Epoch places(order, 2);
    const auto [live, uses] = most_live(places.uses(0, shape.lanes), order.size(), shape.sizes.size());
    EXPECT_LE(order.slots_per_lane() * static_cast<uint64_t>(shape.lanes), static_cast<uint64_t>(shape.window));
    // A slot goes on to its next shard inside of a group, when another one may have done so already.
    EXPECT_LE(live, shape.window) << shape.name;
  }
}

TEST(ShardOrderTest, RanksHaveShardsOfTheirOwnWhereTheirNumberDividesTheLanes) {
  const WindowShape shape{"", uneven_sizes(200), 48, 8, 64};
  const auto order = order_of(shape);
  const auto elements = elements_of(order, 6);
  const auto shards = shards_of(shape.sizes);
  for (const int world_size : {1, 2, 4, 8}) {
    std::map<uint32_t, std::set<int>> ranks;  // that read the shard
    for (int rank = 0; rank < world_size; ++rank) {
      const Partition partition(order.size(), 64, rank, world_size, Tail::kPad);
      for (int64_t batch = 0; batch < partition.batch_count(); ++batch) {
        const auto rows = partition.rows(batch);
        for (int64_t row = 0; row < rows.count; ++row)
          ranks[shards[elements[rows.first_position + static_cast<uint64_t>(row)]]].insert(rank);
      }
    }
    int shared = 0;  // two lanes meet inside of a shard, unless one ends where the next begins
    for (const auto& [shard, readers] : ranks) {
      EXPECT_LE(readers.size(), 2U);
      shared += readers.size() > 1 ? 1 : 0;
    }
    EXPECT_EQ(ranks.size(), 200U);
    EXPECT_LE(shared, world_size - 1) << world_size << " ranks";
  }
}

TEST(ShardOrderTest, LanesGetOtherShardsInEveryEpoch) {
  const WindowShape shape{"", Sizes(80, 10), 16, 4, 40};
  const auto order = order_of(shape);
  const auto first_lane = [&](uint64_t epoch) {
    std::set<uint32_t> shards;
    for (const auto& use : ShardOrder::Epoch(order, epoch).uses(0, 1)) shards.insert(use.shard);
    return shards;
  };
  const auto one = first_lane(0), other = first_lane(1);
  std::vector<uint32_t> both;
  std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both));
  EXPECT_LT(both.size(), 15U);  // of 20; two random quarters of 80 shards share 5
}

TEST(ShardOrderTest, KIsTheLargestThatHasNoFactorInCommonWithTheShardsOfALane) {
  const auto slots = [](size_t shards, int window, int lanes) {
    return ShardOrder(Sizes(shards, 10), window, lanes, 64, 0).slots_per_lane();
  };
  EXPECT_EQ(slots(400, 64, 8), 7U);     // 8 and 50 are even
  EXPECT_EQ(slots(400, 32, 1), 31U);    // 32 and 400 are even
  EXPECT_EQ(slots(1000, 256, 8), 32U);  // 32 and 125
  EXPECT_EQ(slots(30, 12, 1), 11U);     // 12 shares 6 with 30
  EXPECT_EQ(slots(100, 8, 8), 1U);
}

TEST(ShardOrderTest, SeeksInAVeryLargeDataSet) {
  const ShardOrder order(Sizes(100'000, 10'000), 256, 8, 1024, 1);
  const ShardOrder::Epoch places(order, 9);
  std::set<uint64_t> elements{places.at(order.size() - 1)};
  size_t count = 1;
  for (uint64_t position = 0; position < order.size(); position += 1'234'567, ++count)
    elements.insert(places.at(position));
  EXPECT_EQ(elements.size(), count);
  EXPECT_LT(*elements.rbegin(), order.size());
}

}  // namespace
}  // namespace penstock
