// Storage: the form in which pack() stores pictures, and that unpack() gives the files back.
#include "loader/pack/unpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "loader/codecs/codec.h"
#include "loader/jpeg/entropy/write_jpeg.h"
#include "loader/pack/pack.h"
#include "loader/shards/dataset.h"
#include "tests/loader/add_sample.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::files_below;
using testing_data::golden_picture;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;

/// The JPEG of a smooth picture with some detail, like that of a camera.
Bytes photograph(int height, int width, int quality) {
  Bytes pixels(static_cast<size_t>(height) * width * 3);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        pixels[(static_cast<size_t>(y) * width + x) * 3 + c] = static_cast<uint8_t>(x * (c + 1) + y * 2 + (x * y) % 23);
  return detail::write_jpeg({pixels.data(), ptrdiff_t{width} * 3, height, width, 3, 0, 0}, quality);
}

/// `jpeg` with an EXIF segment that says `orientation`.
Bytes turned(const Bytes& jpeg, uint8_t orientation) {
  const Bytes exif{0xFF, 0xE1, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I',         'I', 42, 0, 8, 0, 0, 0,
                   1,    0,    0x12, 1,  3,   0,   1,   0,   0, 0, orientation, 0,   0,  0, 0, 0, 0, 0};
  Bytes file(jpeg.size() + exif.size());
  auto at = std::copy_n(jpeg.begin(), 2, file.begin());
  at = std::copy(exif.begin(), exif.end(), at);
  std::copy(jpeg.begin() + 2, jpeg.end(), at);
  return file;
}

class UnpackTest : public testing::Test {
 protected:
  PackOptions options(Encode encode) const {
    PackOptions options = testing_data::pictures(folder_);
    options.storage.encode = encode;
    return options;
  }
  std::shared_ptr<const Dataset> packed(const PackOptions& options) const {
    pack(options);
    return Dataset::open(folder_ / "out");
  }
  /// Writes a data set of one sample with one pixel.
  void write_one_pixel(const std::string& path, const std::string& class_name) const {
    std::filesystem::create_directories(folder_ / "out/train");
    ShardWriter writer(folder_ / "out/train/s.safetensors", {});
    const Bytes pixel{7};
    writer.add({.id = 3, .extent = {1, 1, 1}, .bytes = pixel, .path = path});
    Manifest manifest;
    manifest.split = "train";
    manifest.class_names = {class_name};
    manifest.class_counts = {1};
    manifest.sample_count = 1;
    manifest.shards.push_back({"s.safetensors", 1, writer.finish(), std::string(32, '0')});
    write_manifest(folder_ / "out/train", manifest);
  }
  std::map<std::string, Bytes> unpacked() const {
    unpack(folder_ / "out/train", folder_ / "back");
    return files_below(folder_ / "back");
  }

  TemporaryFolder folder_;
};

TEST_F(UnpackTest, FilesComeBackToTheByteUnderTheirPaths) {
  for (const Encode encode : {Encode::kAuto, Encode::kKeep, Encode::kCoefficients}) {
    write_bytes(folder_ / "in/cat/deep/one.jpg", photograph(61, 83, 90));
    write_bytes(folder_ / "in/cat/grey.jpg", golden_picture("jpeg grey").file);
    write_bytes(folder_ / "in/dog/444.jpg", golden_picture("jpeg 444").file);
    write_bytes(folder_ / "in/dog/flat.jpeg", photograph(1, 1, 50));
    write_bytes(folder_ / "in/dog/cmyk.jpg", golden_picture("jpeg cmyk").file);
    const auto dataset = packed(options(encode));
    EXPECT_EQ(unpacked(), files_below(folder_ / "in")) << encode_name(encode);
    uint64_t coefficient_count = 0, index_count = 0;
    for (uint64_t i = 0; i < dataset->size(); ++i) {
      coefficient_count += dataset->at(i).encoding == Encoding::kCoefficients;
      index_count += !dataset->at(i).seek_index.empty();
      EXPECT_EQ(dataset->at(i).codebook == nullptr, encode == Encode::kKeep);
    }
    EXPECT_EQ(coefficient_count, encode == Encode::kKeep ? 0u : 4u);  // all JPEGs but the CMYK one
    EXPECT_EQ(index_count, encode == Encode::kKeep ? 4u : 0u);
    std::filesystem::remove_all(folder_ / "out");
    std::filesystem::remove_all(folder_ / "back");
  }
}

TEST_F(UnpackTest, ProgressiveFilesAreMadeBaselineWithTheSamePixels) {
  const auto& progressive = golden_picture("jpeg progressive");
  write_bytes(folder_ / "in/c/p.jpg", progressive.file);
  const auto dataset = packed(options(Encode::kAuto));
  EXPECT_EQ(dataset->manifest().transcoded_count, 1u);
  EXPECT_EQ(dataset->at(0).encoding, Encoding::kCoefficients);
  const Bytes file = unpacked().at("c/p.jpg");
  EXPECT_NE(file, progressive.file);
  const Sample sample{.extent = progressive.extent, .encoding = Encoding::kJpeg, .bytes = file};
  const Region whole{0, 0, progressive.extent.width, progressive.extent.height};
  DecodeScratch scratch;
  const Picture picture = codec_for(Encoding::kJpeg).decode(sample, {.region = whole, .channels = 3}, scratch);
  for (int y = 0; y < picture.height; ++y) {
    const uint8_t* row = picture.pixels + y * picture.row_stride;
    EXPECT_TRUE(
        std::equal(row, row + picture.width * 3, progressive.pixels.begin() + ptrdiff_t{y} * picture.width * 3));
  }
}

TEST_F(UnpackTest, FilesThatAreCodedOtherwiseAreKeptUnlessCoefficientsAreAskedFor) {
  Bytes file = photograph(60, 84, 80);
  file[file.size() - 3] ^= 1;  // the last of the padding bits in the scan's last byte, which are otherwise all ones
  write_bytes(folder_ / "in/c/p.jpg", file);
  for (const Encode encode : {Encode::kAuto, Encode::kCoefficients}) {
    SCOPED_TRACE(static_cast<int>(encode));
    const bool is_kept = encode == Encode::kAuto;
    const auto dataset = packed(options(encode));
    EXPECT_EQ(dataset->at(0).encoding, is_kept ? Encoding::kJpeg : Encoding::kCoefficients);
    EXPECT_EQ(dataset->manifest().transcoded_count, is_kept ? 0u : 1u);
    Bytes back = unpacked().at("c/p.jpg");
    EXPECT_EQ(back == file, is_kept);
    if (!is_kept) back[back.size() - 3] ^= 1;
    EXPECT_EQ(back, file);
    std::filesystem::remove_all(folder_ / "out");
    std::filesystem::remove_all(folder_ / "back");
  }
}

TEST_F(UnpackTest, ProgressiveFilesStayAsTheyAreWithoutTranscoding) {
  write_bytes(folder_ / "in/c/p.jpg", golden_picture("jpeg progressive").file);
  auto wanted = options(Encode::kAuto);
  wanted.storage.transcodes = false;
  const auto dataset = packed(wanted);
  EXPECT_EQ(dataset->manifest().transcoded_count, 0u);
  EXPECT_EQ(dataset->at(0).encoding, Encoding::kJpeg);
  EXPECT_TRUE(dataset->at(0).seek_index.empty());
  EXPECT_EQ(unpacked(), files_below(folder_ / "in"));
}

TEST_F(UnpackTest, ReducedPicturesHaveTheShortSideAskedFor) {
  write_bytes(folder_ / "in/c/wide.jpg", photograph(90, 120, 90));
  write_bytes(folder_ / "in/c/small.jpg", photograph(20, 30, 90));
  write_bytes(folder_ / "in/c/turned.jpg", turned(photograph(90, 120, 90), 6));
  auto wanted = options(Encode::kAuto);
  wanted.storage.resize_short = 45;
  const auto dataset = packed(wanted);
  std::map<std::string, Extent> extents;
  for (uint64_t i = 0; i < dataset->size(); ++i) extents[std::string(dataset->at(i).path)] = dataset->at(i).extent;
  EXPECT_EQ(extents.at("c/wide.jpg"), (Extent{45, 60, 3}));
  EXPECT_EQ(extents.at("c/small.jpg"), (Extent{20, 30, 3}));
  EXPECT_EQ(extents.at("c/turned.jpg"), (Extent{60, 45, 3}));
  EXPECT_EQ(unpacked().at("c/small.jpg"), photograph(20, 30, 90)) << "what is small enough is not compressed again";
}

TEST_F(UnpackTest, RawPixelsBecomePng) {
  write_bytes(folder_ / "in/c/p.png", golden_picture("jpeg 444").file);  // a JPEG is recognised by its content
  const auto dataset = packed(options(Encode::kRaw));
  ASSERT_EQ(dataset->at(0).encoding, Encoding::kRaw);
  const Bytes pixels(dataset->at(0).bytes.begin(), dataset->at(0).bytes.end());
  const Bytes file = unpacked().at("c/p.png");
  const Extent extent = codec_for(detect_encoding(file)).probe(file);
  const Sample sample{.extent = extent, .encoding = Encoding::kPng, .bytes = file};
  DecodeScratch scratch;
  const DecodeRequest whole{.region = {0, 0, extent.width, extent.height}, .channels = extent.channels};
  const Picture picture = codec_for(Encoding::kPng).decode(sample, whole, scratch);
  EXPECT_EQ(Bytes(picture.pixels, picture.pixels + pixels.size()), pixels);
}

TEST_F(UnpackTest, RawShareIsAShare) {
  for (int i = 0; i < 200; ++i) write_bytes(folder_ / ("in/c/" + std::to_string(i) + ".jpg"), photograph(8, 8, 90));
  auto wanted = options(Encode::kAuto);
  wanted.storage.raw_share = 0.3;
  const auto dataset = packed(wanted);
  int raw_count = 0;
  for (uint64_t i = 0; i < dataset->size(); ++i) raw_count += dataset->at(i).encoding == Encoding::kRaw;
  EXPECT_NEAR(raw_count, 60, 20);  // 3 standard deviations
}

TEST_F(UnpackTest, ExifOrientationIsKeptBesideThePicture) {
  const Bytes file = turned(photograph(20, 30, 90), 8);
  write_bytes(folder_ / "in/c/p.jpg", file);
  EXPECT_EQ(packed(options(Encode::kAuto))->at(0).orientation, 8);
  EXPECT_EQ(unpacked().at("c/p.jpg"), file);
  std::filesystem::remove_all(folder_ / "out");
  auto wanted = options(Encode::kAuto);
  wanted.storage.honours_exif = false;
  EXPECT_EQ(packed(wanted)->at(0).orientation, 1);
}

TEST_F(UnpackTest, TheFirstExifSegmentCounts) {
  write_bytes(folder_ / "in/c/p.jpg", turned(turned(photograph(20, 30, 90), 1), 6));
  EXPECT_EQ(packed(options(Encode::kAuto))->at(0).orientation, 6);
}

TEST_F(UnpackTest, ExifOfPngsIsHonouredToo) {
  Bytes file = golden_picture("png rgb").file;
  const Bytes chunk = testing_data::from_hex(
      "0000001a6558496649492a0008000000010012010300010000000600000000000000b7481129");  // eXIf: orientation 6
  file.insert(file.begin() + 33, chunk.begin(), chunk.end());                           // after IHDR
  write_bytes(folder_ / "in/c/p.png", file);
  const auto dataset = packed(options(Encode::kAuto));
  EXPECT_EQ(dataset->at(0).encoding, Encoding::kPng);
  EXPECT_EQ(dataset->at(0).orientation, 6);
  EXPECT_EQ(unpacked().at("c/p.png"), file);
  const Extent lying = dataset->at(0).extent;
  std::filesystem::remove_all(folder_ / "out");
  const Extent upright = packed(options(Encode::kRaw))->at(0).extent;
  EXPECT_EQ(upright, (Extent{lying.width, lying.height, 3}));
}

TEST_F(UnpackTest, AnOddRevisionOfJfifIsNoDamageButBytesBehindTheScanAre) {
  Bytes file = photograph(40, 50, 90);
  file[11] = 0;  // JFIF's major revision
  write_bytes(folder_ / "in/c/p.jpg", file);
  for (const Encode encode : {Encode::kAuto, Encode::kRaw}) {
    packed(options(encode));
    if (encode == Encode::kAuto) {
      EXPECT_EQ(unpacked().at("c/p.jpg"), file);
    }
    std::filesystem::remove_all(folder_ / "out");
  }
  file.insert(file.end() - 2, 65, 0x55);
  write_bytes(folder_ / "in/c/p.jpg", file);
  for (const Encode encode : {Encode::kAuto, Encode::kKeep, Encode::kRaw})
    EXPECT_THAT(error_of([&] { packed(options(encode)); }), testing::StartsWith("4 ")) << encode_name(encode);
}

TEST_F(UnpackTest, AFlippedBitIsRefusedWhereverLibjpegWouldWarn) {
  const Bytes plain = photograph(128, 128, 90);
  int refused_count = 0;
  for (size_t i = 0; i < 60; ++i) {
    Bytes file = plain;
    file[file.size() / 4 + i * (file.size() / 2) / 60] ^= 0x10;
    write_bytes(folder_ / "in/c/p.jpg", file);
    // Our reader detects at least what libjpeg detects.
    std::array<bool, 2> is_refused{};
    for (const Encode encode : {Encode::kKeep, Encode::kRaw}) {
      is_refused[encode == Encode::kRaw] = !error_of([&] { packed(options(encode)); }).empty();
      std::filesystem::remove_all(folder_ / "out");
    }
    EXPECT_TRUE(is_refused[0] || !is_refused[1]) << i;
    refused_count += is_refused[0];
  }
  EXPECT_GT(refused_count, 5);
}

TEST_F(UnpackTest, NothingIsWrittenOutsideOfTheFolder) {
  for (const std::string path : {"../p.png", "/tmp/p.png", "a/../../p.png", "a/", "."}) {
    write_one_pixel(path, "c");
    const Problems problems = unpack(folder_ / "out/train", folder_ / "back");
    ASSERT_EQ(problems.lines.size(), 1u) << path;
    EXPECT_THAT(problems.lines[0], HasSubstr("id 3")) << path;
    EXPECT_FALSE(problems.is_files_only()) << path;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "p.png")) << path;
    std::filesystem::remove_all(folder_ / "out");
  }
}

TEST_F(UnpackTest, SamplesWithoutAPathGoBelowSplitAndClass) {
  for (const auto& [name, expected] : {std::pair{"a cat", "train/a cat/3.png"},
                                       {"a/../../b", "train/a_.._.._b/3.png"},
                                       {"..", "train/_/3.png"},
                                       {"", "train/_/3.png"}}) {
    write_one_pixel("", name);
    const auto files = unpacked();
    ASSERT_EQ(files.size(), 1u) << name;
    EXPECT_EQ(files.begin()->first, expected);
    std::filesystem::remove_all(folder_ / "out");
    std::filesystem::remove_all(folder_ / "back");
  }
}

TEST_F(UnpackTest, NothingIsOverwritten) {
  write_bytes(folder_ / "in/c/p.jpg", photograph(8, 8, 90));
  write_bytes(folder_ / "back/c/p.jpg", Bytes{1});
  pack(options(Encode::kAuto));
  EXPECT_THAT(error_of([&] { unpack(folder_ / "out/train", folder_ / "back"); }), HasSubstr("File exists"));
  EXPECT_EQ(files_below(folder_ / "back").at("c/p.jpg"), Bytes{1});
}

TEST_F(UnpackTest, PicturesOfMorePixelsThanTheLimitAreCorrupt) {
  write_bytes(folder_ / "in/c/p.jpg", photograph(8, 9, 90));
  for (const Encode encode : {Encode::kAuto, Encode::kKeep, Encode::kRaw}) {
    auto wanted = options(encode);
    wanted.storage.max_pixels = 71;
    EXPECT_THAT(error_of([&] { pack(wanted); }), HasSubstr("picture of 8 x 9 pixels; expected at most 71"))
        << encode_name(encode);
    wanted.storage.max_pixels = 72;
    EXPECT_EQ(packed(wanted)->manifest().storage,
              concat("encode=", encode_name(encode), ",max-pixels=72,sixteen-bit=keep"));
    std::filesystem::remove_all(folder_ / "out");
  }
}

TEST_F(UnpackTest, OptionsThatCannotBeMeantAreRefused) {
  write_bytes(folder_ / "in/c/p.jpg", photograph(8, 8, 90));
  const auto message = [&](auto change) {
    auto wanted = options(Encode::kAuto);
    change(wanted.storage);
    return error_of([&] { pack(wanted); });
  };
  EXPECT_THAT(message([](auto& s) { s.quality = 0; }), HasSubstr("2 pack: quality is 0; expected 1 to 100"));
  EXPECT_THAT(message([](auto& s) { s.raw_share = 1.5; }), HasSubstr("raw-share is 1.5; expected 0 to 1"));
  EXPECT_THAT(message([](auto& s) { s.resize_short = -1; }), HasSubstr("resize is -1; expected"));
  EXPECT_THAT(message([](auto& s) { s.max_pixels = 0; }), HasSubstr("max-pixels is 0; expected 1 to 268435456"));
  EXPECT_THAT(message([](auto& s) { s.max_pixels = (1 << 28) + 1; }), HasSubstr("max-pixels is 268435457"));
  EXPECT_THAT(message([](auto& s) { s = {.encode = Encode::kKeep, .raw_share = 0.5}; }),
              HasSubstr("raw-share is 0.5 with encode keep"));
  EXPECT_THAT(message([](auto& s) { s = {.encode = Encode::kKeep, .resize_short = 100}; }),
              HasSubstr("with encode keep, which leaves files as they are"));
}

}  // namespace
}  // namespace penstock
