// Shards whose bytes come and go: everything that reads them holds them, and no more of them than there is room for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "loader/files/files.h"
#include "loader/pack/unpack.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_data::TestData;

/// How many files are held, and how many there may be.
struct Holds {
  std::mutex mutex;
  int now = 0, most = 0;
  uint64_t room = 100, expected_count = 0;
};
Holds held_counts;

/// A copy of a local file whose pages cannot be read while nobody holds it: whoever reads then ends the process.
class HeldMap final : public FileMap {
 public:
  HeldMap(const fs::path& path, const std::vector<uint8_t>& bytes) : FileMap(path), size_(bytes.size()) {
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(memory_));
    mprotect(memory_, size_, PROT_NONE);
    bytes_ = {static_cast<const uint8_t*>(memory_), size_};
    needs_hold_ = true;
  }
  ~HeldMap() override { munmap(memory_, size_); }

 private:
  void hold() const override {
    const std::lock_guard lock(held_counts.mutex);
    if (count_++ > 0) return;
    mprotect(memory_, size_, PROT_READ);
    held_counts.most = std::max(held_counts.most, ++held_counts.now);
  }
  void release() const noexcept override {
    const std::lock_guard lock(held_counts.mutex);
    if (--count_ > 0) return;
    mprotect(memory_, size_, PROT_NONE);
    --held_counts.now;
  }

  size_t size_;
  void* memory_;
  mutable int count_ = 0;
};

fs::path path_without_held(const fs::path& path) { return path.string().substr(sizeof "held:" - 1); }

class HeldFiles final : public Files {
 public:
  std::unique_ptr<const RandomAccessFile> open(const fs::path& path) const override {
    return files_of(path_without_held(path)).open(path_without_held(path));
  }
  std::unique_ptr<const FileMap> map(const fs::path& path, const FileFacts&) const override {
    return std::make_unique<HeldMap>(path, open(path)->contents());
  }
  void expect(const std::vector<ExpectedFile>& files) const override { held_counts.expected_count = files.size(); }
  uint64_t room(uint64_t) const override { return held_counts.room; }
  bool exists(const fs::path& path) const override { return fs::exists(path_without_held(path)); }
};

const Registered<FilesKind> kHeld{
    "held", {}, "local files whose bytes come and go", [](const Spec&) { return std::make_unique<HeldFiles>(); }};

std::string held_digest(const std::string& folder, int workers, const std::string& augment) {
  const auto dataset = Dataset::open(folder);
  LoaderOptions options{.workers = workers, .batch_size = 32};
  options.epoch_count = 1;  // the batches of the next epoch are not made ahead
  Loader loader(dataset, Pipeline(augment, dataset->manifest().statistics), options);
  Digest digest;
  loader.start_epoch(0);
  while (const auto batch = loader.next()) digest.add(*batch);
  EXPECT_EQ(held_counts.now, 0) << "a worker that has nothing to do holds a shard";
  return digest.hex();
}

class HeldShardsTest : public testing::Test {
 protected:
  HeldShardsTest() {
    held_counts.now = held_counts.most = 0;
    held_counts.room = 100;
  }
  std::string held() const { return "held:" + data_.folder().string(); }
  const TestData data_{{30, 30, 30, 30, 30, 30, 30, 30}, {{12, 12, 1}}};
};

TEST_F(HeldShardsTest, ALoaderHoldsNoMoreThanThereIsRoomForAndGivesTheSameBytes) {
  for (const std::string augment : {"affine(degrees=10),flip", "mixup(alpha=1)"}) {
    const auto expected = held_digest(data_.folder().string(), 0, augment);
    for (const int workers : {0, 1, 2})
      for (const uint64_t room : {5, 7, 100}) {
        held_counts.room = room;
        held_counts.most = 0;
        EXPECT_EQ(held_digest(held(), workers, augment), expected) << augment << ", " << workers << " workers";
        EXPECT_LE(held_counts.most, static_cast<int>(room));
        EXPECT_EQ(held_counts.now, 0) << "a hold is left";
      }
  }
  EXPECT_EQ(held_counts.expected_count, 8U);
}

TEST_F(HeldShardsTest, RoomForFewerThanTheWorkersHoldIsRefused) {
  held_counts.room = 2;
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { held_digest(held(), 2, "flip"); }), HasSubstr("room for 2 shards"));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { held_digest(held(), 2, "flip"); }),
              HasSubstr("expected at least 3 for 2 workers"));
  EXPECT_EQ(held_counts.now, 0);
}

TEST_F(HeldShardsTest, ASampleHoldsItsShardAndSoDoCopiesOfIt) {
  const auto dataset = Dataset::open(held());
  EXPECT_EQ(held_counts.now, 0);
  Sample copy;
  {
    const Sample sample = dataset->checked_at(7);
    EXPECT_EQ(held_counts.now, 1);
    copy = sample;
  }
  EXPECT_EQ(held_counts.now, 1);
  EXPECT_EQ(sample_checksum(copy), copy.crc32c);  // reads its bytes
  copy = {};
  EXPECT_EQ(held_counts.now, 0);
  EXPECT_THAT(dataset->where(7), HasSubstr("sample 7 (id 1007)"));
  dataset->check_files();
  EXPECT_EQ(held_counts.now, 0);
}

TEST_F(HeldShardsTest, UnpackingHoldsThemToo) {
  const penstock::TemporaryFolder out("held-unpack");
  EXPECT_EQ(unpack(held() + "/train", out.path() / "files").count, 0U);
  EXPECT_EQ(held_counts.now, 0);
}

}  // namespace
}  // namespace penstock
