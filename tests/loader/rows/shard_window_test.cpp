// --shuffle shards(...) in a loader: with subsets, several data sets, ranks and tails, and what is refused.
#include "loader/samplers/shard_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using testing_data::consume;
using testing_data::make_loader;
using testing_data::pipeline_for;
using testing_data::TestData;

class ShardWindowTest : public ::testing::Test {
 protected:
  static LoaderOptions options(int64_t batch_size = 16) {
    return {.batch_size = batch_size, .shuffle = Shuffle::shards(4, 2), .seed = 9};
  }
  static std::string refusal(const Dataset& dataset, const LoaderOptions& given) {
    try {
      SampleOrder(dataset, given);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static std::vector<uint64_t> ids_of(Loader&& loader, int64_t epoch = 0) {
    std::vector<uint64_t> ids;
    loader.start_epoch(epoch);
    consume(loader, [&](const Batch& batch) {
      ids.insert(ids.end(), batch.ids().begin(), batch.ids().begin() + batch.count());
    });
    return ids;
  }
  static std::string digest_of(const TestData& data, LoaderOptions given) {
    Digest digest;
    const int world_size = given.world_size;
    for (given.rank = 0; given.rank < world_size; ++given.rank) {
      auto loader = make_loader(data, given, "flip");
      loader.start_epoch(1);
      consume(loader, [&](const Batch& batch) { digest.add(batch); });
    }
    return digest.hex();
  }

  TestData data{{10, 7, 12, 1, 9, 30, 4, 8, 11, 10, 6, 13}};  // 121 samples
  std::shared_ptr<const Dataset> dataset = data.open();
};

TEST_F(ShardWindowTest, AnEpochHasEverySampleOnce) {
  for (const int64_t epoch : {0, 1}) {
    const auto ids = ids_of(make_loader(data, options()), epoch);
    EXPECT_EQ(ids.size(), 121U);
    EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), 121U);
    EXPECT_FALSE(std::is_sorted(ids.begin(), ids.end()));
  }
}

TEST_F(ShardWindowTest, BytesDoNotDependOnWorkersRanksOrReadAhead) {
  const std::string expected = digest_of(data, options());
  for (const int workers : {0, 3})
    for (const int world_size : {1, 2, 3})
      for (const auto choice : {ReadAheadChoice::kOff, ReadAheadChoice::kOn}) {
        auto given = options();
        given.workers = workers, given.world_size = world_size, given.read_ahead = choice;
        EXPECT_EQ(digest_of(data, given), expected) << workers << " workers, " << world_size << " ranks";
      }
  auto other = options();  // the digest is a sum over the samples of an epoch, and does not tell orders apart
  other.shuffle = Shuffle::shards(10, 2);
  EXPECT_NE(ids_of(make_loader(data, other)), ids_of(make_loader(data, options())));
}

TEST_F(ShardWindowTest, AnyBatchCanBeBegunWith) {
  const auto whole = ids_of(make_loader(data, options()), 3);
  auto loader = make_loader(data, options());
  loader.start_epoch(3, 5);
  std::vector<uint64_t> rest;
  consume(loader, [&](const Batch& batch) {
    rest.insert(rest.end(), batch.ids().begin(), batch.ids().begin() + batch.count());
  });
  EXPECT_EQ(rest, std::vector<uint64_t>(whole.begin() + 5 * 16, whole.end()));
}

TEST_F(ShardWindowTest, ADroppedTailTakesAPrefixOfTheSameOrder) {
  auto given = options();
  given.tail = Tail::kDrop;
  auto whole = ids_of(make_loader(data, options()));
  whole.resize(7 * 16);
  EXPECT_EQ(ids_of(make_loader(data, given)), whole);
}

TEST_F(ShardWindowTest, AWindowOfAllShardsIsTheFullShuffleAndSaysSo) {
  auto given = options();
  given.shuffle = Shuffle::shards(12, 2);
  auto full = options();
  full.shuffle = Shuffle::kGlobal;
  EXPECT_EQ(ids_of(make_loader(data, given), 2), ids_of(make_loader(data, full), 2));
  const SampleOrder order(*dataset, given);
  EXPECT_EQ(order.text(),
            "shuffle shards(window=12,lanes=2): 121 rows per epoch of 121 samples; the window has room "
            "for all shards, so that this is the full shuffle");
  EXPECT_EQ(order.identity(*dataset), "");
  EXPECT_FALSE(order.has_window());
}

TEST_F(ShardWindowTest, SaysHowManyShardsAreInUse) {
  const SampleOrder order(*dataset, options());
  EXPECT_EQ(order.text(),
            "shuffle shards(window=4,lanes=2): 121 rows per epoch of 121 samples; 2 of 12 shards in use "
            "at a time, 1 shard in each of 2 lanes");
}

TEST_F(ShardWindowTest, TheIdentityKnowsTheWindowAndTheShards) {
  const TestData other({11, 6, 12, 1, 9, 30, 4, 8, 11, 10, 6, 13});  // as many samples in as many shards
  const auto identity = [](const Dataset& of, const Shuffle& shuffle) {
    return SampleOrder(of, {.batch_size = 16, .shuffle = shuffle, .seed = 9}).identity(of);
  };
  const auto base = identity(*dataset, Shuffle::shards(4, 2));
  EXPECT_THAT(base, HasSubstr("shuffle shards(window=4,lanes=2)"));
  EXPECT_NE(identity(*other.open(), Shuffle::shards(4, 2)), base);
  EXPECT_NE(identity(*dataset, Shuffle::shards(5, 2)), base);
  EXPECT_EQ(identity(*dataset, Shuffle::shards(4, 2)), base);
}

TEST_F(ShardWindowTest, ASubsetIsMixedByTheShardsOfItsSamples) {
  auto given = options();
  given.subset = "classes(3:4)";
  const auto ids = ids_of(make_loader(data, given));
  std::set<uint64_t> expected;
  for (uint64_t i = 0; i < 121; ++i)
    if (i % 10 == 3 || i % 10 == 4) expected.insert(1000 + i);
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()), expected);
  EXPECT_EQ(ids.size(), expected.size());
  const SampleOrder order(*dataset, given);
  std::set<uint32_t> shards;
  for (const auto& use : order.shard_uses(*dataset, 0)) shards.insert(use.shard);
  EXPECT_FALSE(shards.contains(3));  // its one sample is of class 9
}

TEST_F(ShardWindowTest, SeveralDataSetsHaveOneWindow) {
  const TestData second({5, 9, 20});
  const auto all = Dataset::join({dataset, second.open()});
  const SampleOrder order(*all, options());
  const auto places = order.order_of(0);
  std::set<uint64_t> seen;
  for (uint64_t position = 0; position < order.rows(); ++position) seen.insert(order.place_at(places, position).index);
  EXPECT_EQ(seen.size(), 155U);
}

TEST_F(ShardWindowTest, RanksNeedTheShardsOfTheirLanes) {
  const auto shards_of = [&](int rank) {
    auto given = options();
    given.rank = rank, given.world_size = 2;
    const SampleOrder order(*dataset, given);
    const auto places = order.order_of(4);
    std::set<uint64_t> read, said;
    for (int64_t batch = 0; batch < order.partition().batch_count(); ++batch) {
      const auto rows = order.partition().rows(batch);
      for (int64_t row = 0; row < rows.count; ++row) {
        const auto index = order.place_at(places, rows.first_position + static_cast<uint64_t>(row)).index;
        uint64_t shard = 0;
        while (dataset->shard_begin(static_cast<int>(shard) + 1) <= index) ++shard;
        read.insert(shard);
      }
    }
    for (const auto& use : order.shard_uses(*dataset, 4)) said.insert(use.shard);
    EXPECT_EQ(read, said) << "rank " << rank;
    return read.size();
  };
  EXPECT_LE(shards_of(0) + shards_of(1), 13U);  // one shard lies in both lanes
}

TEST_F(ShardWindowTest, OtherOrdersSayWhichShardsTheyUse) {
  const auto uses = [&](Shuffle shuffle, int rank = 0, int world_size = 1) {
    return SampleOrder(*dataset, {.batch_size = 16, .rank = rank, .world_size = world_size, .shuffle = shuffle})
        .shard_uses(*dataset, 0);
  };
  EXPECT_EQ(uses(Shuffle::kNone).at(1), (ShardUse{1, 10, 16}));
  EXPECT_EQ(uses(Shuffle::kGlobal).at(1), (ShardUse{1, 0, 120}));
  EXPECT_EQ(uses(Shuffle::kRankLocal, 1, 5).at(1).shard, 6U);
}

TEST_F(ShardWindowTest, RefusesInOneLine) {
  auto given = options();
  given.sampler = "uniform";
  EXPECT_EQ(refusal(*dataset, given),
            "loader: sampler uniform with shuffle shards(window=4,lanes=2), which has every sample once; expected "
            "shuffle global or none, or no sampler");
  EXPECT_EQ(
      refusal(*dataset, options(1)),
      "loader: shuffle shards(window=4,lanes=2) with a batch size of 1; expected lanes of at most the batch size, "
      "one row or more for each");
}

TEST_F(ShardWindowTest, ReadsAheadWhatIsUsedAndDropsWhatWas) {
  auto given = options();
  given.read_ahead = ReadAheadChoice::kOn;
  given.epoch_count = 2;
  auto loader = make_loader(data, given);
  loader.start_epoch(0);
  while (loader.statistics().read_ahead_count < 4) std::this_thread::yield();  // two in use, and one more for each lane
  EXPECT_EQ(loader.statistics().dropped_count, 0U);
  consume(loader);
  loader.start_epoch(1);
  consume(loader);
  // A thread that is slower than the batches leaves out shards, but drops all that it has read.
  while (loader.statistics().dropped_count < loader.statistics().read_ahead_count) std::this_thread::yield();
  auto off = make_loader(data, options());
  off.start_epoch(0);
  consume(off);
  EXPECT_EQ(off.statistics().read_ahead_count, 0U);  // the data set is smaller than the memory
}

TEST_F(ShardWindowTest, ReadingAheadIsRefusedWhereAllShardsAreInUse) {
  for (const auto& shuffle : {Shuffle::kGlobal, Shuffle::shards(12, 2)}) {
    auto given = options();
    given.shuffle = shuffle, given.read_ahead = ReadAheadChoice::kOn;
    try {
      make_loader(data, given);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), concat("loader: read-ahead on with shuffle ", shuffle.text(),
                                                  " of 12 shards, which uses all of them at ",
                                                  "once; expected shuffle shards(...) with a smaller window"));
    }
  }
}

}  // namespace
}  // namespace penstock
