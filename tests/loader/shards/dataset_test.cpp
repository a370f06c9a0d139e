// Dataset and manifest: samples come in order, checksums are verified once, and disagreements are named.
#include "loader/shards/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/text.h"
#include "loader/shards/shard_writer.h"
#include "tests/loader/add_sample.h"
#include "tests/loader/storage_test_data.h"
#include "tests/support/case_stride.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::read_bytes;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;
namespace fs = std::filesystem;

std::string shard_name(size_t shard) { return "shard-" + std::to_string(shard); }

/// Writes shards of `sizes` samples, of split test if that is the folder's name, otherwise of train. Ids count from 0,
/// labels alternate between two classes, and every pixel is the id.
Manifest write_split(const fs::path& folder, const std::vector<int>& sizes) {
  fs::create_directories(folder);
  Manifest manifest;
  manifest.split = folder.filename() == "test" ? "test" : "train";
  manifest.source = "test(size=\"2\")";
  manifest.class_names = {"even", "odd \u00e9"};
  manifest.class_counts = {0, 0};
  manifest.extent = Extent{2, 2, 1};
  manifest.statistics = {1, {0.125, 0, 0}, {0.1, 1, 1}};
  for (size_t shard = 0; shard < sizes.size(); ++shard) {
    ShardWriter writer(folder / shard_name(shard), manifest.extent);
    for (int row = 0; row < sizes[shard]; ++row) {
      const uint64_t id = manifest.sample_count++;
      testing_data::add_sample(writer, id, static_cast<int64_t>(id % 2), {2, 2, 1}, Encoding::kRaw,
                               Bytes(4, static_cast<uint8_t>(id)));
      ++manifest.class_counts[id % 2];
    }
    manifest.shards.push_back(
        {shard_name(shard), static_cast<uint64_t>(sizes[shard]), writer.finish(), std::string(32, 'a')});
  }
  write_manifest(folder, manifest);
  return manifest;
}

TEST(DatasetTest, SamplesRunOverTheShardsInOrder) {
  const TemporaryFolder folder;
  write_split(folder / "train", {3, 0, 1, 4, 0});
  const auto dataset = Dataset::open(folder.path());
  ASSERT_EQ(dataset->size(), 8u);
  EXPECT_EQ(dataset->shard_count(), 5);
  const std::vector<uint64_t> begins{0, 3, 3, 4, 8, 8};
  for (int shard = 0; shard <= 5; ++shard) EXPECT_EQ(dataset->shard_begin(shard), begins[static_cast<size_t>(shard)]);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(dataset->at(i).id, i);
    EXPECT_EQ(dataset->checked_at(i).bytes[0], i);
  }
  EXPECT_EQ(dataset->where(5), (folder / "train" / "shard-3").string() + ": sample 1 (id 5) at byte 4100");
}

TEST(DatasetTest, AShareOpensItsShardsAlone) {
  const TemporaryFolder folder;
  write_split(folder / "train", {3, 2, 4, 5});
  for (const auto* other : {"shard-0", "shard-2"}) std::filesystem::remove(folder / "train" / other);
  const auto dataset = Dataset::open(folder.path(), "train", {.rank = 1, .world_size = 2});
  EXPECT_EQ(dataset->size(), 14u);
  EXPECT_EQ(dataset->example()->id, 3u);
  for (const uint64_t index : {3, 4, 9, 13}) EXPECT_EQ(dataset->checked_at(index).id, index);
  EXPECT_THAT(error_of([&] { dataset->at(5); }),
              testing::AllOf(testing::StartsWith("6 "), HasSubstr("shard-2: sample 5 of the split")));
  EXPECT_THAT(error_of([&] { Dataset::open(folder.path()); }), testing::StartsWith("3 "));
  EXPECT_THAT(error_of([&] { Dataset::open(folder.path(), "train", {.rank = 2, .world_size = 2}); }),
              HasSubstr("the shards of rank 2 of 2; expected"));
}

TEST(DatasetTest, OpensADataSetOrASplitsFolder) {
  const TemporaryFolder folder;
  write_split(folder / "train", {1});
  write_split(folder / "test", {2});
  EXPECT_EQ(Dataset::open(folder.path())->size(), 1u);
  EXPECT_EQ(Dataset::open(folder.path(), "test")->size(), 2u);
  EXPECT_EQ(Dataset::open(folder / "test")->size(), 2u);
  EXPECT_EQ(Dataset::open(folder / "test")->folder(), folder / "test");
  EXPECT_THAT(error_of([&] { Dataset::open(folder.path(), "all"); }),
              testing::AllOf(testing::StartsWith("3 "), HasSubstr("no all/manifest.json"),
                             HasSubstr("; expected split train or test, as is there")));
  EXPECT_THAT(error_of([&] { Dataset::open(folder / "nowhere"); }), testing::StartsWith("3 "));
  fs::create_directory(folder / "empty");
  EXPECT_EQ(error_of([&] { Dataset::open(folder.path(), "zz"); }),
            "2 " + folder.path().string() + ": split is \"zz\"; expected train or test, as is there");
  for (const std::string split : {"..", "../train", ""})
    EXPECT_EQ(error_of([&] { Dataset::open(folder / "empty", split); }),
              "2 " + (folder / "empty").string() + ": split is \"" + split + "\"; expected train, test or all");
}

TEST(DatasetTest, ASplitThatIsFoundByItsNameMustBeThatSplit) {
  const TemporaryFolder folder;
  write_split(folder / "test", {2});
  fs::rename(folder / "test", folder / "train");
  const std::string manifest = (folder / "train/manifest.json").string();
  EXPECT_EQ(error_of([&] { Dataset::open(folder.path()); }),
            "4 " + manifest + ": split is \"test\"; expected \"train\", as the folder's name says");
  EXPECT_EQ(Dataset::open(folder / "train")->size(), 2u);  // opened itself, a split's folder may have any name
}

TEST(DatasetTest, AFolderThatCannotBeLookedAtIsNotCalledEmpty) {
  const TemporaryFolder folder;
  fs::create_directory_symlink("loop", folder / "loop");
  fs::create_directory_symlink("train", folder / "train");
  for (const auto& path : {folder / "loop", folder.path()})
    EXPECT_THAT(error_of([&] { Dataset::open(path); }),
                testing::AllOf(testing::StartsWith("3 " + path.string()),
                               HasSubstr("/manifest.json: Too many levels of symbolic links; expected")));
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms::none);
  fs::permissions(folder.path(), fs::perms::all);
  const uid_t user = geteuid();
  if (user == 0) {
    ASSERT_EQ(seteuid(65534), 0);  // root may enter every folder
  }
  const std::string error = error_of([&] { Dataset::open(folder / "closed"); });
  ASSERT_EQ(seteuid(user), 0);
  EXPECT_THAT(error, HasSubstr("/closed/manifest.json: Permission denied; expected"));
}

TEST(DatasetTest, AChangedSampleIsFoundOnceAndEveryTime) {
  const TemporaryFolder folder;
  write_split(folder / "train", {3, 2});
  Bytes shard = read_bytes(folder / "train" / "shard-1");
  shard[kShardHeaderBytes + 4] ^= 1;
  write_bytes(folder / "train" / "shard-1", shard);
  const auto dataset = Dataset::open(folder.path());
  EXPECT_EQ(dataset->at(4).id, 4u);
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_NO_THROW(dataset->checked_at(3));
    EXPECT_THAT(error_of([&] { dataset->checked_at(4); }),
                HasSubstr("shard-1: sample 1 (id 4) at byte 4100: crc32c is"));
  }
}

TEST(DatasetTest, ShardsMustAgreeWithTheManifest) {
  const auto error_after = [](const std::function<void(Manifest&)>& change) {
    const TemporaryFolder folder;
    Manifest manifest = write_split(folder / "train", {3, 2});
    change(manifest);
    write_manifest(folder / "train", manifest);
    return error_of([&] { Dataset::open(folder.path()); });
  };
  EXPECT_EQ(error_after([](Manifest&) {}), "");
  EXPECT_THAT(error_after([](Manifest& m) {
                m.class_names.pop_back();
                m.class_counts = {5};
              }),
              testing::AllOf(testing::StartsWith("4 "),
                             HasSubstr("sample 1 (id 1) at byte 4100: label is 1; expected 0 to 0")));
  EXPECT_THAT(error_after([](Manifest& m) { std::swap(m.shards[0].sample_count, m.shards[1].sample_count); }),
              HasSubstr("shard-0: 3 samples; expected 2, as the manifest says"));
  EXPECT_THAT(error_after([](Manifest& m) { ++m.shards[1].byte_count; }),
              testing::AllOf(testing::StartsWith("4 "), HasSubstr("shard-1: "), HasSubstr(" bytes; expected ")));
  EXPECT_THAT(error_after([](Manifest& m) {
                m.extent = Extent{2, 3, 1};
              }),
              HasSubstr("extent is 2 x 2 x 1; expected 2 x 3 x 1, as the manifest says"));
  EXPECT_THAT(error_after([](Manifest& m) { m.shards[1].file = "gone"; }),
              testing::AllOf(testing::StartsWith("3 "), HasSubstr("gone: No such file")));
}

TEST(DatasetTest, ShardsThatWereExchangedAreNoticedWhenTheSplitIsOpened) {
  const TemporaryFolder folder;
  pack(testing_data::digits(folder / "d", 20, 2));
  const auto split = folder / "d/train";
  const Manifest manifest = read_manifest(split);
  ASSERT_EQ(manifest.shards[0].byte_count, manifest.shards[1].byte_count);
  const auto first = split / manifest.shards[0].file, second = split / manifest.shards[1].file;
  fs::rename(first, split / "aside");
  fs::rename(second, first);
  fs::rename(split / "aside", second);
  EXPECT_EQ(error_of([&] { Dataset::open(split); }),
            "4 " + first.string() +
                ": sample 0 (id 10) at byte 4096: id is 10; expected 0, as the manifest says of the "
                "first sample in this file");
  Manifest earlier = manifest;  // a manifest of an earlier version does not say
  for (auto& shard : earlier.shards) shard.first_id.reset();
  write_manifest(split, earlier);
  EXPECT_EQ(Dataset::open(split)->size(), 20u);
}

TEST(DatasetTest, AShardIsOpenedWhenItIsAskedFor) {
  const TemporaryFolder folder;
  write_split(folder / "train", {3, 2, 4});
  const auto wait = Opening::kWhenAsked;
  const auto whole = Dataset::open(folder.path(), "train", {}, wait);
  for (uint64_t i = 0; i < 9; ++i) EXPECT_EQ(whole->checked_at(i).id, i);
  EXPECT_EQ(whole->example()->id, 0u);
  fs::remove(folder / "train/shard-1");
  const auto dataset = Dataset::open(folder.path(), "train", {}, wait);
  EXPECT_EQ(dataset->size(), 9u);
  EXPECT_EQ(dataset->at(5).id, 5u);
  const std::string gone = error_of([&] { Dataset::open(folder.path()); });
  EXPECT_THAT(gone, testing::AllOf(testing::StartsWith("3 "), HasSubstr("shard-1: No such file")));
  for (int repeat = 0; repeat < 2; ++repeat) EXPECT_EQ(error_of([&] { dataset->at(3); }), gone);
  EXPECT_NO_THROW(dataset->check_files());  // of the shards that are open
}

TEST(DatasetTest, AShardThatIsOpenedLaterIsCheckedAsOneThatIsOpenedAtOnce) {
  const auto errors_after = [](const std::function<void(Manifest&)>& change) {
    const TemporaryFolder folder;
    Manifest manifest = write_split(folder / "train", {3, 2});
    change(manifest);
    write_manifest(folder / "train", manifest);
    const auto dataset = Dataset::open(folder.path(), "train", {}, Opening::kWhenAsked);
    EXPECT_EQ(error_of([&] { dataset->at(4); }), error_of([&] { Dataset::open(folder.path()); }));
    return error_of([&] { dataset->at(4); });
  };
  EXPECT_THAT(errors_after([](Manifest& m) { ++m.shards[1].byte_count; }), HasSubstr(" bytes; expected "));
  EXPECT_THAT(errors_after([](Manifest& m) { m.shards[1].first_id = 8; }),
              HasSubstr("id is 3; expected 8, as the manifest says"));
}

TEST(DatasetTest, ManyThreadsOpenAShardOnceTogether) {
  const TemporaryFolder folder;
  write_split(folder / "train", std::vector<int>(40, 5));
  const auto dataset = Dataset::open(folder.path(), "train", {}, Opening::kWhenAsked);
  std::atomic<bool> differs{false};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread)
      threads.emplace_back([&] {
        for (uint64_t i = 0; i < 200; ++i) differs = differs || dataset->checked_at(i).id != i;
      });
  }
  EXPECT_FALSE(differs);
}

TEST(DatasetTest, AManifestOfManyShardsOpensWithoutTouchingThem) {
  const TemporaryFolder folder;
  Manifest manifest = write_split(folder / "train", {3, 2});
  const auto real = manifest.shards;
  manifest.shards.clear();
  constexpr size_t kShards = 100'000 / kCaseStride, kReal = kShards / 9 * 7;
  for (size_t shard = 0; shard < kShards; ++shard)
    manifest.shards.push_back(shard == kReal ? real[1]
                                             : Manifest::Shard{"shard-of-many-" + std::to_string(shard), 10'000,
                                                               uint64_t{1} << 30, std::string(32, '0')});
  manifest.sample_count = (kShards - 1) * 10'000 + 2;
  manifest.class_counts = {manifest.sample_count, 0};
  write_manifest(folder / "train", manifest);
  const auto dataset = Dataset::open(folder.path());
  EXPECT_EQ(dataset->size(), manifest.sample_count);
  EXPECT_EQ(dataset->shard_count(), static_cast<int64_t>(kShards));
  EXPECT_EQ(dataset->checked_at(kReal * 10'000 + 1).id, 4u);
  EXPECT_THAT(
      error_of([&] { dataset->at(kReal * 10'000 + 2); }),
      testing::AllOf(testing::StartsWith("3 "), HasSubstr(concat("shard-of-many-", kReal + 1, ": No such file"))));
}

TEST(DatasetTest, ADroppedShardIsReadAgain) {
  const TemporaryFolder folder;
  write_split(folder / "train", {3, 2});
  const auto dataset = Dataset::open(folder.path(), "train", {}, Opening::kWhenAsked);
  dataset->drop(1);  // which is not open
  const Sample sample = dataset->checked_at(4);
  dataset->drop(1);
  EXPECT_EQ(sample.bytes[0], 4u);
  dataset->read_ahead(1);
  dataset->read_ahead(0);
  EXPECT_EQ(dataset->at(4).bytes[0], 4u);
  fs::remove(folder / "train/shard-0");
  EXPECT_EQ(dataset->at(0).id, 0u);  // a map keeps what it maps
}

TEST(ManifestTest, ComesBackAsWritten) {
  const TemporaryFolder folder;
  Manifest written = write_split(folder / "x", {3, 2});
  written.shuffle_seed = 9;
  written.skipped_count = 4;
  written.warned_count = 3;
  written.shards[0].first_id = 7;
  written.channels = written.statistics.channels = 3;
  written.extent = {};
  written.statistics.mean = {1.0 / 3, 0.1, 5e-324};
  write_manifest(folder / "x", written);
  const Manifest read = read_manifest(folder / "x");
  EXPECT_EQ(read.split, written.split);
  EXPECT_EQ(read.source, written.source);
  EXPECT_EQ(read.shuffle_seed, 9);
  EXPECT_EQ(read.sample_count, 5u);
  EXPECT_EQ(read.skipped_count, 4u);
  EXPECT_EQ(read.warned_count, 3u);
  EXPECT_EQ(read.shards.at(0).first_id, 7u);
  EXPECT_EQ(read.shards.at(1).first_id, std::nullopt);
  EXPECT_EQ(read.class_names, written.class_names);
  EXPECT_EQ(read.class_counts, written.class_counts);
  EXPECT_EQ(read.extent, written.extent);
  EXPECT_EQ(read.statistics.mean, written.statistics.mean);
  EXPECT_EQ(read.statistics.deviation, written.statistics.deviation);
  ASSERT_EQ(read.shards.size(), 2u);
  EXPECT_EQ(read.shards[1].file, "shard-1");
  EXPECT_EQ(read.shards[1].byte_count, written.shards[1].byte_count);
  EXPECT_EQ(read.shards[1].xxh3, written.shards[1].xxh3);
}

TEST(ManifestTest, WrongManifestsAreCorruptAndTheKeyIsNamed) {
  using Json = nlohmann::json;
  const std::vector<std::pair<std::function<void(Json&)>, std::string>> cases{
      {[](Json& m) { m = Json::array(); }, "expected a JSON object"},
      {[](Json& m) { m["format_version"] = 2; }, "format_version is 2; expected 1"},
      {[](Json& m) { m.erase("mean"); }, "no key \"mean\""},
      {[](Json& m) { m["split"] = 1; }, "split is 1; expected a text"},
      {[](Json& m) { m["sample_count"] = -1; }, "sample_count is -1; expected a whole number"},
      {[](Json& m) { m["sample_count"] = 6; },
       "class_counts is [3,2]; expected numbers that add up to sample_count, 6"},
      {[](Json& m) {
         m["class_counts"] = {3, 3}, m["sample_count"] = 6;
       },
       "sample_count is 6; expected 5, the sum over"},
      {[](Json& m) {
         m["class_counts"] = {18446744073709551615u, 6};
       },
       "numbers that add up to sample_count"},
      {[](Json& m) { m["class_counts"] = {5}; }, "expected 2 numbers, as many as class_names"},
      {[](Json& m) {
         m["class_names"] = {1, 2};
       },
       "class_names is [1,2]; expected a list of texts"},
      {[](Json& m) { m["channels"] = 33; }, "channels is 33; expected 1 to 32"},
      {[](Json& m) { m["channels"] = 0; }, "channels is 0; expected 1 to 32"},
      {[](Json& m) { m["pixels"] = "f64"; }, "pixels is \"f64\"; expected u8, u16 or f32"},
      {[](Json& m) {
         m["mean"] = {0.1, 0.2};
       },
       "mean is [0.1,0.2]; expected 1 numbers"},
      {[](Json& m) { m["deviation"] = "x"; }, "deviation is \"x\"; expected a list of numbers"},
      {[](Json& m) {
         m["extent"] = {2, 0, 1};
       },
       "extent is [2,0,1]; expected null or"},
      {[](Json& m) {
         m["extent"] = {2, 2, 3};
       },
       "extent is [2,2,3]"},
      {[](Json& m) {
         m["extent"] = {2, 2};
       },
       "extent is [2,2]"},
      {[](Json& m) { m["mean"] = {-1}; }, "mean is [-1]; expected numbers from 0 to 1"},
      {[](Json& m) { m["deviation"] = {-0.5}; }, "deviation is [-0.5]; expected numbers from 0 to 1"},
      {[](Json& m) { m["deviation"] = {1.5}; }, "deviation is [1.5]; expected numbers from 0 to 1"},
      {[](Json& m) { m["shuffle_seed"] = "a"; }, "shuffle_seed is \"a\""},
      {[](Json& m) { m["shuffle_seed"] = uint64_t{1} << 63; }, "shuffle_seed is 9223372036854775808; expected null"},
      {[](Json& m) { m["shards"] = 3; }, "shards is 3; expected a list"},
      {[](Json& m) { m["shards"][1] = 3; }, "shards[1]: is 3"},
      {[](Json& m) { m["shards"][1]["file"] = "../shard-1"; },
       "shards[1]: file is \"../shard-1\"; expected the name of a file inside"},
      {[](Json& m) { m["shards"][1]["file"] = "/etc/passwd"; }, "expected the name of a file inside"},
      {[](Json& m) { m["shards"][1]["file"] = ".."; }, "expected the name of a file inside"},
      {[](Json& m) { m["shards"][1]["file"] = ""; }, "expected the name of a file inside"},
      {[](Json& m) { m["shards"][1]["file"] = "shard-0"; }, "not shard-0 twice"},
      {[](Json& m) { m["shards"][1]["xxh3"] = "zz"; }, "xxh3 is \"zz\"; expected 32 hex digits"},
      {[](Json& m) { m["shards"][1]["byte_count"] = 1.5; }, "byte_count is 1.5"}};
  for (const auto& [change, expected] : cases) {
    const TemporaryFolder folder;
    write_split(folder / "x", {3, 2});
    const Bytes text = read_bytes(folder / "x" / "manifest.json");
    Json manifest = Json::parse(text);
    change(manifest);
    write_bytes(folder / "x" / "manifest.json", manifest.dump());
    EXPECT_THAT(
        error_of([&] { read_manifest(folder / "x"); }),
        testing::AllOf(testing::StartsWith("4 " + (folder / "x" / "manifest.json").string()), HasSubstr(expected)));
  }
}

TEST(ManifestTest, BrokenTextIsCorrupt) {
  const TemporaryFolder folder;
  write_split(folder / "x", {1});
  const Bytes text = read_bytes(folder / "x" / "manifest.json");
  for (size_t size = 0; size + 2 < text.size(); size += 7) {
    write_bytes(folder / "y" / "manifest.json", Bytes(text.begin(), text.begin() + static_cast<ptrdiff_t>(size)));
    EXPECT_THAT(error_of([&] { read_manifest(folder / "y"); }), testing::StartsWith("4 ")) << size;
  }
  EXPECT_THAT(error_of([&] { read_manifest(folder / "z"); }), testing::StartsWith("3 "));
}

}  // namespace
}  // namespace penstock
