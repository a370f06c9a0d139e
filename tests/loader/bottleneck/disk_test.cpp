// Disk: what is measured, and the text that describes it.
#include "loader/bottleneck/disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "loader/batch/loader.h"
#include "loader/shards/dataset.h"
#include "loader/shards/shard_writer.h"
#include "tests/loader/add_sample.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing_data::TemporaryFolder;

TEST(StorageTextTest, SaysWhatTheStorageGivesAndHowMuchOfItWasUsed) {
  EXPECT_EQ(storage_text(20e6, 56, 110'200),
            "20.0 MB/s is what the storage gives, 6.2 MB/s of it in images of 110.2 KB");
  EXPECT_EQ(storage_text(20e6, 180, 110'200), "20.0 MB/s is what the storage gives in images of 110.2 KB");
  EXPECT_EQ(storage_text(20e6, 180, 0), "20.0 MB/s is what the storage gives");
}

TEST(StorageTextTest, WithoutAMeasurementSaysWhatTheRunGot) {
  EXPECT_EQ(storage_text(0, 56, 110'200),
            "the loader waited for the storage, which gave 6.2 MB/s in images of 110.2 KB");
  EXPECT_EQ(storage_text(0, 56, 0), "the loader waited for the storage");
}

TEST(DiskTest, FilesWithoutAWholePieceAreNotMeasured) {
  const TemporaryFolder folder;
  testing_data::write_bytes(folder / "small", testing_data::Bytes(1000));
  EXPECT_FALSE(measure_disk({}));
  EXPECT_FALSE(measure_disk({folder / "small", folder / "missing"}));
}

TEST(DiskTest, TheBestOfAllTurnsCountsAndManyReadersGetAsMuchAsOneAtLeast) {
  const auto best = best_of({{20, 40}, {30, 25}});
  ASSERT_TRUE(best);
  EXPECT_EQ(best->one, 30);
  EXPECT_EQ(best->most, 40);
  EXPECT_EQ(best_of({{50, 30}})->most, 50);
  EXPECT_FALSE(best_of({{20, 40}, {30, 0}}));  // a read has failed
}

/// Whether the file system reads past its cache: some containers' do not.
bool has_direct_reads(const std::filesystem::path& file) {
  constexpr size_t kBytes = 128 * 1024;
  alignas(4096) static char memory[kBytes];
  const int fd = open(file.c_str(), O_RDONLY | O_DIRECT);
  const bool has_read = fd >= 0 && read(fd, memory, kBytes) == static_cast<ssize_t>(kBytes);
  if (fd >= 0) close(fd);
  return has_read;
}

TEST(DiskTest, WhereDirectReadsAreToBeHadTheyAreMeasured) {
  const TemporaryFolder folder;
  testing_data::write_bytes(folder / "large", testing_data::Bytes(1 << 20));
  const auto rate = measure_disk({folder / "large"});
  EXPECT_EQ(rate.has_value(), has_direct_reads(folder / "large"));
  EXPECT_GT(rate.value_or(DiskRate{1, 1}).one, 0);
}

/// Pictures of one level: compressed they are a small part of what is stored.
std::filesystem::path pack_flat_pictures(const TemporaryFolder& folder) {
  std::filesystem::create_directories(folder / "train");
  Manifest manifest;
  manifest.split = "train", manifest.source = "test";
  manifest.class_names = {"a"};
  manifest.extent = Extent{64, 64, 1};
  manifest.sample_count = 32, manifest.class_counts = {32};
  const testing_data::Bytes pixels(64 * 64, 100);
  const auto path = folder / "train/shard-0.safetensors";
  ShardWriter writer(path, manifest.extent);
  for (uint64_t id = 0; id < 32; ++id)
    testing_data::add_sample(writer, id, 0, *manifest.extent, Encoding::kRaw, pixels);
  manifest.shards.push_back({path.filename(), 32, writer.finish(), std::string(32, '0')});
  write_manifest(folder / "train", manifest);
  return path;
}

TEST(CoefficientShareTest, ASampleThatCannotBeReadLeavesItUnknown) {
  const TemporaryFolder folder;
  const auto shard = pack_flat_pictures(folder);
  const auto dataset = Dataset::open(folder.path());
  const double share = coefficient_share(*dataset, {});
  EXPECT_GT(share, 0.01);
  EXPECT_LT(share, 0.5);
  std::filesystem::resize_file(shard, dataset->at(20).byte_offset);
  EXPECT_EQ(coefficient_share(*dataset, {}), 0);
}

}  // namespace
}  // namespace penstock
