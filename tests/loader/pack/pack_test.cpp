// pack(): distributes samples evenly, gives the same bytes with any number of jobs, and leaves nothing half-written.
#include "loader/pack/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <new>
#include <set>

#include "loader/codecs/codec.h"
#include "loader/files/safetensors.h"
#include "loader/pack/partial.h"
#include "loader/pack/verify.h"
#include "loader/shards/dataset.h"
#include "loader/shards/shard_writer.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_data::Bytes;
using testing_data::digits;
using testing_data::error_of;
using testing_data::files_below;
using testing_data::golden_picture;
using testing_data::golden_pictures;
using testing_data::names_in;
using testing_data::pictures;
using testing_data::read_bytes;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;
using testing_data::write_pictures;
namespace fs = std::filesystem;

TEST(PackTest, EveryShardHasEveryClassToWithinOneSample) {
  for (const auto& [count, shards] : std::vector<std::pair<int, int>>{{100, 7}, {23, 4}, {3, 5}, {61, 1}}) {
    const TemporaryFolder folder;
    pack(digits(folder / "d", count, shards));
    const auto dataset = Dataset::open(folder / "d");
    std::set<uint64_t> ids;
    // One per class, then one for all.
    std::vector<std::vector<int>> counts(static_cast<size_t>(shards), std::vector<int>(11));
    for (int shard = 0; shard < shards; ++shard) {
      for (uint64_t i = dataset->shard_begin(shard); i < dataset->shard_begin(shard + 1); ++i) {
        EXPECT_TRUE(ids.insert(dataset->at(i).id).second);
        ++counts[static_cast<size_t>(shard)][static_cast<size_t>(dataset->at(i).label)];
        ++counts[static_cast<size_t>(shard)][10];
      }
    }
    EXPECT_EQ(ids.size(), static_cast<size_t>(count));
    for (const auto& a : counts)
      for (const auto& b : counts)
        for (size_t label = 0; label < 11; ++label)
          EXPECT_LE(std::abs(a[label] - b[label]), 1) << count << ", class " << label;
  }
}

TEST(PackTest, BytesDoNotDependOnJobs) {
  const TemporaryFolder folder;
  write_pictures(folder / "in");
  for (const bool is_shuffled : {false, true}) {
    std::vector<std::map<std::string, Bytes>> results;
    for (const int jobs : {1, 2, 7}) {
      PackOptions options = pictures(folder);
      options.shard_count = 5;
      options.jobs = jobs;
      options.force = true;
      options.shuffle_seed = is_shuffled ? 4 : -1;
      pack(options);
      results.push_back(files_below(folder / "out"));
    }
    EXPECT_EQ(results[0].size(), 6u);
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST(PackTest, TheSeedChoosesTheOrderInsideShards) {
  const TemporaryFolder folder;
  const auto ids_with = [&](int64_t seed) {
    PackOptions options = digits(folder / "d", 40, 2);
    options.shuffle_seed = seed;
    options.force = true;
    pack(options);
    const auto dataset = Dataset::open(folder / "d");
    EXPECT_EQ(dataset->manifest().shuffle_seed, seed);
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < dataset->shard_begin(1); ++i) ids.push_back(dataset->at(i).id);
    return ids;
  };
  const auto by_id = ids_with(-1), one = ids_with(1), two = ids_with(2);
  EXPECT_TRUE(std::is_sorted(by_id.begin(), by_id.end()));
  EXPECT_NE(one, by_id);
  EXPECT_NE(one, two);
  EXPECT_THAT(one, testing::UnorderedElementsAreArray(by_id));
}

TEST(PackTest, StatisticsAreThoseOfTheDecodedPictures) {
  const TemporaryFolder folder;
  write_pictures(folder / "in");
  pack(pictures(folder));
  const Manifest manifest = read_manifest(folder / "out" / "train");
  EXPECT_EQ(manifest.channels, 3);
  EXPECT_FALSE(manifest.extent);
  EXPECT_EQ(manifest.class_counts, (std::vector<uint64_t>{4, 9}));
  for (size_t channel = 0; channel < 3; ++channel) {
    std::vector<double> levels;
    for (const auto& golden : golden_pictures()) {
      const auto channels = static_cast<size_t>(golden.extent.channels);
      for (size_t i = channels == 1 ? 0 : channel; i < golden.pixels.size(); i += channels)
        levels.push_back(golden.pixels[i] / 255.0);
    }
    double mean = 0, variance = 0;
    for (const double level : levels) mean += level / static_cast<double>(levels.size());
    for (const double level : levels) variance += (level - mean) * (level - mean) / static_cast<double>(levels.size());
    EXPECT_NEAR(manifest.statistics.mean[channel], mean, 1e-12);
    EXPECT_NEAR(manifest.statistics.deviation[channel], std::sqrt(variance), 1e-12);
  }
}

TEST(PackTest, PicturesAreStoredAsTheyCame) {
  const TemporaryFolder folder;
  write_pictures(folder / "in");
  auto options = pictures(folder);
  options.storage = {.encode = Encode::kKeep, .transcodes = false, .sixteen_bit = SixteenBit::kKeep};
  pack(options);
  const auto dataset = Dataset::open(folder / "out");
  std::set<std::string> stored, expected;
  for (uint64_t i = 0; i < dataset->size(); ++i) {
    const auto bytes = dataset->checked_at(i).bytes;
    stored.emplace(bytes.begin(), bytes.end());
  }
  for (const auto& golden : golden_pictures()) expected.emplace(golden.file.begin(), golden.file.end());
  EXPECT_EQ(stored, expected);
}

/// A source of two pictures whose bytes nobody gets.
class Unread final : public Source {
 public:
  uint64_t size() const override { return 2; }
  std::vector<std::string> class_names() const override { return {"a"}; }
  int64_t label(uint64_t) const override { return 0; }
  std::string where(uint64_t index) const override { return "picture " + std::to_string(index); }
  std::string fingerprint() const override { return ""; }
  SourceSample read(uint64_t) const override {
    ++read_count;
    throw std::bad_alloc();
  }
  mutable std::atomic<int> read_count = 0;
};

TEST(PackTest, AnOutputThatCannotBeWrittenIsFoundBeforeAPictureIsRead) {
  const Unread source;
  PackOptions options = digits("/dev/null/x", 2, 1);
  EXPECT_THAT(error_of([&] { pack(source, "unread", options); }), StartsWith("3 /dev/null/x: "));
  EXPECT_EQ(source.read_count, 0);
}

TEST(PackTest, APictureForWhichThereIsNoMemoryIsNamed) {
  const TemporaryFolder folder;
  for (const auto encode : {Encode::kAuto, Encode::kKeep}) {
    PackOptions options = digits(folder / "d", 2, 1);
    options.storage.encode = encode;
    EXPECT_THAT(error_of([&] { pack(Unread(), "unread", options); }), StartsWith("5 picture 0: no memory for its"));
  }
}

TEST(PackTest, AFileThatIsTooLargeForAPictureIsBroken) {
  const TemporaryFolder folder;
  write_pictures(folder / "in");
  write_bytes(folder / "in/a/large.jpg", Bytes{0xFF, 0xD8, 0xFF, 0xE0});
  fs::resize_file(folder / "in/a/large.jpg", uint64_t{1} << 40);  // sparse
  EXPECT_THAT(error_of([&] { pack(pictures(folder)); }),
              testing::AllOf(StartsWith("4 " + (folder / "in/a/large.jpg").string()),
                             HasSubstr(": 1099511627776 bytes; expected at most 2415919104")));
  PackOptions options = pictures(folder);
  options.skip_corrupt = true;
  pack(options);
  EXPECT_EQ(read_manifest(folder / "out/train").skipped_count, 1u);
}

TEST(PackTest, ALinkInTheWayIsRefusedBeforeAnythingIsPacked) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "d");
  fs::create_directory_symlink("nowhere", folder / "d/train");
  PackOptions options = digits(folder / "d", 20, 2);
  for (options.force = false;; options.force = true) {
    EXPECT_THAT(error_of([&] { check_packing(options); }), StartsWith("2 " + (folder / "d/train").string() + ": "));
    if (options.force) break;
  }
  EXPECT_EQ(names_in(folder / "d"), std::vector<std::string>{"train"});
}

TEST(PackTest, ABrokenPictureIsNamedAndNothingStays) {
  const TemporaryFolder folder;
  write_pictures(folder / "in");
  Bytes broken = golden_picture("jpeg 420").file;
  broken.resize(broken.size() / 2);
  write_bytes(folder / "in/a/broken.jpg", broken);
  EXPECT_THAT(
      error_of([&] { pack(pictures(folder)); }),
      testing::AllOf(StartsWith("4 " + (folder / "in/a/broken.jpg").string()), HasSubstr("expected a whole picture")));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"in"});
}

TEST(PackTest, BrokenPicturesAreSkippedWhenAsked) {
  const TemporaryFolder folder;
  write_pictures(folder / "in");
  write_bytes(folder / "in/a/broken.jpg", Bytes{0xFF, 0xD8, 0xFF, 0xE0});
  PackOptions options = pictures(folder);
  options.skip_corrupt = true;
  PackProgress last;
  pack(options, [&](const PackProgress& progress) { last = progress; });
  EXPECT_EQ(last.skipped_count, 1u);
  EXPECT_EQ(last.done_count, last.total_count);
  EXPECT_EQ(read_manifest(folder / "out/train").skipped_count, 1u);
  EXPECT_EQ(Dataset::open(folder / "out")->size(), golden_pictures().size());
  EXPECT_THAT(verify(folder / "out/train").lines, testing::IsEmpty());

  fs::remove_all(folder / "in");
  write_bytes(folder / "in/a/broken.jpg", Bytes{0xFF, 0xD8, 0xFF, 0xE0});
  options.output = folder / "other";
  EXPECT_THAT(error_of([&] { pack(options); }), HasSubstr("all 1 pictures are broken"));
}

/// The manifest cannot hold bytes that are not UTF-8.
TEST(PackTest, ClassesThatTheManifestWouldCallTheSameAreRefused) {
  const TemporaryFolder folder;
  const auto picture = testing_data::golden_pictures().front().file;
  for (const char* name : {"caf\xe9", "caf\xe8"}) write_bytes(folder / "in" / name / "1.png", picture);
  EXPECT_THAT(error_of([&] { pack(pictures(folder)); }),
              HasSubstr("occurs twice after what is not UTF-8 has become U+FFFD; expected names that differ"));
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(PackTest, AnExistingDataSetIsReplacedByForceAlone) {
  const TemporaryFolder folder;
  pack(digits(folder / "d", 20, 2));
  const auto before = files_below(folder / "d");
  EXPECT_THAT(error_of([&] { pack(digits(folder / "d", 30, 3)); }),
              testing::AllOf(StartsWith("2 "), HasSubstr("exists already")));
  EXPECT_EQ(files_below(folder / "d"), before);
  PackOptions options = digits(folder / "d", 30, 3);
  options.force = true;
  pack(options);
  EXPECT_EQ(Dataset::open(folder / "d")->size(), 30u);
  EXPECT_EQ(names_in(folder / "d"), std::vector<std::string>{"train"});
  EXPECT_EQ(names_in(folder / "d/train").size(), 4u);
}

TEST(PackTest, AFailedPackingLeavesTheOldDataSet) {
  const TemporaryFolder folder;
  write_pictures(folder / "in");
  pack(pictures(folder));
  const auto before = files_below(folder / "out");
  write_bytes(folder / "in/a/broken.jpg", Bytes{0xFF, 0xD8, 0xFF, 0xE0});
  PackOptions options = pictures(folder);
  options.force = true;
  EXPECT_THAT(error_of([&] { pack(options); }), StartsWith("4 "));
  EXPECT_EQ(files_below(folder / "out"), before);
}

TEST(PackTest, ForceReplacesDataSetsAlone) {
  const TemporaryFolder folder;
  write_pictures(folder / "out/train");
  const auto before = files_below(folder / "out");
  PackOptions options = pictures(folder);
  options.input = folder / "out";
  options.force = true;
  EXPECT_THAT(error_of([&] { pack(options); }), testing::AllOf(StartsWith("2 "), HasSubstr("no packed data set")));
  EXPECT_EQ(files_below(folder / "out"), before);
}

TEST(PackTest, ForceDeletesNothingThatWasPutBesideTheShards) {
  const TemporaryFolder folder;
  PackOptions options = digits(folder.path(), 20, 2);
  options.force = true;
  pack(options);
  pack(options);
  write_bytes(folder / "train/weights/best.bin", Bytes{1});
  const auto before = files_below(folder.path());
  EXPECT_THAT(error_of([&] { pack(options); }),
              testing::AllOf(StartsWith("2 "), HasSubstr("train/weights: is no part of a packed data set")));
  EXPECT_EQ(files_below(folder.path()), before);
}

detail::FinishedShard finished_shard() {
  return {.entry = {.file = "new", .byte_count = 3, .xxh3 = "hash"}, .tally = detail::Tally(10)};
}

TEST(PackTest, AKillBehindTheExchangeLeavesNoStateOfTheNewShards) {
  const TemporaryFolder folder;
  pack(digits(folder / "d", 20, 1));
  const auto publish_and_die = [&] {
    detail::Partial partial(folder / "d", "train", "key", detail::Tally(10));
    write_bytes(partial.folder() / "new", std::string("new"));
    partial.finish(0, finished_shard());
    partial.publish(true);
    _exit(0);
  };
  EXPECT_EXIT(publish_and_die(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(names_in(folder / "d/train"), std::vector<std::string>{"new"});
  EXPECT_EQ(names_in(folder / "d/.train.partial"), std::vector<std::string>{"split"});
  EXPECT_EQ(names_in(folder / "d/.train.partial/split").size(), 2u);  // the old data set
}

TEST(PackTest, ReplacingInTwoStepsNeverLosesTheOldDataSet) {
  const TemporaryFolder folder;
  const auto from = folder / "from", to = folder / "to", aside = folder / "aside";
  write_bytes(to / "old", std::string("old"));
  EXPECT_NE(detail::replace_in_two_steps(from, to, aside), 0);  // there is no new data set
  EXPECT_EQ(names_in(to), std::vector<std::string>{"old"});
  write_bytes(from / "new", std::string("new"));
  EXPECT_EQ(detail::replace_in_two_steps(from, to, aside), 0);
  EXPECT_EQ(names_in(to), std::vector<std::string>{"new"});
  EXPECT_EQ(names_in(aside), std::vector<std::string>{"old"});

  pack(digits(folder / "d", 20, 2));
  const auto before = files_below(folder / "d");
  fs::create_directories(folder / "d/.train.partial");  // the state after a kill between the two steps
  fs::rename(folder / "d/train", folder / "d/.train.partial/replaced");
  EXPECT_THAT(error_of([&] { pack(digits(folder / "d", 30, 3)); }), StartsWith("3 "));
  EXPECT_EQ(files_below(folder / "d"), before);
}

TEST(PackTest, TwoPackingsIntoOneFolderAreRefused) {
  const TemporaryFolder folder;
  const detail::Partial first(folder / "d", "train", "key", detail::Tally(10));
  EXPECT_THAT(
      error_of([&] { pack(digits(folder / "d", 20, 2)); }),
      testing::AllOf(StartsWith("3 "), HasSubstr("another process is packing into it; expected one at a time")));
  EXPECT_TRUE(fs::exists(first.folder()));
}

TEST(PackTest, LeftoversOfOtherPackingsDoNotCount) {
  const TemporaryFolder folder;
  const auto partial = folder / "d/.train.partial";
  write_bytes(partial / "split/shard-00000-of-00002.safetensors", std::string("of another packing"));
  write_bytes(partial / "split/shard-00000-of-00009.safetensors", std::string("of another packing"));
  write_bytes(partial / "split/shard-00001-of-00002.safetensors.tmp", std::string("half"));
  write_bytes(partial / "finished-0.json", std::string("{\"key\":\"other\"}"));
  write_bytes(partial / "finished-1.json", std::string("{]"));
  PackProgress last;
  pack(digits(folder / "d", 20, 2), [&](const PackProgress& progress) { last = progress; });
  EXPECT_EQ(last.reused_count, 0u);
  EXPECT_EQ(names_in(folder / "d"), std::vector<std::string>{"train"});
  EXPECT_EQ(names_in(folder / "d/train"), (std::vector<std::string>{"manifest.json", "shard-00000-of-00002.safetensors",
                                                                    "shard-00001-of-00002.safetensors"}));
  EXPECT_THAT(verify(folder / "d/train").lines, testing::IsEmpty());
}

TEST(PackTest, WrongOptionsAreConfigErrors) {
  const TemporaryFolder folder;
  const auto error_with = [&](const std::function<void(PackOptions&)>& change) {
    PackOptions options = digits(folder / "d", 20, 2);
    change(options);
    return error_of([&] { pack(options); });
  };
  EXPECT_THAT(error_with([](auto& o) { o.split = "val"; }),
              HasSubstr("2 pack: split is \"val\"; expected train, test or all"));
  EXPECT_THAT(error_with([](auto& o) { o.shard_count = 0; }), HasSubstr("2 pack: shards is 0"));
  EXPECT_THAT(error_with([](auto& o) { o.jobs = -1; }), HasSubstr("2 pack: jobs is -1"));
  EXPECT_THAT(error_with([](auto& o) { o.output = ""; }), HasSubstr("2 pack: out is \"\""));
  EXPECT_THAT(error_with([](auto& o) { o.source = "mnst"; }), HasSubstr("did you mean \"mnist\"?"));
  write_bytes(folder / "file", std::string("x"));
  EXPECT_THAT(error_with([&](auto& o) { o.output = folder / "file"; }), StartsWith("3 "));
  fs::create_directories(folder / "empty/class");
  EXPECT_THAT(error_with([&](auto& o) {
                o.source = "image-folder";
                o.input = folder / "empty";
              }),
              testing::AllOf(StartsWith("3 "), HasSubstr("no samples for split train")));
}

}  // namespace
}  // namespace penstock
