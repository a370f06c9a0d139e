// Shards whose pages cannot be read, or are gone: the loader names the sample, and no zeros are delivered as data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/files/read_from.h"
#include "loader/pack/pack.h"
#include "tests/loader/break_page.h"
#include "tests/loader/field_source.h"
#include "tests/loader/loader_test_data.h"
#include "tests/loader/storage_test_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;
using testing_data::break_page;
using testing_data::consume;
using testing_data::kPageBytes;
using testing_data::pipeline_for;
using testing_data::TestData;
using testing_data::touch;

/// A data set of two shards of 600 pictures, which take more pages than the columns after them.
struct CutData : TestData {
  CutData() : TestData({600, 600}) {}
  fs::path shard() const { return folder() / "train" / "shard-1.safetensors"; }
};

/// What the loader throws when the second shard is damaged before its first batch or after its first epoch.
std::string error_after(const CutData& data, const LoaderOptions& options, bool is_read_before,
                        const std::function<void(const Dataset&)>& damage) {
  const auto dataset = data.open();
  Loader loader(dataset, pipeline_for(*dataset, "affine(degrees=5)"), options);
  loader.start_epoch(0);
  if (is_read_before) consume(loader);  // after this all checksums are known to be right
  damage(*dataset);
  if (is_read_before) loader.start_epoch(1);
  return message_of(ErrorKind::kIo, [&] { consume(loader); });
}

void for_all_ways(const std::function<void(const LoaderOptions&, bool is_read_before)>& check) {
  for (const int workers : {0, 1, 2})
    for (const auto policy : {OnCorrupt::kFail, OnCorrupt::kMask})
      for (const bool is_read_before : {false, true}) {
        SCOPED_TRACE(concat(workers, " workers, read before: ", is_read_before));
        // Only one batch is made ahead, so that what is made before the damage does not reach the second shard.
        check({.workers = workers,
               .prefetch = 1,
               .batch_size = 60,
               .shuffle = Shuffle::kNone,
               .epoch_count = 1,
               .on_corrupt = policy},
              is_read_before);
      }
}

TEST(ShardFaultTest, TheLoaderNamesTheSampleThatTheDiskDoesNotGive) {
  for_all_ways([](const LoaderOptions& options, bool is_read_before) {
    const CutData data;
    const auto damage = [](const Dataset& dataset) { break_page(dataset.at(900).bytes.data()); };
    EXPECT_THAT(
        error_after(data, options, is_read_before, damage),
        MatchesRegex(data.shard().string() + ": sample (2[789][0-9]|300) \\(id 1[0-9]+\\) at byte [0-9]+: byte "
                                             "[0-9]+ of the file cannot be read; expected a disk without errors"));
  });
}

TEST(ShardFaultTest, TheLoaderNamesTheSampleOfAShardThatIsCutShort) {
  for_all_ways([](const LoaderOptions& options, bool is_read_before) {
    const CutData data;
    const auto damage = [&](const Dataset&) { fs::resize_file(data.shard(), 50'000); };
    EXPECT_THAT(error_after(data, options, is_read_before, damage),
                MatchesRegex(data.shard().string() + ": sample 0: the file was cut short while it was read, from "
                                                     "[0-9]+ bytes to 50000; expected that nobody changes it"));
  });
}

TEST(ShardFaultTest, APartnerInAMixThatTheDiskDoesNotGiveIsNamedToo) {
  const CutData data;
  const auto dataset = data.open();
  Loader loader(dataset, pipeline_for(*dataset, "mixup(alpha=1)"), {.batch_size = 1200});
  break_page(dataset->at(900).bytes.data());
  loader.start_epoch(0);
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { consume(loader); }), HasSubstr("of the file cannot be read"));
}

TEST(ShardFaultTest, AFieldThatTheDiskDoesNotGiveIsNamedAlthoughItsChecksumHasPassed) {
  const testing_data::TemporaryFolder folder;
  pack(testing_data::FieldSource(4000), "memory", {.output = folder.path(), .shard_count = 1, .jobs = 1});
  const auto dataset = Dataset::open(folder.path());
  const LoaderOptions options{
      .batch_size = 100, .epoch_count = 2, .on_corrupt = OnCorrupt::kMask, .columns = "field(name=caption)"};
  Loader loader(dataset, pipeline_for(*dataset, ""), options);
  loader.start_epoch(0);
  EXPECT_EQ(consume(loader), 40);
  break_page(dataset->field(3000, dataset->field_number("caption")).bytes.data());
  loader.start_epoch(1);
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { consume(loader); }),
              AllOf(HasSubstr(": sample "), HasSubstr("of the file cannot be read; expected a disk without errors")));
}

TEST(ShardFaultTest, ACutInsideTheLastPageEndsTheEpoch) {
  const CutData data;
  const auto dataset = data.open();
  Loader loader(dataset, pipeline_for(*dataset, "affine(degrees=5)"), {.batch_size = 60, .epoch_count = 2});
  loader.start_epoch(0);
  EXPECT_EQ(consume(loader), 20);
  fs::resize_file(data.shard(), fs::file_size(data.shard()) - 1);
  loader.start_epoch(1);
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { consume(loader); }),
              AllOf(StartsWith(data.shard().string() + ": the file was cut short"),
                    EndsWith("expected that nobody changes it")));
}

TEST(ShardFaultTest, ColumnsThatAreGoneNameTheirRow) {
  const CutData data;
  const auto dataset = data.open();
  fs::resize_file(data.shard(), kPageBytes);
  EXPECT_THAT(message_of(ErrorKind::kIo,
                         [&] {
                           for (uint64_t i = 600; i < 1200; ++i) (void)dataset->at(i);
                         }),
              MatchesRegex(data.shard().string() + ": sample [0-9]+: the file was cut short .* to 4096; .*"));
}

TEST(ShardFaultTest, ColumnsOfPicturesOfManySizesToo) {
  const TestData data({900}, {{5, 5, 1}, {6, 6, 1}});
  const auto dataset = data.open();
  const auto path = data.folder() / "train" / "shard-0.safetensors";
  for (size_t length = fs::file_size(path) / kPageBytes * kPageBytes; length >= kPageBytes; length -= kPageBytes) {
    fs::resize_file(path, length);
    EXPECT_THROW(
        {
          for (uint64_t i = 0; i < 900; ++i) {
            const Sample sample = dataset->at(i);
            read_from(*dataset, i, [&] { touch(sample.bytes); });
          }
        },
        Error)
        << length;
  }
}

}  // namespace
}  // namespace penstock
