// Disk: what is measured, and the text that describes it.
#include "loader/disk.h"

#include <gtest/gtest.h>

#include "loader/dataset.h"
#include "loader/loader.h"
#include "loader/shard_writer.h"
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

TEST(DiskTest, ManyReadersGetAsMuchAsOneAtLeast) {
  const TemporaryFolder folder;
  testing_data::write_bytes(folder / "large", testing_data::Bytes(1 << 20));
  const auto rate = measure_disk({folder / "large"});
  if (!rate) return;  // the file system has no direct reads, as in some containers
  EXPECT_GT(rate->one, 0);
  EXPECT_GE(rate->most, rate->one);
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
