// verify(): finds any flipped bit and says what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "loader/dataset.h"
#include "loader/pack.h"
#include "loader/safetensors.h"
#include "loader/shard_writer.h"
#include "tests/loader/add_sample.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::Bytes;
using testing_data::digits;
using testing_data::files_below;
using testing_data::pictures;
using testing_data::read_bytes;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;
using testing_data::write_pictures;
namespace fs = std::filesystem;

/// Flips one bit of a shard. Returns the problems that verify() finds.
std::vector<std::string> problems_after_flip(const fs::path& split, const std::string& file, const Bytes& whole,
                                             size_t byte) {
  Bytes flipped = whole;
  flipped[byte] ^= static_cast<uint8_t>(1u << (byte % 8));
  write_bytes(split / file, flipped);
  return verify(split, 1).lines;
}

/// What a problem must contain when a bit of byte `i` of `tensor` is flipped: the sample, where there is one.
std::string expected_problem(const TensorView& tensor, size_t i, size_t row_count) {
  static const std::set<std::string> kNoColumns{"padding", "images", "bytes", "index", "path"};
  if (tensor.name == "codebook") return "codebook";
  if (kNoColumns.contains(tensor.name)) return "shard-";
  const size_t row_bytes = tensor.bytes.size() / tensor.shape[0];
  // When the border between two neighbouring samples has moved, either of them may be named.
  const bool is_border = tensor.shape[0] == row_count + 1;
  return "sample " + (is_border ? "[0-9]+" : std::to_string(i / row_bytes)) + " |at row|offset\" runs";
}

/// Positions of bytes in a shard, and for each what a problem must contain when one of its bits is flipped.
std::map<size_t, std::string> places_to_flip(const fs::path& file) {
  std::map<size_t, std::string> places;
  for (size_t byte = 0; byte < kShardHeaderBytes; byte += 53) places[byte] = "shard-";
  const Safetensors tensors(file);
  const ShardReader shard(file);
  for (const auto& tensor : tensors.tensors())
    for (size_t i = 0; i < tensor.bytes.size(); i += std::max<size_t>(1, tensor.bytes.size() / 40))
      places[tensor.byte_offset + i] = expected_problem(tensor, i, shard.size());
  for (size_t row = 0; row < shard.size(); ++row) {
    const Sample sample = shard.at(row);
    const std::string id = "\\(id " + std::to_string(sample.id) + "\\)";
    const auto add = [&](const uint8_t* bytes, size_t count) {
      const ptrdiff_t at = bytes - (sample.bytes.data() - sample.byte_offset);
      for (size_t i = 0; i < count; i += std::max<size_t>(1, count / 10)) places[static_cast<size_t>(at) + i] = id;
    };
    add(sample.bytes.data(), sample.bytes.size());
    add(sample.seek_index.data(), sample.seek_index.size());
    add(reinterpret_cast<const uint8_t*>(sample.path.data()), sample.path.size());
  }
  return places;
}

TEST(VerifyTest, AnyFlippedBitIsFoundAndTheSampleNamed) {
  const TemporaryFolder folder;
  write_pictures(folder / "in");
  pack(pictures(folder));
  auto kept = pictures(folder);
  kept.output = folder / "kept";
  kept.storage.encode = Encode::kKeep;
  pack(kept);
  pack(digits(folder / "digits", 9, 1));
  for (const auto& split : {folder / "out/train", folder / "kept/train", folder / "digits/train"}) {
    EXPECT_THAT(verify(split).lines, testing::IsEmpty());
    const std::string file = read_manifest(split).shards[0].file;
    const Bytes whole = read_bytes(split / file);
    for (const auto& [byte, named] : places_to_flip(split / file)) {
      const auto problems = problems_after_flip(split, file, whole, byte);
      ASSERT_FALSE(problems.empty()) << file << ", byte " << byte;
      EXPECT_THAT(problems, testing::Contains(testing::ContainsRegex(named))) << "byte " << byte;
    }
    write_bytes(split / file, whole);
    EXPECT_THAT(verify(split).lines, testing::IsEmpty());
  }
}

TEST(VerifyTest, WhatIsWrongIsSaid) {
  const TemporaryFolder folder;
  const auto split = folder / "d/train";
  pack(digits(folder / "d", 20, 2));
  const auto files = files_below(split);
  const auto problems_after = [&](const std::function<void()>& change) {
    change();
    const auto problems = verify(split).lines;
    for (const auto& [name, bytes] : files) write_bytes(split / name, bytes);
    return problems;
  };
  const std::string first = "shard-00000-of-00002.safetensors";
  EXPECT_THAT(problems_after([&] { fs::remove(split / first); }), testing::Each(HasSubstr("No such file")));
  EXPECT_THAT(problems_after([&] { fs::resize_file(split / first, 5000); }),
              testing::Contains(HasSubstr("5000 bytes; expected")));
  EXPECT_THAT(problems_after([&] {
                fs::copy_file(split / "shard-00001-of-00002.safetensors", split / first,
                              fs::copy_options::overwrite_existing);
              }),
              testing::Contains(HasSubstr("xxh3 is")));
  EXPECT_THAT(problems_after([&] { fs::remove(split / "manifest.json"); }),
              testing::ElementsAre(HasSubstr("No such file")));
  const auto with_manifest = [&](const std::function<void(Manifest&)>& change) {
    return problems_after([&] {
      Manifest manifest = read_manifest(split);
      change(manifest);
      write_manifest(split, manifest);
    });
  };
  EXPECT_THAT(with_manifest([](auto& m) { m.statistics.mean[0] += 1e-15; }),
              testing::ElementsAre(HasSubstr("mean is not what the shards hold")));
  EXPECT_THAT(with_manifest([](auto& m) { m.class_counts = {1, 3, 2, 2, 2, 2, 2, 2, 2, 2}; }),
              testing::ElementsAre(HasSubstr("class_counts is not")));
  EXPECT_THAT(with_manifest([](auto& m) { m.class_names.resize(9), m.class_counts = {2, 2, 2, 2, 2, 2, 2, 2, 4}; }),
              testing::Contains(HasSubstr("label is 9; expected 0 to 8")));
  EXPECT_THAT(
      with_manifest([](auto& m) { m.class_names[7] = m.class_names[2]; }),
      testing::ElementsAre(HasSubstr("class_names: \"2\" is the name of labels 2 and 7; expected every name once")));
  EXPECT_THAT(with_manifest([](auto& m) { m.split = "test"; }),
              testing::ElementsAre(HasSubstr("split is \"test\"; expected \"train\", as the folder's name says")));
  EXPECT_THAT(problems_after([&] { write_bytes(split / "stray", std::string("x")); }),
              testing::ElementsAre(HasSubstr("stray: the manifest does not name it")));
}

/// The folder of a split may have any name except that of another split.
TEST(VerifyTest, ASplitUnderAnotherNameIsWhole) {
  const TemporaryFolder folder;
  pack(digits(folder / "d", 20, 2));
  fs::rename(folder / "d/train", folder / "d/mine");
  EXPECT_THAT(verify(folder / "d/mine").lines, testing::IsEmpty());
  EXPECT_THAT(verify(folder / "d/mine/.").lines, testing::IsEmpty());
  fs::rename(folder / "d/mine", folder / "d/all");
  EXPECT_THAT(verify(folder / "d/all/.").lines,
              testing::ElementsAre(HasSubstr("split is \"train\"; expected \"all\"")));
}

TEST(VerifyTest, AnIdThatStandsTwiceIsFound) {
  const TemporaryFolder folder;
  pack(digits(folder / "d", 20, 2));
  const auto split = folder / "d/train";
  Manifest manifest = read_manifest(split);
  auto& entry = manifest.shards[1];
  {
    const ShardReader old(split / entry.file);
    ASSERT_EQ(old.at(0).id, 10u);
    ShardWriter writer(folder / "new", manifest.extent);
    for (size_t row = 0; row < old.size(); ++row)  // takes the ids of the other shard
      testing_data::add_sample(writer, row, old.at(row).label, old.at(row).extent, Encoding::kRaw, old.at(row).bytes);
    writer.finish();
  }
  fs::rename(folder / "new", split / entry.file);
  const auto problems = verify(split).lines;
  ASSERT_EQ(problems.size(), 1u);  // the checksum, which the manifest now gets too
  entry.xxh3 = problems[0].substr(problems[0].find("xxh3 is ") + 8, 32);
  write_manifest(split, manifest);
  EXPECT_THAT(verify(split).lines, testing::ElementsAre(HasSubstr("id 0 occurs twice")));
}

}  // namespace
}  // namespace penstock
