// Files: a data set in memory, opened by a scheme of its own, gives the same results as the local data set.
#include "loader/files/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>

#include "core/regular_file.h"
#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "loader/files/safetensors.h"
#include "loader/pack/pack.h"
#include "loader/pack/unpack.h"
#include "loader/pack/verify.h"
#include "loader/shards/dataset.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

/// What `kept:` gives, and what was asked of it.
struct Kept {
  std::map<std::string, std::vector<uint8_t>> files;  // by path
  std::atomic<uint64_t> open_count{0}, range_count{0}, byte_count{0};
  uint64_t cut_bytes = 0;    // of what read() gives of a shard: what is missing at its end
  std::string error;         // what read() of a shard throws
  bool maps_itself = false;  // without a copy
};
Kept* kept = nullptr;

/// A connection that breaks, or an answer that is too short, meets shards alone: their paths are in the messages.
class KeptFile final : public RandomAccessFile {
 public:
  KeptFile(const fs::path& path, const std::vector<uint8_t>& bytes) : RandomAccessFile(path), bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  size_t read(uint64_t offset, std::span<uint8_t> out) const override {
    ++kept->range_count;
    size_t count = std::min<size_t>(out.size(), bytes_.size() - offset);
    if (path().extension() == ".safetensors") {
      if (!kept->error.empty()) throw io_error(concat(path().string(), ": ", kept->error));
      count -= kept->cut_bytes;
    }
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), count, out.begin());
    kept->byte_count += count;
    return count;
  }
  std::unique_ptr<const FileMap> map() const override {
    return kept->maps_itself ? std::make_unique<const FileMap>(path(), bytes_) : RandomAccessFile::map();
  }

 private:
  const std::vector<uint8_t>& bytes_;
};

class KeptFiles final : public Files {
 public:
  std::unique_ptr<const RandomAccessFile> open(const fs::path& path) const override {
    ++kept->open_count;
    const auto found = kept->files.find(path.string());
    if (found == kept->files.end()) throw io_error(concat(path.string(), ": was not kept; expected a file"));
    return std::make_unique<KeptFile>(path, found->second);
  }
  bool exists(const fs::path& path) const override { return kept->files.contains(path.string()); }
  std::vector<std::string> list(const fs::path& folder) const override {
    std::vector<std::string> names;
    for (const auto& [path, bytes] : kept->files)
      if (fs::path(path).parent_path() == folder) names.push_back(fs::path(path).filename().string());
    return names;
  }
};

const Registered<FilesKind> kKeptFiles{
    "kept", {}, "in memory", [](const Spec&) { return std::make_unique<KeptFiles>(); }};

/// A local data set of digits and the same one as kept:set.
class FilesTest : public testing::Test {
 protected:
  static constexpr int kShards = 3;

  FilesTest() {
    kept = &kept_;
    for (const char* split : {"train", "test"})
      pack({.source = "digits(count=90)", .input = {}, .split = split, .output = local_, .shard_count = kShards});
    for (const auto& entry : fs::recursive_directory_iterator(local_))
      if (entry.is_regular_file())
        kept_.files["kept:set/" + fs::relative(entry.path(), local_).string()] = read_file(entry.path(), kMostOfText);
  }
  ~FilesTest() override { kept = nullptr; }

  static Digest digest_of(const fs::path& folder, int workers) {
    const auto dataset = Dataset::open(folder);
    Loader loader(dataset, Pipeline("affine(degrees=9),normalize", dataset->manifest().statistics),
                  {.workers = workers, .batch_size = 16});
    loader.start_epoch(0);
    Digest digest;
    while (const auto batch = loader.next()) digest.add(*batch);
    return digest;
  }

  const penstock::TemporaryFolder folder_{"files"};
  const fs::path local_ = folder_.path() / "set";
  Kept kept_;
};

TEST_F(FilesTest, BatchesOfADataSetInMemoryAreThoseOfTheLocalOne) {
  const Digest expected = digest_of(local_, 0);
  for (const bool maps_itself : {false, true})
    for (const int workers : {0, 2}) {
      kept_.maps_itself = maps_itself;
      EXPECT_EQ(digest_of("kept:set", workers), expected) << workers << " workers, without a copy: " << maps_itself;
    }
}

TEST_F(FilesTest, AFileIsOneRangeAndAnEpochIsNone) {
  const auto dataset = Dataset::open("kept:set");
  uint64_t byte_count = kept_.files.at("kept:set/train/manifest.json").size();
  for (const auto& shard : dataset->manifest().shards) byte_count += shard.byte_count;
  EXPECT_EQ(kept_.open_count, kShards + 1U);
  EXPECT_EQ(kept_.range_count, kShards + 1U);
  EXPECT_EQ(kept_.byte_count, byte_count);
  Loader loader(dataset, Pipeline("normalize", dataset->manifest().statistics), {.workers = 2, .batch_size = 16});
  loader.start_epoch(0);
  while (loader.next()) {
  }
  EXPECT_EQ(kept_.range_count, kShards + 1U);
}

TEST_F(FilesTest, AShardWithoutACopyIsNotRead) {
  kept_.maps_itself = true;
  const auto dataset = Dataset::open("kept:set/train");
  EXPECT_EQ(kept_.range_count, 1U);  // the manifest
  const auto& bytes = kept_.files.at("kept:set/train/" + dataset->manifest().shards[0].file);
  EXPECT_EQ(dataset->at(0).bytes.data(), bytes.data() + dataset->at(0).byte_offset);
}

TEST_F(FilesTest, AShortRangeNamesTheFileAndBothSizes) {
  kept_.cut_bytes = 100;
  const uint64_t whole = read_manifest(local_ / "train").shards[0].byte_count;
  const std::string file = "kept:set/train/" + read_manifest(local_ / "train").shards[0].file;
  EXPECT_EQ(message_of(ErrorKind::kIo, [] { Dataset::open("kept:set"); }),
            concat(file, ": ", whole - 100, " bytes were read; expected its ", whole));
}

TEST_F(FilesTest, AnErrorInTheMiddleIsThatOfTheKind) {
  kept_.error = "the connection ended; expected 7 bytes more";
  EXPECT_EQ(message_of(ErrorKind::kIo, [] { Dataset::open("kept:set"); }),
            concat("kept:set/train/", read_manifest(local_ / "train").shards[0].file,
                   ": the connection ended; expected 7 bytes more"));
  const Problems problems = verify("kept:set/train");
  EXPECT_EQ(problems.count, static_cast<uint64_t>(kShards));
  EXPECT_TRUE(problems.is_files_only());
}

TEST_F(FilesTest, MessagesNameTheFileAsItWasTyped) {
  const std::string file = "kept:set/train/" + read_manifest(local_ / "train").shards[1].file;
  kept_.files.at(file).resize(50);
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [] { Dataset::open("kept:set"); }), StartsWith(file + ": header of "));
  kept_.files.erase(file);
  EXPECT_EQ(message_of(ErrorKind::kIo, [] { Dataset::open("kept:set"); }), file + ": was not kept; expected a file");
  EXPECT_EQ(message_of(ErrorKind::kIo, [] { Dataset::open("kept:set", "all"); }),
            "kept:set: no manifest.json and no all/manifest.json; expected split train or test, as is there");
}

TEST_F(FilesTest, WhatIsCorruptInMemoryIsNamedWithItsSample) {
  const auto dataset = Dataset::open("kept:set");
  auto& bytes = kept_.files.at("kept:set/train/" + dataset->manifest().shards[0].file);
  bytes[dataset->at(5).byte_offset + 3] ^= 1;
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [] { Dataset::open("kept:set")->checked_at(5); }),
              StartsWith(dataset->where(5) + ": crc32c is "));
}

TEST_F(FilesTest, VerifyChecksWhatIsInMemory) {
  EXPECT_THAT(verify("kept:set/train").lines, ElementsAre());
  kept_.files["kept:set/train/more.txt"] = {1};
  EXPECT_THAT(verify("kept:set/train").lines,
              ElementsAre("kept:set/train/more.txt: the manifest does not name it; expected its shards alone"));
}

TEST_F(FilesTest, ClassesAreComparedWithTheSplitBeside) {
  Manifest manifest = read_manifest("kept:set/test");
  std::swap(manifest.class_names[3], manifest.class_names[4]);
  write_manifest(local_ / "test", manifest);
  kept_.files.at("kept:set/test/manifest.json") = read_file(local_ / "test/manifest.json", kMostOfText);
  for (const auto& open : std::vector<std::function<void()>>{[] { Dataset::open("kept:set", "test"); },
                                                             [] { Dataset::open("kept:set/test"); }})
    EXPECT_EQ(message_of(ErrorKind::kConfig, open),
              "kept:set/test: class 3 is \"4\"; expected \"3\", as in kept:set/train; pack it again");
}

TEST_F(FilesTest, UnpackWritesTheSameFiles) {
  EXPECT_EQ(unpack(local_ / "train", folder_.path() / "expected").count, 0U);
  EXPECT_EQ(unpack("kept:set/train", folder_.path() / "found").count, 0U);
  size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "expected")) {
    if (!entry.is_regular_file()) continue;
    const fs::path twin = folder_.path() / "found" / fs::relative(entry.path(), folder_.path() / "expected");
    EXPECT_EQ(read_file(entry.path(), kMostOfText), read_file(twin, kMostOfText)) << twin;
    ++count;
  }
  EXPECT_EQ(count, 90U);
}

TEST_F(FilesTest, AnySafetensorsFileMayBeFar) {
  const std::string shard = read_manifest(local_ / "train").shards[0].file;
  const Safetensors far("kept:set/train/" + shard), local(local_ / "train" / shard);
  EXPECT_EQ(far.byte_count(), local.byte_count());
  EXPECT_EQ(far.metadata(), local.metadata());
  EXPECT_EQ(far.tensors().size(), local.tensors().size());
}

TEST(LocalFilesTest, ARangeHasWhatTheFileHas) {
  const penstock::TemporaryFolder folder("local-files");
  const fs::path path = folder.path() / "file";
  std::ofstream(path) << "0123456789";
  const auto file = files_of(path).open(path);
  EXPECT_EQ(file->size(), 10U);
  std::vector<uint8_t> out(4);
  EXPECT_EQ(file->read(3, out), 4U);
  EXPECT_EQ(std::string(out.begin(), out.end()), "3456");
  EXPECT_EQ(file->read(8, out), 2U);
  EXPECT_EQ(std::string(out.begin(), out.begin() + 2), "89");
  EXPECT_EQ(file->read(10, out), 0U);
  fs::resize_file(path, 7);
  EXPECT_EQ(message_of(ErrorKind::kIo, [&] { (void)file->contents(); }),
            path.string() + ": 7 bytes were read; expected its 10");
}

TEST(LocalFilesTest, AFolderIsListedAndOneThatIsNotThereIsNamed) {
  const penstock::TemporaryFolder folder("local-files");
  std::ofstream(folder.path() / "a") << "1";
  fs::create_directory(folder.path() / "b");
  const Files& files = files_of(folder.path());
  EXPECT_THAT(files.list(folder.path()), UnorderedElementsAre("a", "b"));
  const fs::path missing = folder.path() / "c";
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { (void)files.list(missing); }),
              StartsWith(missing.string() + ": No such file or directory; "));
}

TEST(FilesPathTest, OnlyARegisteredSchemeMakesAPathFar) {
  for (const char* path : {"kept:set", "kept:", "kept://host/set"}) EXPECT_FALSE(is_local(path)) << path;
  for (const char* path : {"kept", "photos:2024", "./kept:set", "/a/kept:set", ":set", ""})
    EXPECT_TRUE(is_local(path)) << path;
}

TEST(FilesPathTest, ASchemeHasOneObject) {
  EXPECT_EQ(&files_of("kept:set"), &files_of("kept:other/file"));
  EXPECT_EQ(&files_of("/a/kept:set"), &files_of("b"));
  EXPECT_NE(&files_of("kept:set"), &files_of("set"));
}

TEST(FilesPathTest, AFolderBesideIsWorkedOutFromTheText) {
  const std::map<std::string, std::string> beside{{"/a/train", "/a/test"},
                                                  {"/a/train/", "/a/test"},
                                                  {"train", "test"},
                                                  {"./x/../train", "test"},
                                                  {"kept:set/train", "kept:set/test"},
                                                  {"kept:train", "kept:test"},
                                                  {"kept:/set/train", "kept:/set/test"},
                                                  {"kept://host/set/train", "kept://host/set/test"},
                                                  {"kept://host/train", "kept://host/test"}};
  for (const auto& [folder, expected] : beside) EXPECT_EQ(folder_beside(folder, "test").string(), expected) << folder;
}

}  // namespace
}  // namespace penstock
