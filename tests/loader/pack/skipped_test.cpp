// skipped.jsonl: names every broken picture that a packing left out, however often it was interrupted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "core/json_text.h"
#include "loader/pack/pack.h"
#include "loader/pack/verify.h"
#include "loader/shards/dataset.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::files_below;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;
namespace fs = std::filesystem;

constexpr int kBrokenCount = 30;  // more than a terminal is shown

/// The pictures of all kinds, and beside them kBrokenCount that are cut off and one that is of no kind.
void write_broken_pictures(const fs::path& folder) {
  testing_data::write_pictures(folder);
  Bytes cut = testing_data::golden_picture("jpeg 420").file;
  cut.resize(cut.size() / 2);
  for (int i = 0; i < kBrokenCount; ++i) write_bytes(folder / "a" / ("cut" + std::to_string(100 + i) + ".jpg"), cut);
  write_bytes(folder / "b/no\xe9 \"picture\".png", std::string("text"));
}

PackOptions options_that_skip(const TemporaryFolder& folder) {
  PackOptions options = testing_data::pictures(folder);
  options.shard_count = 5;
  options.skip_corrupt = true;
  return options;
}

std::vector<nlohmann::json> lines_of(const fs::path& file) {
  const Bytes bytes = testing_data::read_bytes(file);
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(SkippedTest, EveryPictureThatWasLeftOutIsListedWithItsReason) {
  const TemporaryFolder folder;
  write_broken_pictures(folder / "in");
  pack(options_that_skip(folder));
  const auto lines = lines_of(folder / "out/train" / kSkippedFile);
  ASSERT_EQ(lines.size(), kBrokenCount + 1u);
  EXPECT_EQ(read_manifest(folder / "out/train").skipped_count, lines.size());
  for (size_t i = 0; i < kBrokenCount; ++i) {
    EXPECT_EQ(lines[i]["path"], "a/cut" + std::to_string(100 + i) + ".jpg");
    EXPECT_THAT(lines[i]["reason"].get<std::string>(), testing::StartsWith("JPEG: "));
    EXPECT_GT(lines[i + 1]["id"].get<uint64_t>(), lines[i]["id"].get<uint64_t>());
  }
  EXPECT_EQ(lines.back()["path"], "b/no\xef\xbf\xbd \"picture\".png");
  EXPECT_THAT(lines.back()["reason"].get<std::string>(), HasSubstr("4 bytes that begin with"));
  EXPECT_THAT(verify(folder / "out/train").lines, IsEmpty());
}

TEST(SkippedTest, TheListDoesNotDependOnJobs) {
  const TemporaryFolder folder;
  write_broken_pictures(folder / "in");
  std::vector<std::map<std::string, Bytes>> results;
  for (const int jobs : {1, 4}) {
    PackOptions options = options_that_skip(folder);
    options.jobs = jobs;
    options.force = true;
    pack(options);
    results.push_back(files_below(folder / "out"));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(SkippedTest, APackingThatSkipsNothingLeavesNoList) {
  const TemporaryFolder folder;
  write_broken_pictures(folder / "in");
  PackOptions options = options_that_skip(folder);
  pack(options);
  EXPECT_TRUE(fs::exists(folder / "out/train" / kSkippedFile));
  for (const auto& [name, bytes] : files_below(folder / "in"))
    if (name.starts_with("a/cut") || name.starts_with("b/no")) fs::remove(folder / "in" / name);
  options.force = true;
  pack(options);
  EXPECT_FALSE(fs::exists(folder / "out/train" / kSkippedFile));
  write_bytes(folder / "out/train" / kSkippedFile, std::string("{}\n"));
  EXPECT_THAT(verify(folder / "out/train").lines, ElementsAre(HasSubstr("the manifest does not name it")));
}

/// A source that ends the packing at the first picture after a shard was finished. `left` is then the folder as a
/// process that was killed there leaves it: an exception removes it, and a forked death test needs a process of one
/// thread (ThreadSanitizer ends any other).
class MortalSource final : public Source {
 public:
  MortalSource(const PackOptions& options, fs::path left)
      : left_(std::move(left)),
        source_(SourceRegistry::make(parse_spec(SourceKind::kName, options.source), options.input, options.split)),
        partial_(options.output / ("." + options.split + ".partial")) {}
  uint64_t size() const override { return source_->size(); }
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  int64_t label(uint64_t index) const override { return source_->label(index); }
  SourceSample read(uint64_t index) const override {
    if (dies && fs::exists(partial_ / "finished-1.json")) {
      fs::copy(partial_, left_, fs::copy_options::recursive);
      throw std::runtime_error("the packing ends here");
    }
    return source_->read(index);
  }
  std::string fingerprint() const override { return source_->fingerprint(); }
  std::string where(uint64_t index) const override { return source_->where(index); }
  std::string path(uint64_t index) const override { return source_->path(index); }

  bool dies = true;

 private:
  fs::path left_;
  std::unique_ptr<Source> source_;
  fs::path partial_;
};

TEST(SkippedTest, WhatAnInterruptedPackingLeftOutIsListedAndReportedByTheNext) {
  const TemporaryFolder folder;
  write_broken_pictures(folder / "in");
  PackOptions options = options_that_skip(folder);
  options.jobs = 1;
  MortalSource source(options, folder / "left");
  EXPECT_THROW(pack(source, "mortal", options), std::runtime_error);
  fs::create_directory(options.output);
  fs::rename(folder / "left", options.output / ("." + options.split + ".partial"));
  source.dies = false;
  uint64_t reused_count = 0;
  std::vector<std::string> skipped;
  pack(source, "mortal", options, [&](const PackProgress& progress) {
    reused_count = progress.reused_count;
    skipped.insert(skipped.end(), progress.skipped.begin(), progress.skipped.end());
  });
  EXPECT_GT(reused_count, 0u);
  EXPECT_EQ(skipped.size(), kBrokenCount + 1u);
  EXPECT_THAT(skipped, testing::Each(testing::StartsWith((folder / "in").string())));
  PackOptions anew = options;
  anew.output = folder / "anew";
  pack(source, "mortal", anew);
  EXPECT_EQ(files_below(folder / "out"), files_below(folder / "anew"));
}

}  // namespace
}  // namespace penstock
