// encode_scan() gives the same bytes, transcode_to_baseline() the same coefficients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "loader/files/orientation.h"
#include "loader/jpeg/entropy/huffman.h"
#include "loader/jpeg/entropy/rebuild.h"
#include "loader/jpeg/entropy/transcode.h"
#include "tests/loader/jpeg_coefficients_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using detail::encode_scan;
using detail::HuffmanSource;
using detail::transcode_to_baseline;
using testing::HasSubstr;
using testing_data::baseline_options;
using testing_data::JpegBytes;
using testing_data::JpegOptions;
using testing_data::libjpeg_coefficients;
using testing_data::TestJpeg;
using testing_data::write_jpeg;

JpegBytes rebuilt(const TestJpeg& jpeg) {
  HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes);
  JpegBytes bytes(jpeg.bytes.begin(), jpeg.bytes.begin() + static_cast<ptrdiff_t>(jpeg.header.scan_begin));
  const JpegBytes scan = encode_scan(jpeg.header, jpeg.geometry, source);
  bytes.insert(bytes.end(), scan.begin(), scan.end());
  bytes.insert(bytes.end(), {0xFF, 0xD9});
  return bytes;
}

TEST(RebuildTest, LibjpegsFilesComeBackToTheByte) {
  for (auto options : baseline_options()) {
    for (const int restart_interval : {0, 1, 3}) {
      options.restart_interval = restart_interval;
      const TestJpeg jpeg(options);
      ASSERT_EQ(rebuilt(jpeg), jpeg.bytes) << options.name();
    }
  }
}

TEST(RebuildTest, CoefficientWithoutACodeIsCorrupt) {
  TestJpeg jpeg(JpegOptions{.optimize = true});
  HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes);
  auto other = TestJpeg(JpegOptions{.quality = 1, .optimize = true, .noise = 0}).header;
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { encode_scan(other, jpeg.geometry, source); }),
              HasSubstr("has no Huffman code"));
}

/// Expects that the transcoded file has the coefficients of the source.
void expect_transcoded(const JpegOptions& options) {
  const TestJpeg source(options);
  const TestJpeg target(transcode_to_baseline(source.bytes));
  EXPECT_TRUE(target.header.is_one_scan);
  EXPECT_EQ(target.header.restart_interval, 0);
  EXPECT_EQ(target.header.quant, source.header.quant);
  EXPECT_EQ(target.header.color, source.header.color);
  EXPECT_EQ(libjpeg_coefficients(target.bytes, target.geometry, false),
            libjpeg_coefficients(source.bytes, source.geometry, false));
}

TEST(TranscodeTest, AnyCodingBecomesOneScanOfTheSameCoefficients) {
  for (const int components : {1, 3, 4}) {
    SCOPED_TRACE(concat(components, " components"));
    const int side = components == 4 ? 1 : 2;
    expect_transcoded({.components = components, .h = side, .v = side, .progressive = true});
    expect_transcoded({.components = components, .h = side, .v = side, .arithmetic = true});
    expect_transcoded({.components = components, .h = side, .v = side, .restart_interval = 2});
  }
  expect_transcoded({.multi_scan = true});
  expect_transcoded({.progressive = true, .arithmetic = true});
  // The output buffer grows twice.
  expect_transcoded({.height = 300, .width = 400, .h = 1, .v = 1, .progressive = true});
}

TEST(TranscodeTest, SegmentsAreKept) {
  JpegBytes bytes = write_jpeg({.progressive = true, .comment = "a comment"});
  const std::string exif(
      "\xFF\xE1\0\x22"
      "Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0",
      36);
  const std::string adobe(
      "\xFF\xEE\0\x0E"
      "Adobe\0\x64\0\0\0\0\1",
      16);
  bytes.insert(bytes.begin() + 20, exif.begin(), exif.end());  // after the 18 bytes of JFIF
  bytes.insert(bytes.begin() + 20, adobe.begin(), adobe.end());
  const JpegBytes out = transcode_to_baseline(bytes);
  EXPECT_EQ(JpegBytes(out.begin(), out.begin() + 20 + 52), JpegBytes(bytes.begin(), bytes.begin() + 20 + 52));
  EXPECT_EQ(detail::exif_orientation(detail::parse_jpeg_header(out).exif), 6);
  EXPECT_THAT(std::string(out.begin(), out.end()), HasSubstr("a comment"));
}

TEST(TranscodeTest, WarningIsAnError) {
  JpegBytes bytes = write_jpeg({.progressive = true});
  bytes.resize(bytes.size() - 40);
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { transcode_to_baseline(bytes); }), HasSubstr("Premature end"));
}

TEST(TranscodeTest, DamageIsTranscodedOrCorrupt) {
  const JpegBytes whole = write_jpeg({.progressive = true});
  std::mt19937 random(3);
  for (int round = 0; round < 1000; ++round) {
    JpegBytes bytes = whole;
    bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 << random() % 8);
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    try {
      transcode_to_baseline(bytes);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    }
  }
}

}  // namespace
}  // namespace penstock
