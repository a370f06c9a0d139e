// Rows that are fetched before their shards: they are those of the whole shard, and whatever goes wrong with them is
// left to the whole shard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "loader/files/files.h"
#include "loader/files/interrupt.h"
#include "loader/pack/pack.h"
#include "loader/shards/shard_part.h"
#include "tests/loader/field_source.h"
#include "tests/loader/loader_test_data.h"
#include "tests/loader/storage_test_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using detail::ShardPart;
using testing_data::TestData;

/// What was asked of the files of the scheme `parts`, and what goes wrong with their parts.
struct PartCounts {
  std::atomic<int> whole_count{0}, part_count{0};
  std::atomic<uint64_t> part_bytes{0}, flipped_byte{UINT64_MAX};
  std::atomic<bool> fails{false}, is_silent{false};
};
PartCounts part_counts;

class FilePart final : public RandomAccessFile {
 public:
  explicit FilePart(std::unique_ptr<const RandomAccessFile> file)
      : RandomAccessFile(file->path()), file_(std::move(file)) {}
  uint64_t size() const override { return file_->size(); }
  size_t read(uint64_t offset, std::span<uint8_t> out) const override {
    if (part_counts.fails) throw io_error("parts: are not there; expected the test to want this");
    while (part_counts.is_silent) {
      if (detail::is_interrupted()) throw io_error("parts: was given up; expected the test to want this");
      std::this_thread::yield();
    }
    ++part_counts.part_count;
    part_counts.part_bytes += out.size();
    const size_t count = file_->read(offset, out);
    const uint64_t flipped = part_counts.flipped_byte;
    if (flipped >= offset && flipped < offset + count) out[flipped - offset] ^= 4;
    return count;
  }

 private:
  std::unique_ptr<const RandomAccessFile> file_;
};

fs::path path_without_parts(const fs::path& path) { return path.string().substr(sizeof "parts:" - 1); }

class PartFiles final : public Files {
 public:
  std::unique_ptr<const RandomAccessFile> open(const fs::path& path) const override {
    return files_of(path_without_parts(path)).open(path_without_parts(path));
  }
  std::unique_ptr<const FileMap> map(const fs::path& path, const FileFacts&) const override {
    ++part_counts.whole_count;
    return open(path)->map();
  }
  std::unique_ptr<const RandomAccessFile> open_parts(const fs::path& path, const FileFacts&) const override {
    return std::make_unique<FilePart>(open(path));
  }
  uint64_t room(uint64_t) const override { return 100; }
  bool exists(const fs::path& path) const override { return fs::exists(path_without_parts(path)); }
};

const Registered<FilesKind> kParts{
    "parts", {}, "local files of which parts come first", [](const Spec&) { return std::make_unique<PartFiles>(); }};

class FirstRowsTest : public testing::Test {
 protected:
  FirstRowsTest() {
    part_counts.whole_count = part_counts.part_count = 0;
    part_counts.part_bytes = 0;
    part_counts.flipped_byte = UINT64_MAX;
    part_counts.fails = part_counts.is_silent = false;
  }
  std::string far() const { return "parts:" + data_.folder().string(); }
  std::shared_ptr<const Dataset> open_far() const { return Dataset::open(far()); }
  void expect_row(const Dataset& dataset, uint64_t index) const {
    const Sample sample = dataset.checked_at(index);
    EXPECT_EQ(sample.id, 1000 + index);
    EXPECT_EQ(sample_checksum(sample), sample.crc32c);
  }
  /// The digest of an epoch from batch `first` on.
  std::string digest(const std::string& folder, int workers, const std::string& augment, int64_t first = 0,
                     const std::string& columns = "") const {
    const auto dataset = Dataset::open(folder);
    LoaderOptions options{.workers = workers, .batch_size = 16, .columns = columns};
    options.epoch_count = 1;
    Loader loader(dataset, Pipeline(augment, dataset->manifest().statistics), options);
    Digest digest;
    loader.start_epoch(0, first);
    while (const auto batch = loader.next()) digest.add(*batch);
    return digest.hex();
  }

  const TestData data_{{40, 40, 40}, {{100, 100, 1}}};  // 400 KB per shard, 10 KB per row
};

TEST_F(FirstRowsTest, ComeWithoutTheirShardsUntilAnotherRowIsWanted) {
  const auto dataset = open_far();
  dataset->fetch_rows({3, 41, 79, 3});
  for (const uint64_t index : {3, 41, 79}) expect_row(*dataset, index);
  EXPECT_EQ(part_counts.whole_count, 0);
  EXPECT_EQ(part_counts.part_count, 7) << "header, columns, and a range for each row that is far from the others";
  EXPECT_LT(part_counts.part_bytes, 2 * (4096 + 4000) + 3 * 10'000U);
  expect_row(*dataset, 4);
  EXPECT_EQ(part_counts.whole_count, 1);
  expect_row(*dataset, 3);
  EXPECT_EQ(part_counts.whole_count, 1);
  EXPECT_THAT(dataset->where(41), testing::HasSubstr("sample 1 (id 1041) at byte "));
  EXPECT_EQ(part_counts.whole_count, 1);
}

TEST_F(FirstRowsTest, WhatIsThereIsNotFetchedAgain) {
  const auto dataset = open_far();
  dataset->fetch_rows({3, 4});
  const int count = part_counts.part_count;
  dataset->fetch_rows({4});
  EXPECT_EQ(part_counts.part_count, count);
  expect_row(*dataset, 5);
  dataset->fetch_rows({6});
  EXPECT_EQ(part_counts.part_count, count);
}

TEST_F(FirstRowsTest, ASampleKeepsItsBytesAfterTheShardCameAndGivesThemBack) {
  const auto dataset = open_far();
  dataset->fetch_rows({3});
  const int64_t free_bytes = ShardPart::free_bytes();
  EXPECT_LT(free_bytes, ShardPart::kMostBytes);
  {
    const Sample sample = dataset->checked_at(3);
    expect_row(*dataset, 4);
    EXPECT_EQ(ShardPart::free_bytes(), free_bytes);
    EXPECT_EQ(sample_checksum(sample), sample.crc32c);
  }
  EXPECT_EQ(ShardPart::free_bytes(), ShardPart::kMostBytes);
}

TEST_F(FirstRowsTest, BytesThatAreWrongAreLeftToTheWholeShard) {
  const Sample sample = data_.open()->at(41);
  for (const uint64_t byte : {sample.byte_offset + 5, uint64_t{100}, uint64_t{2}, uint64_t{4096 + 40 * 10'000 + 9}}) {
    part_counts.flipped_byte = byte;
    part_counts.whole_count = 0;
    const auto dataset = open_far();
    dataset->fetch_rows({40, 41});
    for (const uint64_t index : {40, 41}) expect_row(*dataset, index);
    EXPECT_EQ(part_counts.whole_count, 1) << "byte " << byte;
  }
  EXPECT_EQ(ShardPart::free_bytes(), ShardPart::kMostBytes);
}

TEST_F(FirstRowsTest, ALoaderGivesTheSameBytesFromAnyBatchOn) {
  for (const std::string augment : {"flip", "mixup(alpha=1)"})
    for (const int64_t first : {0, 3, 7}) {
      const auto expected = digest(data_.folder().string(), 0, augment, first);
      for (const int workers : {0, 2}) {
        part_counts.part_count = 0;
        EXPECT_EQ(digest(far(), workers, augment, first), expected) << augment << " from batch " << first;
        EXPECT_GT(part_counts.part_count, 6);
        part_counts.fails = true;
        EXPECT_EQ(digest(far(), workers, augment, first), expected);
        part_counts.fails = false;
      }
    }
}

TEST_F(FirstRowsTest, TheFirstBatchNeedsNoShard) {
  const auto dataset = open_far();
  LoaderOptions options{.workers = 0, .prefetch = 1, .batch_size = 16, .rank = 1, .world_size = 2};
  for (const std::string augment : {"flip", "cutmix(alpha=1)"}) {
    Loader loader(dataset, Pipeline(augment, dataset->manifest().statistics), options);
    loader.start_epoch(0, 5);
    loader.next();
    EXPECT_EQ(part_counts.whole_count, 0) << augment;
  }
}

TEST_F(FirstRowsTest, WhatOnWaitThrowsEndsTheWait) {
  part_counts.is_silent = true;
  const auto dataset = open_far();
  EXPECT_THROW(dataset->fetch_rows({3, 50}, [] { throw std::runtime_error("Ctrl-C"); }), std::runtime_error);
  part_counts.is_silent = false;
  expect_row(*dataset, 3);
  EXPECT_EQ(part_counts.whole_count, 1);
}

TEST_F(FirstRowsTest, SmallShardsComeWhole) {
  const TestData small{{20, 20}, {{100, 100, 1}}};
  const auto dataset = Dataset::open("parts:" + small.folder().string());
  dataset->fetch_rows({3});
  EXPECT_EQ(part_counts.part_count, 0);
}

/// Pictures of 10 KB and captions of 9 KB, so that the rows of a shard are further apart than what is fetched as one.
class LargeSource final : public testing_data::FieldSource {
 public:
  LargeSource() : FieldSource(120) {}
  SourceSample read(uint64_t id) const override {
    SourceSample sample = FieldSource::read(id);
    sample.extent = {100, 100, 1};
    sample.bytes.assign(10'000, static_cast<uint8_t>(id));
    auto& caption = sample.fields[3];
    const FieldValue once = caption;
    while (caption.size() < 9'000) caption.insert(caption.end(), once.begin(), once.end());
    return sample;
  }
};

class FirstFieldsTest : public FirstRowsTest {
 protected:
  FirstFieldsTest() {
    pack(LargeSource(), "memory", {.output = folder_.path(), .shard_count = 3, .jobs = 1});
    local_ = Dataset::open(folder_.path());
  }
  std::string far() const { return "parts:" + folder_.path().string(); }
  static std::vector<uint8_t> value(const Dataset& dataset, uint64_t index, size_t number) {
    const HeldField found = dataset.field(index, number);
    return {found.bytes.begin(), found.bytes.end()};
  }
  void expect_fields(const Dataset& dataset, uint64_t index) const {
    EXPECT_EQ(dataset.checked_at(index).id, local_->at(index).id);
    for (size_t number = 0; number < local_->manifest().fields.size(); ++number)
      EXPECT_EQ(value(dataset, index, number), value(*local_, index, number)) << index << ", field " << number;
  }

  const testing_data::TemporaryFolder folder_;
  std::shared_ptr<const Dataset> local_;
};

TEST_F(FirstFieldsTest, ComeWithTheirRowsAndWithoutTheirShards) {
  const auto dataset = Dataset::open(far());
  dataset->fetch_rows({3, 41, 79});
  for (const uint64_t index : {3, 41, 79}) expect_fields(*dataset, index);
  EXPECT_EQ(part_counts.whole_count, 0);
  uint64_t all_bytes = 0;
  for (const auto& shard : local_->manifest().shards) all_bytes += shard.byte_count;
  EXPECT_LT(part_counts.part_bytes, all_bytes / 6);
  expect_fields(*dataset, 4);
  EXPECT_EQ(part_counts.whole_count, 1);
}

TEST_F(FirstFieldsTest, AValueIsHeldAfterItsShardCame) {
  const size_t caption = local_->field_number("caption");
  const auto dataset = Dataset::open(far());
  dataset->fetch_rows({3});
  {
    const HeldField held = dataset->field(3, caption);
    dataset->checked_at(4);
    ASSERT_LT(ShardPart::free_bytes(), ShardPart::kMostBytes) << "its part is gone";
    EXPECT_EQ(std::vector(held.bytes.begin(), held.bytes.end()), value(*local_, 3, caption));
  }
  EXPECT_EQ(ShardPart::free_bytes(), ShardPart::kMostBytes);
}

TEST_F(FirstFieldsTest, AValueThatIsWrongIsLeftToTheWholeShard) {
  const size_t caption = local_->field_number("caption");
  const auto* const file = local_->at(40).bytes.data() - local_->at(40).byte_offset;
  part_counts.flipped_byte = static_cast<uint64_t>(local_->field(41, caption).bytes.data() + 5 - file);
  const auto dataset = Dataset::open(far());
  dataset->fetch_rows({41});
  EXPECT_GT(part_counts.part_count, 2);
  expect_fields(*dataset, 41);
  EXPECT_EQ(part_counts.whole_count, 1);
}

TEST_F(FirstFieldsTest, ALoaderGivesTheSameColumnsFromAnyBatchOn) {
  const std::string columns = "field(name=caption),field(name=age),boxes(field=boxes,with=kinds)";
  for (const int64_t first : {0, 5}) {
    const auto expected = digest(folder_.path(), 0, "flip", first, columns);
    for (const int workers : {0, 2}) {
      part_counts.part_count = 0;
      EXPECT_EQ(digest(far(), workers, "flip", first, columns), expected) << "from batch " << first;
      EXPECT_GT(part_counts.part_count, 6);
    }
  }
}

}  // namespace
}  // namespace penstock
