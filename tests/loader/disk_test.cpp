// Disk: what is measured, and the text that describes it.
#include "loader/disk.h"

#include <gtest/gtest.h>

#include "loader/dataset.h"
#include "loader/loader.h"
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

}  // namespace
}  // namespace penstock
