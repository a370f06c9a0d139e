// verify(): finds any flipped bit and says what is wrong.
#include "loader/pack/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "loader/codecs/codec.h"
#include "loader/files/checksum.h"
#include "loader/files/safetensors.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"
#include "loader/jpeg/entropy/seek_index.h"
#include "loader/jpeg/store/coefficient_sample.h"
#include "loader/pack/pack.h"
#include "loader/shards/dataset.h"
#include "loader/shards/shard_writer.h"
#include "tests/loader/add_sample.h"
#include "tests/loader/jpeg_pictures.h"
#include "tests/loader/storage_test_data.h"
#include "tests/support/case_stride.h"

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
    int number = 0;
    for (const auto& [byte, named] : places_to_flip(split / file)) {
      if (number++ % kCaseStride != 0) continue;
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
              testing::Contains(HasSubstr("sha256 is")));
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
              testing::ElementsAre(
                  testing::ContainsRegex("mean\\[0\\] is 0\\.[0-9]+; expected 0\\.[0-9]+, as the shards hold: pack")));
  EXPECT_THAT(with_manifest([](auto& m) { m.class_counts = {1, 3, 2, 2, 2, 2, 2, 2, 2, 2}; }),
              testing::ElementsAre(HasSubstr("class_counts[0] is 1; expected 2, as the shards hold")));
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
  entry.set_facts(detail::facts_of(read_bytes(split / entry.file)));
  write_manifest(split, manifest);
  EXPECT_THAT(verify(split).lines, testing::ElementsAre(HasSubstr("id 0 occurs twice")));
}

/// A split of one JPEG, whose sample can be replaced by a forged one with all checksums made anew.
class ForgedJpeg {
 public:
  ForgedJpeg(const Bytes& jpeg, Encode encode) {
    write_bytes(folder_ / "in/c/p.jpg", jpeg);
    PackOptions options = pictures(folder_);
    options.shard_count = 1;
    options.storage.encode = encode;
    pack(options);
  }
  fs::path split() const { return folder_ / "out/train"; }
  ShardReader shard() const { return ShardReader(file()); }

  void replace(const Sample& forged) const {
    const Bytes codebook = Safetensors(file()).find("codebook") ? Bytes(codebook_of(file())) : Bytes();
    ShardWriter writer(folder_ / "new", {}, codebook);
    writer.add(forged);
    Manifest manifest = read_manifest(split());
    writer.finish();
    manifest.shards[0].set_facts(detail::facts_of(read_bytes(folder_ / "new")));
    fs::rename(folder_ / "new", file());
    write_manifest(split(), manifest);
  }
  /// The error of decoding the whole picture by this path.
  std::string error_by(DecodePath path) const {
    const ShardReader reader = shard();
    const Sample sample = reader.at(0);
    DecodeScratch scratch;
    const DecodeRequest request{.region = {0, 0, sample.extent.width, sample.extent.height}, .path = path};
    return testing_data::error_of([&] { codec_for(sample.encoding).decode(sample, request, scratch); });
  }

 private:
  static Bytes codebook_of(const fs::path& file) {
    const Safetensors tensors(file);
    const auto bytes = tensors.find("codebook")->bytes;
    return {bytes.begin(), bytes.end()};
  }
  fs::path file() const { return split() / "shard-00000-of-00001.safetensors"; }
  TemporaryFolder folder_;
};

/// Coefficients have a head and a tail of the file, which only libjpeg-turbo and unpack() read.
TEST(VerifyTest, CoefficientsWhoseFileCannotBeRebuiltAreFound) {
  for (const std::string forgery : {"none", "no EOI", "DAC", "Huffman table"}) {
    SCOPED_TRACE(forgery);
    const ForgedJpeg forged(testing_data::golden_picture("jpeg 420").file, Encode::kAuto);
    Bytes head, tail;
    {
      const ShardReader reader = forged.shard();
      Sample sample = reader.at(0);
      auto parts = detail::CoefficientSample::parse(sample.bytes);
      head = {parts.header.begin(), parts.header.end()}, tail = {parts.tail.begin(), parts.tail.end()};
      const Bytes dac{0xFF, 0xCC, 0, 4, 99, 0}, dht{0xFF, 0xC4};
      if (forgery == "no EOI") tail.clear();
      if (forgery == "DAC") head.insert(head.begin() + 2, dac.begin(), dac.end());
      const auto table = std::search(head.begin(), head.end(), dht.begin(), dht.end());
      if (forgery == "Huffman table") std::fill_n(table + 21, 8, uint8_t{0});  // the first 8 symbols
      parts.header = head, parts.tail = tail;
      const Bytes bytes = parts.bytes();
      sample.bytes = bytes;
      forged.replace(sample);
    }
    EXPECT_EQ(forged.error_by(DecodePath::kAuto), "");
    const bool is_sound = forgery == "none";
    EXPECT_EQ(forged.error_by(DecodePath::kFull).empty(), is_sound);
    const auto problems = verify(forged.split()).lines;
    EXPECT_EQ(problems.size(), is_sound ? 0u : 1u);
    EXPECT_THAT(problems, testing::Each(HasSubstr("sample 0 (id 0) at byte 4096: ")));
  }
}

/// Decoding the whole picture does not pass all points of an index with a point every 3 MCUs, which other writers may
/// make. Every bit but those of the padding is flipped.
TEST(VerifyTest, APointOfASeekIndexThatIsElsewhereIsFound) {
  Rng rng(44, 0, 0, 0);
  const Bytes jpeg = testing_data::encode_jpeg({"grey", {1, 1}, {1, 1}, JCS_GRAYSCALE}, 16, 300, 90, rng);
  const auto header = detail::parse_jpeg_header(jpeg);
  const Bytes index = detail::build_seek_index(header, detail::JpegGeometry(header), jpeg, 3);
  const ForgedJpeg forged(jpeg, Encode::kKeep);
  const ShardReader reader = forged.shard();
  Sample sample = reader.at(0);
  sample.seek_index = index;
  DecodeScratch scratch;
  const Codec& codec = codec_for(Encoding::kJpeg);
  EXPECT_EQ(testing_data::error_of([&] { codec.check_further(sample, scratch); }), "");
  int unnoticed_count = 0;  // by decoding the whole picture
  constexpr size_t kPaddingBytes = 7;
  for (size_t bit = 0; bit < 8 * (index.size() - kPaddingBytes - 1); ++bit) {
    Bytes changed = index;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    sample.seek_index = changed;
    EXPECT_NE(testing_data::error_of([&] { codec.check_further(sample, scratch); }), "") << "bit " << bit;
    const DecodeRequest whole{.region = {0, 0, 300, 16}, .channels = 1};
    if (!testing_data::error_of([&] { codec.decode(sample, whole, scratch); }).empty() || ++unnoticed_count > 1)
      continue;
    forged.replace(sample);
    EXPECT_THAT(verify(forged.split()).lines, testing::ElementsAre(HasSubstr("seek index: ")));
  }
  EXPECT_GT(unnoticed_count, 0);
}

}  // namespace
}  // namespace penstock
