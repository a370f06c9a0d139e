// Joined data sets, and how their samples are mixed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "loader/shards/joined_manifest.h"
#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using testing_data::consume;
using testing_data::pipeline_for;
using testing_data::TestData;

using Datasets = std::vector<std::shared_ptr<const Dataset>>;

std::string mix_refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class MixedSetsTest : public ::testing::Test {
 protected:
  Loader loader_of(LoaderOptions options, const std::string& augment = "") const {
    return {all, pipeline_for(*all, augment), std::move(options)};
  }
  /// The data sets of the rows of an epoch: an index of `all`, from position 0 on.
  std::vector<uint64_t> rows_of(const LoaderOptions& options, int64_t epoch = 0) const {
    const SampleOrder order(*all, options);
    const auto places = order.order_of(epoch);
    std::vector<uint64_t> rows;
    for (uint64_t position = 0; position < order.rows(); ++position)
      rows.push_back(order.place_at(places, position).index);
    return rows;
  }
  static int part_of(uint64_t index) { return index < 120 ? 0 : index < 160 ? 1 : 2; }
  std::map<int, uint64_t> counts_of(const std::string& sampler, const std::string& subset = "") const {
    std::map<int, uint64_t> counts;
    for (const uint64_t index : rows_of({.batch_size = 20, .subset = subset, .sampler = sampler}))
      ++counts[part_of(index)];
    return counts;
  }

  TestData a{{70, 50}}, b{{40}}, c{{5, 5}};
  std::shared_ptr<const Dataset> all = Dataset::join({a.open(), b.open(), c.open()});
};

TEST_F(MixedSetsTest, AJoinedDataSetHasTheSamplesOfAllOneAfterTheOther) {
  EXPECT_EQ(all->size(), 170U);
  EXPECT_EQ(all->shard_count(), 5);
  EXPECT_EQ(all->at(119).id, 1119U);
  EXPECT_EQ(all->at(120).id, 1000U);
  EXPECT_EQ(all->checked_at(169).id, 1009U);
  EXPECT_EQ(all->manifest().sample_count, 170U);
  EXPECT_EQ(all->manifest().class_counts[3], 17U);
  ASSERT_EQ(all->parts().size(), 3U);
  EXPECT_EQ(all->parts()[1].begin, 120U);
  EXPECT_EQ(all->parts()[1].folder, b.folder() / "train");
  EXPECT_THAT(all->where(130), HasSubstr(b.folder().string()));
  EXPECT_NEAR(all->manifest().statistics.mean[0], 0.5, 1e-12);
  EXPECT_NEAR(all->manifest().statistics.deviation[0], 0.25, 1e-12);
  auto loader = loader_of({.batch_size = 20});
  loader.start_epoch(0);
  std::multiset<uint64_t> ids;
  consume(loader, [&](const Batch& batch) {
    for (int64_t row = 0; row < batch.count(); ++row) ids.insert(batch.ids()[static_cast<size_t>(row)]);
  });
  EXPECT_EQ(ids.size(), 170U);
  EXPECT_EQ(ids.count(1005), 3U);
}

TEST_F(MixedSetsTest, DataSetsThatDoNotFitTogetherAreOneLine) {
  const TestData colored({10}, {{12, 12, 3}});
  EXPECT_THAT(mix_refusal([&] {
                Dataset::join(Datasets{a.open(), colored.open()});
              }),
              HasSubstr("pictures have 3 channels; expected 1, as in " + a.folder().string()));
  Manifest other = a.open()->manifest();
  other.class_names[4] = "four";
  const auto folder = a.folder(), second = b.folder();
  EXPECT_THAT(mix_refusal([&] {
                join_manifests({{folder, a.open()->manifest()}, {second, other}});
              }),
              HasSubstr("class 4 is \"four\"; expected \"4\", as in " + folder.string()));
  other = a.open()->manifest();
  other.fields.push_back({.name = "age"});
  EXPECT_THAT(mix_refusal([&] {
                join_manifests({{folder, a.open()->manifest()}, {second, other}});
              }),
              HasSubstr("has the fields \"age\": number F32 []; expected none"));
}

TEST_F(MixedSetsTest, FieldsMayHaveMoreEntriesInOneDataSetThanInAnother) {
  const auto with_most = [&](uint64_t most) {
    Manifest manifest = a.open()->manifest();
    manifest.fields.push_back({.name = "tags", .shape = {FieldType::kVariable}, .most = most});
    return manifest;
  };
  const auto joined =
      join_manifests({{a.folder(), with_most(2)}, {b.folder(), with_most(7)}, {c.folder(), with_most(1)}});
  EXPECT_EQ(joined.fields.at(0).most, 7U);
}

TEST_F(MixedSetsTest, AnIdInAListMayNameItsDataSet) {
  const auto list = a.folder() / "list.jsonl";
  const auto left = [&](const std::string& lines) {
    std::ofstream(list) << lines;
    return SampleOrder(*all, {.batch_size = 20, .exclude_ids = list.string()}).rows();
  };
  const std::string id = std::to_string(all->at(0).id), in = ",\"data\":\"";
  EXPECT_EQ(left(id + "\n"), 167U);  // each of the three data sets has a sample of this id
  EXPECT_EQ(left("{\"id\":" + id + in + all->parts()[1].name() + "\"}\n"), 169U);
  EXPECT_EQ(left("{\"id\":" + id + in + "/elsewhere\"}\n"), 170U);
}

TEST_F(MixedSetsTest, CountsAreThoseThatWereAskedFor) {
  using Counts = std::map<int, uint64_t>;
  EXPECT_EQ(counts_of("mix(proportion=1:1:2,rows=400)"), (Counts{{0, 100}, {1, 100}, {2, 200}}));
  EXPECT_EQ(counts_of("mix(proportion=0.5:0.3:0.2)"), (Counts{{0, 85}, {1, 51}, {2, 34}}));
  EXPECT_EQ(counts_of("mix(repeat=1:2:0)"), (Counts{{0, 120}, {1, 80}}));
  EXPECT_EQ(counts_of("mix(repeat=0.5:1:2.5)"), (Counts{{0, 60}, {1, 40}, {2, 25}}));
  EXPECT_EQ(counts_of("mix(choose=7:13:30,batches=random)"), (Counts{{0, 7}, {1, 13}, {2, 30}}));
  EXPECT_EQ(counts_of("mix(repeat=1:1:1)", "percent(0-50)"), (Counts{{0, 60}, {1, 20}}))
      << "half of each class of each data set; the third has one sample of each";
  // Inside of a data set all samples occur equally often, or once more than another.
  std::map<uint64_t, uint64_t> occurs;
  for (const uint64_t index : rows_of({.sampler = "mix(choose=7:13:35)"}, 4)) ++occurs[index];
  for (uint64_t index = 160; index < 170; ++index) {
    EXPECT_GE(occurs[index], 3U);
    EXPECT_LE(occurs[index], 4U);
  }
}

TEST_F(MixedSetsTest, TheLineBeforeARunSaysHowOftenSamplesOccur) {
  const auto text = SampleOrder(*all, {.batch_size = 20, .sampler = "mix(choose=120:100:5)"}).text();
  EXPECT_THAT(text, HasSubstr("/train (120 samples), 100 of "));
  EXPECT_THAT(text, HasSubstr("/train (40 samples, up to 3 times each), 5 of "));
  EXPECT_THAT(text, HasSubstr("/train (10 samples)"));
}

TEST_F(MixedSetsTest, BatchesAreStratifiedRandomOrOfOneDataSet) {
  const auto parts_in_batches = [&](const std::string& sampler) {
    std::vector<std::map<int, int>> batches;
    const auto rows = rows_of({.batch_size = 20, .sampler = sampler});
    for (size_t row = 0; row < rows.size(); ++row) {
      if (row % 20 == 0) batches.emplace_back();
      ++batches.back()[part_of(rows[row])];
    }
    return batches;
  };
  for (auto batch : parts_in_batches("mix(proportion=2:1:1,rows=400)"))
    EXPECT_EQ(batch, (std::map<int, int>{{0, 10}, {1, 5}, {2, 5}}));
  std::map<int, int> batches;
  for (const auto& batch : parts_in_batches("mix(proportion=2:1:1,rows=400,batches=per-source)")) {
    EXPECT_EQ(batch.size(), 1U);
    EXPECT_EQ(batch.begin()->second, 20);
    ++batches[batch.begin()->first];
  }
  EXPECT_EQ(batches, (std::map<int, int>{{0, 10}, {1, 5}, {2, 5}}));
  std::set<int> of_first;
  for (auto batch : parts_in_batches("mix(proportion=2:1:1,rows=400,batches=random)")) of_first.insert(batch[0]);
  EXPECT_GT(of_first.size(), 2U);
}

TEST_F(MixedSetsTest, ADataSetThatIsListedTwiceHasTwoOrdersAndTwoAugmentations) {
  all = Dataset::join({c.open(), c.open()});
  auto loader =
      loader_of({.batch_size = 20, .sampler = "mix(repeat=1:1)"}, "affine(degrees=40),color-jitter(brightness=0.8)");
  loader.start_epoch(0);
  const auto batch = *loader.next();
  std::vector<uint64_t> first, second;
  std::set<std::vector<std::byte>> pictures;
  for (size_t row = 0; row < 20; ++row) {
    (row % 2 == 0 ? first : second).push_back(batch.ids()[row]);
    const auto one = batch.pixels().subspan(row * 144 * 4, 144 * 4);
    pictures.emplace(one.begin(), one.end());
  }
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set(first.begin(), first.end()), std::set(second.begin(), second.end()));
  EXPECT_EQ(pictures.size(), 20U);
}

TEST_F(MixedSetsTest, TheDigestIsTheSameForAnyRanksAndABatchCanBeReachedFromAnywhere) {
  for (const char* batches : {"random", "stratified", "per-source"}) {
    const std::string sampler = concat("mix(proportion=2:1:1,rows=303,batches=", batches, ")");
    const auto digest_of = [&](int world_size, int64_t first) {
      Digest digest;
      for (int rank = 0; rank < world_size; ++rank) {
        auto loader = loader_of({.batch_size = 24, .rank = rank, .world_size = world_size, .sampler = sampler}, "flip");
        if (first == 0) {  // it came here
          loader.start_epoch(0);
          consume(loader);
          loader.start_epoch(1);
          while (const auto batch = loader.next())
            if (batch->index() >= 5) digest.add(*batch);
        } else {
          loader.start_epoch(1, first);
          consume(loader, [&](const Batch& batch) { digest.add(batch); });
        }
      }
      return digest.hex();
    };
    const auto expected = digest_of(1, 0);
    for (int ranks = 1; ranks <= 8; ++ranks) EXPECT_EQ(digest_of(ranks, 5), expected) << batches << ", " << ranks;
  }
}

TEST_F(MixedSetsTest, WhatIsWrongIsSaidInOneLine) {
  const auto says = [&](const std::string& sampler, const std::string& subset = "") {
    const auto message = mix_refusal([&] { rows_of({.batch_size = 20, .subset = subset, .sampler = sampler}); });
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  };
  EXPECT_THAT(says("mix"), HasSubstr("has 0 of proportion, repeat and choose; expected one of them"));
  EXPECT_THAT(says("mix(proportion=1:1)"), HasSubstr("proportion has 2 numbers for 3 data sets"));
  EXPECT_THAT(says("mix(repeat=1:-1:1)"), HasSubstr("repeat has -1; expected numbers of 0 or more"));
  EXPECT_THAT(says("mix(proportion=0:0:0)"), HasSubstr("all 3 weights are 0"));
  EXPECT_THAT(says("mix(choose=0:0:0)"), HasSubstr("an epoch of 0 rows"));
  EXPECT_THAT(says("mix(choose=1099511627776:2:0)"), HasSubstr("1.09951e+12 rows per epoch; expected"));
  EXPECT_THAT(says("mix(choose=999999937:2:0)"),
              HasSubstr("999999937 and 2 and 0, repeat their turns after 999999939; expected numbers with a common"));
  EXPECT_THAT(says("mix(choose=10:20:11,most=1)"),
              HasSubstr("whose 10 samples may occur 1 times; expected fewer rows"));
  EXPECT_THAT(says("mix(proportion=1:1:2,rows=20004)"),
              HasSubstr("10002 rows of " + (c.folder() / "train").string() +
                        ", whose 10 samples may occur 1000 times; expected fewer rows"));
  EXPECT_EQ(says("mix(proportion=1:1:2,rows=20000)"), "");
  EXPECT_EQ(says("mix(proportion=1:1:2,rows=20004,most=1001)"), "");
  EXPECT_EQ(says("mix(choose=1:1:20000)"), "") << "which says how many itself";
  EXPECT_THAT(says("mix(choose=0:0:167772161)"), HasSubstr("may occur 16777216 times"));
  EXPECT_THAT(says("mix(choose=1:1:1,rows=9)"), HasSubstr("expected rows with proportion alone"));
  EXPECT_THAT(says("mix(choose=1e300:1:1)"), HasSubstr("rows per epoch"));
  EXPECT_THAT(says("mix(repeat=1:1:1,batches=strat)"), HasSubstr("unknown kind of batches \"strat\""));
  std::ofstream(a.folder() / "ids") << "1100\n";
  EXPECT_THAT(says("mix(repeat=1:1:1,most=1)", "ids(" + (a.folder() / "ids").string() + ")"), "")
      << "0 rows of nothing";
  EXPECT_THAT(says("mix(choose=1:1:1)", "ids(" + (a.folder() / "ids").string() + ")"),
              HasSubstr("which has 0 samples"));
  all = a.open();
  EXPECT_THAT(says("mix(repeat=1)"), HasSubstr("1 data set; expected 2 to 255"));
}

}  // namespace
}  // namespace penstock
