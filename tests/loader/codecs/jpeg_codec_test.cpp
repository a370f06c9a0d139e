// The JPEG codec: every path gives the pixels of libjpeg's full decode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "loader/codecs/codec.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"
#include "loader/jpeg/entropy/seek_index.h"
#include "loader/jpeg/store/codebook_training.h"
#include "loader/jpeg/store/coefficient_sample.h"
#include "loader/jpeg/store/store_writer.h"
#include "tests/loader/jpeg_pictures.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_data::decode_by_libjpeg;
using testing_data::difference;
using testing_data::encode_jpeg;
using testing_data::jpeg_kinds;
using testing_data::JpegKind;
using testing_data::random_region;
using testing_data::WholePicture;

Sample sample_of(const std::vector<uint8_t>& file) {
  Sample sample;
  sample.encoding = Encoding::kJpeg;
  sample.bytes = file;
  sample.extent = codec_for(sample.encoding).probe(file);
  return sample;
}

/// The seek index of a JPEG; empty where it cannot have one.
std::vector<uint8_t> index_of(const std::vector<uint8_t>& file) {
  const auto header = detail::parse_jpeg_header(file);
  if (!header.is_decodable()) return {};
  return detail::build_seek_index(header, detail::JpegGeometry(header), file);
}

/// The whole picture as the codec decodes it.
WholePicture decode_whole(const std::vector<uint8_t>& file, int scale, int channels) {
  DecodeScratch scratch;
  const DecodeRequest request{
      .region = {0, 0, 1, 1}, .dct_scale = scale, .channels = channels, .path = DecodePath::kFull};
  const Picture picture = codec_for(Encoding::kJpeg).decode(sample_of(file), request, scratch);
  return {picture.height, picture.width, channels, scratch.pixels};
}

void expect_the_same_regions(const std::vector<uint8_t>& file, const WholePicture& whole, int scale, Rng& rng) {
  static DecodeScratch scratch;
  const auto index = index_of(file);
  Sample sample = sample_of(file);
  for (int i = 0; i < 16; ++i) {
    const Region region = i == 0   ? Region{0, 0, whole.width, whole.height}
                          : i == 1 ? Region{whole.width - 1, whole.height - 1, 1, 1}
                                   : random_region(whole.height, whole.width, rng);
    for (const DecodePath path : {DecodePath::kAuto, DecodePath::kIndex, DecodePath::kRegion, DecodePath::kFull}) {
      sample.seek_index = path == DecodePath::kIndex ? index : std::span<const uint8_t>();
      const DecodeRequest request{.region = region, .dct_scale = scale, .channels = whole.channels, .path = path};
      const Picture picture = codec_for(Encoding::kJpeg).decode(sample, request, scratch);
      ASSERT_THAT(difference(picture, region, whole), IsEmpty())
          << whole.width << "x" << whole.height << " at " << scale << "/8, region " << region.width << "x"
          << region.height << " at (" << region.x << ", " << region.y << "), path " << static_cast<int>(path);
    }
  }
}

void expect_paths_agree(const JpegKind& kind, int height, int width, Rng& rng) {
  SCOPED_TRACE(kind.name);
  const auto file = encode_jpeg(kind, height, width, rng.between(30, 100), rng);
  const bool is_cmyk = kind.color == JCS_CMYK || kind.color == JCS_YCCK;
  const int channels = kind.color == JCS_GRAYSCALE && rng.chance(0.5) ? 1 : 3;
  for (const int scale : {1, 2, 4, 8}) {
    // libjpeg does not convert CMYK to RGB. For CMYK the expected picture is the codec's own whole picture, which
    // another test compares with Pillow's.
    const auto whole = is_cmyk ? decode_whole(file, scale, 3) : decode_by_libjpeg(file, scale, channels);
    expect_the_same_regions(file, whole, scale, rng);
  }
}

std::vector<JpegKind> all_kinds() {
  std::vector<JpegKind> kinds = jpeg_kinds();
  kinds.push_back({"cmyk", {1, 1}, {1, 1}, JCS_CMYK});
  kinds.push_back({"ycck", {1, 1}, {1, 1}, JCS_YCCK});
  kinds.push_back({"ycck 420", {2, 2}, {1, 1}, JCS_YCCK});
  kinds.push_back({"progressive 444", {1, 1}, {1, 1}, JCS_YCbCr, true});
  kinds.push_back({"progressive 420", {2, 2}, {1, 1}, JCS_YCbCr, true});
  kinds.push_back({"four rows of chroma", {2, 4}});
  return kinds;
}

TEST(JpegCodecTest, EveryPathGivesThePixelsOfTheFullDecode) {
  for (const auto& kind : all_kinds())
    for (uint64_t trial = 0; trial < 8; ++trial) {
      Rng rng(31, 0, trial, 0);
      expect_paths_agree(kind, rng.between(1, 120), rng.between(1, 200), rng);
      if (HasFatalFailure()) return;
    }
}

TEST(JpegCodecTest, EveryPathGivesThePixelsOfTheFullDecodeOfSmallPictures) {
  for (const auto& kind : all_kinds())
    for (int size = 1; size <= 17; ++size) {
      Rng rng(32, 0, static_cast<uint64_t>(size), 0);
      expect_paths_agree(kind, size, size, rng);
      if (HasFatalFailure()) return;
    }
}

TEST(JpegCodecTest, TheRegionsLastRowEndsTheWork) {
  Rng rng(33, 0, 0, 0);
  auto file = encode_jpeg({"420", {2, 2}}, 256, 256, 90, rng);
  const Sample sample = sample_of(file);
  file.resize(file.size() / 2);  // the upper half is undamaged
  Sample half = sample;
  half.bytes = file;
  DecodeScratch scratch;
  const auto& codec = codec_for(Encoding::kJpeg);
  const Picture picture = codec.decode(half, {.region = {70, 40, 20, 10}, .path = DecodePath::kRegion}, scratch);
  EXPECT_LE(picture.width, 20 + 16);  // MCUs are 16 pixels wide
  EXPECT_EQ(picture.height, 10);
  EXPECT_THAT(testing_data::error_of([&] {
                codec.decode(half, {.region = {70, 40, 20, 10}, .path = DecodePath::kFull}, scratch);
              }),
              HasSubstr("expected a whole picture"));
}

/// Decodes the lower right of a picture that is damaged elsewhere. Returns "" when this path gives the right pixels,
/// otherwise what is wrong.
std::string far_from_damage(const Sample& damaged, const WholePicture& whole, DecodePath path) {
  const Region region{200, 200, 40, 50};
  DecodeScratch scratch;
  std::string outcome;
  const std::string error = testing_data::error_of([&] {
    outcome = difference(codec_for(damaged.encoding).decode(damaged, {.region = region, .path = path}, scratch), region,
                         whole);
  });
  return error.empty() ? outcome : error;
}

TEST(JpegCodecTest, AutoReadsTheFileUnderTheRegionAloneWhereThereIsAnIndex) {
  Rng rng(36, 0, 0, 0);
  auto file = encode_jpeg({"420", {2, 2}}, 256, 256, 90, rng);
  const auto whole = decode_by_libjpeg(file, 8, 3);
  const auto index = index_of(file);
  const detail::JpegGeometry geometry(detail::parse_jpeg_header(file));
  const detail::SeekIndex points(index, geometry);
  for (int row = 0; row < geometry.mcu_rows; ++row) {  // the left half: the first 8 MCUs of every row
    auto point = points.row_begin(row);
    const auto begin = static_cast<std::ptrdiff_t>(point.bit / 8 + 2);
    points.advance(point);
    std::fill(file.begin() + begin, file.begin() + static_cast<std::ptrdiff_t>(point.bit / 8 - 2), uint8_t{0x35});
  }
  Sample sample = sample_of(file);
  sample.seek_index = index;
  EXPECT_THAT(far_from_damage(sample, whole, DecodePath::kAuto), IsEmpty());
  EXPECT_THAT(far_from_damage(sample, whole, DecodePath::kRegion), Not(IsEmpty()));
}

TEST(JpegCodecTest, AutoReadsTheCoefficientsUnderTheRegionAlone) {
  Rng rng(37, 0, 0, 0);
  const auto file = encode_jpeg({"420", {2, 2}}, 256, 256, 90, rng);
  const auto whole = decode_by_libjpeg(file, 8, 3);
  const auto header = detail::parse_jpeg_header(file);
  const detail::JpegGeometry geometry(header);
  testing_data::LibjpegSource source(file, geometry);
  const detail::Codebook codebook = detail::train_codebook({}, 1);
  auto store = detail::StoreWriter(codebook).write(geometry, source);
  for (size_t row = 0; row < 16; ++row) {  // the left half: the first of two groups of every row
    uint32_t begin;
    uint16_t length;
    std::memcpy(&begin, store.data() + sizeof begin * row, sizeof begin);
    std::memcpy(&length, store.data() + sizeof begin * 16 + sizeof length * 2 * row, sizeof length);
    // Damages heads and bits, so that the group cannot be read.
    std::fill_n(store.begin() + begin, length, uint8_t{0xFF});
  }
  const auto bytes =
      detail::CoefficientSample{std::span(file).first(header.scan_begin), std::span(file).last(2), store}.bytes();
  Sample sample;
  sample.encoding = Encoding::kCoefficients;
  sample.bytes = bytes;
  sample.codebook = &codebook;
  sample.extent = {256, 256, 3};
  EXPECT_THAT(far_from_damage(sample, whole, DecodePath::kAuto), IsEmpty());
  EXPECT_THAT(far_from_damage(sample, whole, DecodePath::kRegion), Not(IsEmpty()));
}

TEST(JpegCodecTest, PlanThatLooksNowhereNeedsNoPixels) {
  Rng rng(34, 0, 0, 0);
  const auto file = encode_jpeg({"444"}, 20, 20, 90, rng);
  DecodeScratch scratch;
  const Picture picture = codec_for(Encoding::kJpeg).decode(sample_of(file), {.region = {}}, scratch);
  EXPECT_EQ(picture.height * picture.width, 0);
  EXPECT_EQ(picture.channels, 3);
}

TEST(JpegCodecTest, RegionOutsideIsABug) {
  Rng rng(35, 0, 0, 0);
  const auto file = encode_jpeg({"444"}, 20, 30, 90, rng);
  DecodeScratch scratch;
  EXPECT_THAT(testing_data::error_of([&] {
                codec_for(Encoding::kJpeg).decode(sample_of(file), {.region = {0, 0, 16, 10}, .dct_scale = 4}, scratch);
              }),
              HasSubstr("region 16x10 at (0, 0) of 15x10; expected it inside"));
}

}  // namespace
}  // namespace penstock
