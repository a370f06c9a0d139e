// The contract of bytes: nothing but data, pipeline, seed and place decides what is in a batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using testing_data::consume;
using testing_data::pipeline_for;
using testing_data::TestData;

constexpr const char* kRandomSpec = "affine(degrees=20,translate=0.2,scale=0.8:1.2,shear=5),flip(p=0.5),erase(p=0.5)";
constexpr int64_t kBatch = 16;

/// Where and how an epoch is made.
struct Place {
  int workers;
  int prefetch;
  int ranks;
  int64_t restart;
};

/// The turns 0 to 3 together have every pair of numbers of workers, prefetch, ranks and restart, and every three of
/// workers, ranks and restart: Latin squares that turn. All 192 at each turn took as long as all other contracts.
std::vector<Place> places(unsigned turn) {
  constexpr std::array kWorkers{0, 1, 2, 7}, kRanks{1, 2, 3, 4};
  constexpr std::array kPrefetch{1, 3, 16};
  constexpr std::array<int64_t, 4> kRestarts{0, 1, 9, 18};
  std::vector<Place> places;
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned j = 0; j < 4; ++j)
      places.push_back({kWorkers[i], kPrefetch[(i + j + turn) % 3], kRanks[j], kRestarts[i ^ j ^ turn]});
  return places;
}

class BytesContract : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new TestData({40, 31, 50, 29, 53, 42, 28, 27}, {{20, 20, 3}});
  }  // 300 samples
  static void TearDownTestSuite() {
    delete data_;
    data_ = nullptr;
  }
  static std::shared_ptr<const Dataset> dataset() { return data_->open(); }

  /// The digest of one epoch over all ranks. With `restart` the epoch is left behind that batch and begun again there
  /// by another loader, as after a kill.
  static std::string digest(const std::string& spec, LoaderOptions options, int ranks, int64_t restart = 0,
                            int64_t epoch = 3) {
    Digest sum;
    for (int rank = 0; rank < ranks; ++rank) {
      options.rank = rank;
      options.world_size = ranks;
      const auto data = dataset();
      const auto make = [&] { return Loader(data, pipeline_for(*data, spec), options); };
      if (restart > 0) {
        auto killed = make();
        killed.start_epoch(epoch);
        for (int64_t batch = 0; batch < restart; ++batch) sum.add(killed.next().value());
      }
      auto loader = make();
      loader.start_epoch(epoch, restart);
      consume(loader, [&](const Batch& batch) { sum.add(batch); });
    }
    return sum.hex();
  }

  /// The digest of one epoch, which has to be the same in all places of a turn.
  static std::string expect_one_digest(const std::string& spec, Layout layout, Tail tail, unsigned turn) {
    LoaderOptions options{.workers = 0, .prefetch = 1, .batch_size = kBatch, .tail = tail, .seed = 5, .layout = layout};
    const auto expected = digest(spec, options, 1);
    for (const auto& [workers, prefetch, ranks, restart] : places(turn)) {
      options.workers = workers;
      options.prefetch = prefetch;
      EXPECT_EQ(digest(spec, options, ranks, restart), expected)
          << spec << ": " << workers << " workers, prefetch " << prefetch << ", " << ranks << " ranks, restart at "
          << restart;
    }
    return expected;
  }

 private:
  static inline TestData* data_ = nullptr;
};

struct Case {
  Layout layout;
  Tail tail;
};

TEST_F(BytesContract, DigestIsEqualForWorkersPrefetchRanksAndRestarts) {
  unsigned turn = 0;
  for (const auto& [layout, tail] : {Case{Layout::kF32Nchw, Tail::kPad}, Case{Layout::kF32Nchw, Tail::kDrop},
                                     Case{Layout::kU8Nhwc, Tail::kPad}, Case{Layout::kU8Nhwc, Tail::kDrop}})
    expect_one_digest(kRandomSpec, layout, tail, turn++);
}

/// 19 batches, the last of 12 samples: with 4 ranks none for the last rank.
TEST_F(BytesContract, MixedBatchesAreEqualForWorkersPrefetchRanksAndRestarts) {
  unsigned turn = 0;
  for (const char* const mix : {"mixup(alpha=0.4)", "cutmix"}) {
    const auto spec = std::string(kRandomSpec) + "," + mix;
    for (const auto& [layout, tail] : {Case{Layout::kF32Nchw, Tail::kPad}, Case{Layout::kU8Nhwc, Tail::kDrop}})
      EXPECT_NE(
          expect_one_digest(spec, layout, tail, turn++),
          digest(kRandomSpec, {.workers = 0, .batch_size = kBatch, .tail = tail, .seed = 5, .layout = layout}, 1));
  }
}

TEST_F(BytesContract, DigestDiffersBySeedEpochShuffleTailAndPipeline) {
  const LoaderOptions base{.workers = 2, .batch_size = kBatch, .seed = 5};
  std::vector<std::string> digests{digest(kRandomSpec, base, 1), digest(kRandomSpec, base, 1, 0, 4),
                                   digest("flip", base, 1)};
  auto other = base;
  other.seed = 6;
  digests.push_back(digest(kRandomSpec, other, 1));
  other = base;
  other.shuffle = Shuffle::kNone;
  digests.push_back(digest(kRandomSpec, other, 1));
  other = base;
  other.tail = Tail::kDrop;
  digests.push_back(digest(kRandomSpec, other, 1));
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
}

TEST_F(BytesContract, AnEmulatedLoadChangesNothing) {
  LoaderOptions options{.workers = 2, .batch_size = kBatch, .seed = 5};
  const auto expected = digest(kRandomSpec, options, 1);
  options.emulated_load_ns = 10'000;
  EXPECT_EQ(digest(kRandomSpec, options, 1), expected);
}

TEST_F(BytesContract, RankLocalShufflingDoesNotDependOnWorkersEither) {
  LoaderOptions options{.workers = 0, .batch_size = kBatch, .shuffle = Shuffle::kRankLocal, .seed = 5};
  for (const std::string& spec : {std::string(kRandomSpec), std::string(kRandomSpec) + ",cutmix"}) {
    for (const int ranks : {1, 3}) {
      options.workers = 0;
      const auto expected = digest(spec, options, ranks);
      options.workers = 3;
      EXPECT_EQ(digest(spec, options, ranks), expected);
      EXPECT_EQ(digest(spec, options, ranks, 4), expected);
    }
  }
}

TEST_F(BytesContract, EveryRegisteredTransformIsDeterministic) {
  LoaderOptions options{.workers = 0, .batch_size = kBatch, .seed = 1};
  const auto untouched = digest("", options, 1);
  for (const auto& name : TransformRegistry::names()) {
    const auto& spec = TransformRegistry::entry(name).traits.test_spec;
    ASSERT_EQ(parse_spec("transform", spec).name(), name) << "expected a test_spec in what registers the transform";
    if (!Pipeline(spec, {}).boxes_field().empty()) continue;  // these samples have none
    options.workers = 0;
    const auto expected = digest(spec, options, 1);
    const bool is_of_grey_alone = Pipeline(spec, {}).channels(1) == 3;  // and these pictures have colours
    EXPECT_EQ(expected == untouched, is_of_grey_alone) << spec;
    options.workers = 3;
    EXPECT_EQ(digest(spec, options, 2, 5), expected) << spec;
  }
}

TEST_F(BytesContract, EverySampleComesOnceAnEpoch) {
  for (const auto shuffle : {Shuffle::kNone, Shuffle::kGlobal, Shuffle::kRankLocal}) {
    for (const auto tail : {Tail::kPad, Tail::kDrop}) {
      for (const int ranks : {1, 2, 3, 8}) {
        for (const int64_t batch_size : {8, 17, 300, 1000}) {
          std::vector<int> seen(300);
          uint64_t delivered = 0, promised = 0;
          int64_t steps = -1;
          for (int rank = 0; rank < ranks; ++rank) {
            const auto data = dataset();
            Loader loader(data, pipeline_for(*data, ""),
                          {.workers = 2,
                           .batch_size = batch_size,
                           .rank = rank,
                           .world_size = ranks,
                           .tail = tail,
                           .shuffle = shuffle});
            promised += loader.samples_per_epoch();
            loader.start_epoch(0);
            const int64_t batches = consume(loader, [&](const Batch& batch) {
              for (int64_t row = 0; row < batch.rows(); ++row) {
                const auto i = static_cast<size_t>(row);
                ASSERT_EQ(batch.weights()[i], row < batch.count() ? 1 : 0);
                if (row >= batch.count()) continue;
                ++seen.at(batch.ids()[i] - 1000);
                ++delivered;
              }
            });
            ASSERT_EQ(batches, loader.batches_per_epoch());
            ASSERT_TRUE(steps < 0 || batches == steps) << "ranks differ in steps";
            steps = batches;
          }
          for (const int count : seen) ASSERT_TRUE(tail == Tail::kPad ? count == 1 : count <= 1);
          ASSERT_EQ(delivered, promised);
          if (shuffle != Shuffle::kRankLocal && tail == Tail::kDrop) {
            ASSERT_EQ(delivered, static_cast<uint64_t>(300 / batch_size * batch_size));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock
