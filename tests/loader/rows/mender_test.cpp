// Corrupt samples: masked, or another sample of the class in their place; the record of them; and too many of them.
#include "loader/rows/mender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using testing_data::consume;
using testing_data::make_loader;
using testing_data::TestData;

std::string mended_digest(const TestData& data, LoaderOptions options, int world_size, const std::string& augment) {
  Digest digest;
  options.world_size = world_size;
  for (options.rank = 0; options.rank < world_size; ++options.rank) {
    auto loader = make_loader(data, options, augment);
    for (const int64_t epoch : {0, 1}) {
      loader.start_epoch(epoch);
      consume(loader, [&](const Batch& batch) { digest.add(batch); });
    }
  }
  return digest.hex();
}

std::vector<nlohmann::json> quarantine_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(MenderTest, AnotherSampleOfTheClassTakesTheRow) {
  const TestData data({60, 60}, {{12, 12, 1}, {14, 14, 1}}, /*undecodable=*/33);
  for (const uint64_t index : {7, 50}) data.corrupt(index);
  auto loader = make_loader(data, {.batch_size = 20, .on_corrupt = OnCorrupt::kSubstitute}, "resize(size=12)");
  for (const int64_t epoch : {0, 1, 2}) {
    loader.start_epoch(epoch);
    std::map<uint64_t, int> counts;
    int64_t corrupt_count = 0;
    consume(loader, [&](const Batch& batch) {
      corrupt_count += batch.corrupt_count();
      for (size_t row = 0; row < 20; ++row) {
        ++counts[batch.ids()[row]];
        EXPECT_EQ(batch.indices()[row], batch.ids()[row] - 1000);
        EXPECT_EQ(batch.weights()[row], 1) << "epoch " << epoch;
        EXPECT_EQ(batch.labels()[row], static_cast<int64_t>(batch.ids()[row]) % 10);
      }
    });
    EXPECT_EQ(corrupt_count, 3);
    for (const uint64_t index : {7, 33, 50}) EXPECT_FALSE(counts.contains(1000 + index)) << index;
    int more = 0;  // of the classes of the corrupt samples
    for (const auto& [id, count] : counts)
      if (count > 1) {
        more += count - 1;
        EXPECT_TRUE(std::set<uint64_t>({7, 3, 0}).contains(id % 10)) << id;
      }
    EXPECT_EQ(more, 3) << "epoch " << epoch;
  }
  EXPECT_EQ(loader.statistics().substituted_count, 9U);
  EXPECT_EQ(loader.statistics().masked_count, 0U);
}

TEST(MenderTest, TheDigestIsTheSameForAnyRanksAndWorkers) {
  const TestData data({60, 60}, {{12, 12, 1}, {14, 14, 1}}, /*undecodable=*/33);
  for (const uint64_t index : {7, 17, 50}) data.corrupt(index);
  for (const auto policy : {OnCorrupt::kMask, OnCorrupt::kSubstitute})
    for (const char* augment : {"affine(degrees=10),resize(size=12)", "resize(size=12),mixup(alpha=1)"}) {
      LoaderOptions options{.batch_size = 20, .on_corrupt = policy};
      const auto expected = mended_digest(data, options, 1, augment);
      for (const int ranks : {2, 3, 7}) {
        options.workers = ranks - 2;
        EXPECT_EQ(mended_digest(data, options, ranks, augment), expected) << augment << ", " << ranks << " ranks";
      }
    }
}

TEST(MenderTest, ARowOfAMixHasThePartnerThatStandsAtItsPosition) {
  const TestData data({60, 60}, {{12, 12, 1}, {14, 14, 1}}, /*undecodable=*/33);
  for (const uint64_t index : {7, 17, 50}) data.corrupt(index);
  const LoaderOptions options{.batch_size = 20, .on_corrupt = OnCorrupt::kSubstitute};
  auto mixed = make_loader(data, options, "resize(size=12),mixup(alpha=1)"),
       plain = make_loader(data, options, "resize(size=12)");
  for (const int64_t epoch : {0, 1, 2}) {
    mixed.start_epoch(epoch), plain.start_epoch(epoch);
    while (const auto batch = mixed.next()) {
      const auto same = *plain.next();
      EXPECT_TRUE(std::equal(batch->ids().begin(), batch->ids().end(), same.ids().begin())) << "epoch " << epoch;
      for (const float weight : batch->weights()) EXPECT_EQ(weight, 1) << "epoch " << epoch;
    }
  }
}

TEST(MenderTest, SubstitutesDifferByPositionAndAreAugmentedOnTheirOwn) {
  const TestData data({200});
  for (const uint64_t index : {10, 20, 30, 40}) data.corrupt(index);  // all of class 0, which has 16 others
  auto loader = make_loader(data, {.batch_size = 200, .on_corrupt = OnCorrupt::kSubstitute, .most_corrupt = 1},
                            "affine(degrees=40),color-jitter(brightness=0.8)");
  std::set<uint64_t> most_in_an_epoch;
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    loader.start_epoch(epoch);
    const auto batch = *loader.next();
    std::multiset<uint64_t> ids(batch.ids().begin(), batch.ids().end());
    std::set<uint64_t> substitutes;
    for (const uint64_t id : ids)
      if (ids.count(id) > 1) substitutes.insert(id);
    if (substitutes.size() > most_in_an_epoch.size()) most_in_an_epoch = substitutes;
    std::set<std::vector<std::byte>> pictures;
    for (size_t row = 0; row < 200; ++row) {
      const auto one = batch.pixels().subspan(row * 144 * 4, 144 * 4);
      pictures.emplace(one.begin(), one.end());
    }
    EXPECT_EQ(pictures.size(), 200U) << "epoch " << epoch;
  }
  EXPECT_GE(most_in_an_epoch.size(), 3U);
}

TEST(MenderTest, AMaskedRowIsThatOfItsOwnSampleAlsoAfterCandidatesThatPassTheirChecksums) {
  const TestData data({20}, {{12, 12, 1}, {14, 14, 1}}, /*undecodable=*/3);
  data.corrupt(13);  // the other one of class 3
  for (const char* augment : {"resize(size=12)", "resize(size=12),mixup(alpha=1)"}) {
    auto loader = make_loader(data, {.batch_size = 20, .on_corrupt = OnCorrupt::kSubstitute}, augment);
    loader.start_epoch(0);
    const auto batch = *loader.next();
    EXPECT_EQ(std::set<uint64_t>(batch.ids().begin(), batch.ids().end()).size(), 20U) << augment;
    std::set<uint64_t> masked;
    for (size_t row = 0; row < 20; ++row)
      if (batch.weights()[row] == 0) masked.insert(batch.ids()[row]);
    EXPECT_TRUE(masked.contains(1003) && masked.contains(1013)) << augment;
    EXPECT_EQ(masked.size(), batch.second_labels().empty() ? 2U : 4U) << augment;  // those with such partners as well
  }
}

TEST(MenderTest, WhereAllOfAClassAreCorruptTheRowIsMasked) {
  const TestData data({30});
  for (const uint64_t index : {4, 14, 24}) data.corrupt(index);
  auto loader = make_loader(data, {.batch_size = 30, .on_corrupt = OnCorrupt::kSubstitute});
  loader.start_epoch(0);
  const auto batch = *loader.next();
  for (size_t row = 0; row < 30; ++row) {
    const bool is_corrupt = batch.ids()[row] % 10 == 4;
    EXPECT_EQ(batch.weights()[row], is_corrupt ? 0 : 1);
    if (!is_corrupt) continue;
    EXPECT_EQ(batch.labels()[row], 4);
    const auto one = batch.pixels().subspan(row * 144 * 4, 144 * 4);
    EXPECT_TRUE(std::all_of(one.begin(), one.end(), [](std::byte byte) { return byte == std::byte{0}; }));
  }
  std::multiset<uint64_t> ids(batch.ids().begin(), batch.ids().end());
  for (const uint64_t id : {1004, 1014, 1024}) EXPECT_EQ(ids.count(id), 1U) << "a masked row keeps its own id";
  EXPECT_EQ(loader.statistics().masked_count, 3U);
}

TEST(MenderTest, ASubstituteIsOneOfTheSubset) {
  const TestData data({100});
  data.corrupt(5);
  auto loader = make_loader(
      data, {.batch_size = 50, .subset = "percent(0-50)", .on_corrupt = OnCorrupt::kSubstitute, .most_corrupt = 1});
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    loader.start_epoch(epoch);
    consume(loader, [&](const Batch& batch) {
      for (const uint64_t id : batch.ids()) EXPECT_LT(id, 1050U);
    });
  }
}

TEST(MenderTest, TheQuarantineHasALineForEachCorruptSample) {
  const TestData data({60, 60}, {{12, 12, 1}, {14, 14, 1}}, /*undecodable=*/33);
  data.corrupt(70);
  const auto path = data.folder() / "quarantine.jsonl";
  for (const auto policy : {OnCorrupt::kMask, OnCorrupt::kSubstitute}) {
    std::filesystem::remove(path);
    LoaderOptions options{.workers = 2, .batch_size = 20, .on_corrupt = policy, .quarantine = path};
    auto loader = make_loader(data, options, "resize(size=12)");
    for (const int64_t epoch : {0, 1}) loader.start_epoch(epoch), consume(loader);
    auto other_rank = make_loader(data, options, "resize(size=12)");  // meets the same samples, and adds no line
    other_rank.start_epoch(0), consume(other_rank);
    auto lines = quarantine_lines(path);
    ASSERT_EQ(lines.size(), 2U);
    std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a["id"] < b["id"]; });
    EXPECT_EQ(lines[0]["id"], 1033);
    EXPECT_EQ(lines[0]["label"], 3);
    EXPECT_EQ(lines[1]["index"], 70);
    EXPECT_EQ(lines[1]["split"], "train");
    EXPECT_THAT(lines[1]["error"].get<std::string>(), HasSubstr("crc32c"));
    // What is excluded is neither met nor written.
    auto without = make_loader(data, {.batch_size = 20, .exclude_ids = path.string(), .on_corrupt = OnCorrupt::kFail},
                               "resize(size=12)");
    without.start_epoch(0);
    int64_t rows = 0;
    consume(without, [&](const Batch& batch) { rows += batch.count(); });
    EXPECT_EQ(rows, 118);
  }
}

TEST(MenderTest, MoreThanOnePercentOfAThousandRowsEndsTheLoop) {
  const TestData data({1200});
  for (uint64_t index = 0; index < 13; ++index) data.corrupt(index * 7);
  const auto batches_until_error = [&](double most, int workers) {
    auto loader = make_loader(data, {.workers = workers,
                                     .batch_size = 100,
                                     .shuffle = Shuffle::kNone,
                                     .on_corrupt = OnCorrupt::kMask,
                                     .most_corrupt = most});
    loader.start_epoch(0);
    int batches = 0;
    std::string message;
    try {
      while (loader.next()) ++batches;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      message = error.what();
    }
    return std::pair(batches, message);
  };
  for (const int workers : {0, 2}) {
    EXPECT_EQ(batches_until_error(0.01, workers),
              std::pair(9, std::string("loader: 13 of 1,000 rows are of corrupt samples, more than 1 %; expected "
                                       "fewer: see what shardprep verify says of the data set")));
    EXPECT_EQ(batches_until_error(0.013, workers).first, 12);
  }
}

}  // namespace
}  // namespace penstock
