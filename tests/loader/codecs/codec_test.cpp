// Codecs: give the pixels that Pillow gives, and survive hostile bytes.
#include "loader/codecs/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::from_hex;
using testing_data::golden_picture;
using testing_data::golden_pictures;

Sample sample_of(const Bytes& bytes, Encoding encoding, const Extent& extent) {
  Sample sample;
  sample.extent = extent;
  sample.encoding = encoding;
  sample.bytes = bytes;
  return sample;
}

/// The pixels of the decoded picture, row after row.
Bytes decoded(const Sample& sample, int channels) {
  DecodeScratch scratch;
  const Region whole{0, 0, sample.extent.width, sample.extent.height};
  const Picture picture = codec_for(sample.encoding).decode(sample, {.region = whole, .channels = channels}, scratch);
  Bytes pixels;
  for (int row = 0; row < picture.height; ++row) {
    const uint8_t* begin = picture.pixels + row * picture.row_stride;
    pixels.insert(pixels.end(), begin, begin + ptrdiff_t{picture.width} * picture.channels);
  }
  return pixels;
}

Bytes replicated(const Bytes& grey) {
  Bytes rgb;
  for (const uint8_t level : grey) rgb.insert(rgb.end(), 3, level);
  return rgb;
}

TEST(CodecTest, PixelsArePillows) {
  for (const auto& golden : golden_pictures()) {
    const Encoding encoding = detect_encoding(golden.file);
    EXPECT_EQ(codec_for(encoding).probe(golden.file), golden.extent) << golden.name;
    EXPECT_EQ(decoded(sample_of(golden.file, encoding, golden.extent), golden.extent.channels), golden.pixels)
        << golden.name;
  }
}

TEST(CodecTest, GreyIsReplicatedWhenRgbIsWanted) {
  for (const auto& golden : golden_pictures()) {
    if (golden.extent.channels == 3) continue;
    const auto sample = sample_of(golden.file, detect_encoding(golden.file), golden.extent);
    EXPECT_EQ(decoded(sample, 3), replicated(golden.pixels)) << golden.name;
  }
  const Bytes raw{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(decoded(sample_of(raw, Encoding::kRaw, {2, 3, 1}), 3), replicated(raw));
}

TEST(CodecTest, RgbIsNeverMadeGrey) {
  for (const auto& golden : golden_pictures()) {
    if (golden.extent.channels == 1) continue;
    const auto sample = sample_of(golden.file, detect_encoding(golden.file), golden.extent);
    EXPECT_THAT(error_of([&] { decoded(sample, 1); }), HasSubstr("4 picture of 3 channels; expected 1")) << golden.name;
  }
}

TEST(CodecTest, RawPixelsAreNotCopied) {
  const Bytes raw{1, 2, 3, 4, 5, 6};
  DecodeScratch scratch;
  const auto sample = sample_of(raw, Encoding::kRaw, {1, 2, 3});
  EXPECT_EQ(codec_for(Encoding::kRaw).decode(sample, {.region = {0, 0, 2, 1}}, scratch).pixels, raw.data());
}

TEST(CodecTest, StatedExtentMustBeThePictures) {
  for (const char* name : {"png rgb", "jpeg 444"}) {
    const auto& golden = golden_picture(name);
    const auto sample = sample_of(golden.file, detect_encoding(golden.file), {9, 14, 3});
    EXPECT_THAT(error_of([&] { decoded(sample, 3); }), HasSubstr("picture of 9 x 13 x 3; expected 9 x 14 x 3")) << name;
  }
  EXPECT_THAT(error_of([&] {
                decoded(sample_of({1, 2, 3}, Encoding::kRaw, {1, 2, 3}), 3);
              }),
              HasSubstr("3 bytes of raw pixels; expected 6"));
}

TEST(CodecTest, TruncatedPicturesAreCorrupt) {
  for (const auto& golden : golden_pictures()) {
    const Encoding encoding = detect_encoding(golden.file);
    // The last 4 bytes of a PNG are the CRC of the empty chunk at its end.
    const size_t tail = encoding == Encoding::kPng ? 4 : 1;
    for (size_t size = 0; size + tail < golden.file.size(); ++size) {
      const Bytes part(golden.file.begin(), golden.file.begin() + static_cast<ptrdiff_t>(size));
      EXPECT_THAT(error_of([&] { decoded(sample_of(part, encoding, golden.extent), 3); }), testing::StartsWith("4 "))
          << golden.name << ", the first " << size << " bytes";
    }
  }
}

TEST(CodecTest, AnyFlippedBitIsAnErrorOrAPictureOfTheSameSize) {
  for (const auto& golden : golden_pictures()) {
    const Encoding encoding = detect_encoding(golden.file);
    for (size_t bit = 0; bit < golden.file.size() * 8; ++bit) {
      Bytes flipped = golden.file;
      flipped[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
      Bytes pixels;
      const auto error =
          error_of([&] { pixels = decoded(sample_of(flipped, encoding, golden.extent), golden.extent.channels); });
      if (error.empty()) {
        ASSERT_EQ(pixels.size(), golden.pixels.size()) << golden.name << ", bit " << bit;
      } else {
        ASSERT_THAT(error, testing::StartsWith("4 ")) << golden.name << ", bit " << bit;
      }
    }
  }
}

/// The headers of a JPEG and of a PNG say huge heights and widths.
TEST(CodecTest, HugeHeadersAreRefusedBeforeMemoryIsTaken) {
  Bytes jpeg = golden_picture("jpeg 444").file;
  const Bytes size_marker{0xFF, 0xC0};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), size_marker.begin(), size_marker.end());
  ASSERT_NE(frame, jpeg.end());
  std::fill_n(frame + 5, 4, uint8_t{0xFF});
  *(frame + 6) = *(frame + 8) = 0xDC;  // the size becomes 65500, the most that libjpeg accepts
  EXPECT_THAT(error_of([&] { codec_for(Encoding::kJpeg).probe(jpeg); }), HasSubstr("picture of 65500 x 65500 pixels"));

  // The IHDR of a PNG of 65535 x 65535, with the right CRC.
  const Bytes png = from_hex(
      "89504e470d0a1a0a0000000d49484452"
      "0000ffff0000ffff0800000000936e868c"
      "0000000049444154");
  EXPECT_THAT(error_of([&] { codec_for(Encoding::kPng).probe(png); }), HasSubstr("picture of 65535 x 65535 pixels"));
}

TEST(CodecTest, EncodingIsToldByContent) {
  EXPECT_EQ(detect_encoding(golden_picture("png grey").file), Encoding::kPng);
  EXPECT_EQ(detect_encoding(golden_picture("jpeg grey").file), Encoding::kJpeg);
  EXPECT_THAT(error_of([] {
                detect_encoding(Bytes{'G', 'I', 'F', '8', '9', 'a'});
              }),
              HasSubstr("4 6 bytes that begin with \"474946383961\"; expected a PNG"));
  EXPECT_THAT(error_of([] { detect_encoding({}); }), HasSubstr("0 bytes that begin with \"\""));
  EXPECT_THAT(error_of([] { codec_for(static_cast<Encoding>(9)); }),
              HasSubstr("encoding is 9; expected one of 0 (raw), 1 (PNG), 2"));
}

}  // namespace
}  // namespace penstock
