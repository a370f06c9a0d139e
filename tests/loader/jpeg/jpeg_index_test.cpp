// build_seek_index() and SeekIndex: the bytes of an index, reading with it, and false indexes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/jpeg/entropy/huffman.h"
#include "loader/jpeg/entropy/seek_index.h"
#include "tests/loader/jpeg_coefficients_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using detail::build_seek_index;
using detail::HuffmanSource;
using detail::SeekIndex;
using testing::HasSubstr;
using testing_data::baseline_options;
using testing_data::GroupReader;
using testing_data::JpegBytes;
using testing_data::JpegOptions;
using testing_data::libjpeg_coefficients;
using testing_data::TestJpeg;

JpegBytes index_of(const TestJpeg& jpeg, int every = 8) {
  return build_seek_index(jpeg.header, jpeg.geometry, jpeg.bytes, every);
}

/// Reads random MCUs with the index, and compares each with the expected one.
void expect_same(const TestJpeg& jpeg, const JpegBytes& index, const std::vector<int16_t>& expected, unsigned seed) {
  HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes, SeekIndex(index, jpeg.geometry));
  GroupReader reader(jpeg.geometry);
  std::mt19937 random(seed);
  const auto& geometry = jpeg.geometry;
  for (int i = 0; i < 20; ++i) {
    const int row = static_cast<int>(random() % geometry.mcu_rows);
    const int begin = static_cast<int>(random() % geometry.mcu_columns);
    const int end = begin + 1 + static_cast<int>(random() % (geometry.mcu_columns - begin));
    const int mcu_size = geometry.mcu_blocks * 64;
    const auto* first = expected.data() + ptrdiff_t{row * geometry.mcu_columns + begin} * mcu_size;
    ASSERT_EQ(reader.read(source, row, begin, end), std::vector(first, first + (end - begin) * mcu_size))
        << "MCU row " << row << ", " << begin << " to " << end;
  }
}

TEST(SeekIndexTest, AnyRegionReadsAsFromTheBegin) {
  for (const auto& options : baseline_options()) {
    const TestJpeg jpeg(options);
    const auto expected = libjpeg_coefficients(jpeg.bytes, jpeg.geometry);
    for (const int every : {1, 3, 4, 8, 16, 255}) {
      SCOPED_TRACE(concat(options.name(), ", every ", every));
      ASSERT_NO_FATAL_FAILURE(expect_same(jpeg, index_of(jpeg, every), expected, 1));
    }
  }
}

TEST(SeekIndexTest, BytesAreAsDocumented) {
  // A grey picture of 2 x 5 MCUs with a point every 2 MCUs. Lengths have 7 bits with the least length 12, and
  // predictors have 4 bits with the least predictor -3. The rows begin at bits 2624 and 2758. The first record is 34 -
  // 12 = 22 and 0 - -3 = 3.
  const TestJpeg jpeg(JpegOptions{.height = 16, .width = 40, .components = 1, .quality = 10, .noise = 0});
  ASSERT_EQ(jpeg.header.scan_begin, 328U);
  const JpegBytes expected{1,    2,    1,    7,    5,    0, 2,    0,    0x0C, 0, 0,    0,    4,
                           0xFD, 0xFF, 0x40, 0x0A, 0,    0, 0xC6, 0x0A, 0,    0, 0x96, 0x61, 2,
                           0x60, 0x31, 0xBE, 0x94, 0x58, 3, 0,    0,    0,    0, 0,    0,    0};
  const JpegBytes index = index_of(jpeg, 2);
  EXPECT_EQ(index, expected);
  const SeekIndex view(index, jpeg.geometry);
  const auto coefficients = libjpeg_coefficients(jpeg.bytes, jpeg.geometry);
  for (int row = 0; row < 2; ++row) {
    auto point = view.row_begin(row);
    for (int k = 0; k < 3; ++k, view.advance(point)) {
      const int mcu = 5 * row + 2 * k;
      EXPECT_EQ(point.k, k);
      EXPECT_EQ(point.dc[0], mcu == 0 ? 0 : coefficients[64 * (mcu - 1)]);
    }
    if (row == 0) {
      EXPECT_EQ(point.bit, view.row_begin(1).bit);
    }
  }
}

TEST(SeekIndexTest, IsSmall) {
  const TestJpeg jpeg(JpegOptions{.height = 400, .width = 500, .h = 1, .v = 1, .quality = 90});
  EXPECT_LT(index_of(jpeg).size() * 40, jpeg.bytes.size());  // 2.5 %
}

TEST(SeekIndexTest, ScanThatIsNotWholeHasNone) {
  TestJpeg jpeg(JpegOptions{});
  const JpegBytes whole = jpeg.bytes;
  for (size_t length = jpeg.header.scan_begin; length < whole.size(); ++length) {
    jpeg.bytes = JpegBytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    ASSERT_THROW(index_of(jpeg), Error) << length << " of " << whole.size() << " bytes";
  }
  jpeg.bytes = whole;
  jpeg.bytes.insert(jpeg.bytes.end() - 2, 0x55);
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { index_of(jpeg); }), HasSubstr("coded data should end"));
  jpeg.bytes = whole;
  jpeg.bytes.back() = 0xD8;
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { index_of(jpeg); }), HasSubstr("end of the picture"));
  jpeg.bytes = whole;
  // A fill byte before a marker is allowed, and so is anything after EOI.
  jpeg.bytes.insert(jpeg.bytes.end() - 2, 0xFF);
  jpeg.bytes.push_back(0);
  EXPECT_NO_THROW(index_of(jpeg));
}

TEST(SeekIndexTest, RestartMarkersHaveNone) {
  const TestJpeg jpeg(JpegOptions{.restart_interval = 2});
  EXPECT_THAT(message_of(ErrorKind::kBug, [&] { index_of(jpeg); }), HasSubstr("a restart interval of 2"));
}

TEST(SeekIndexTest, IndexOfAnotherPictureIsCorrupt) {
  const TestJpeg jpeg(JpegOptions{.height = 64, .width = 300}), other(JpegOptions{.height = 64, .width = 200});
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { SeekIndex(index_of(other), jpeg.geometry); }),
              HasSubstr("is of 3 components, 4 x 13 MCUs"));
  const TestJpeg same_size(JpegOptions{.height = 64, .width = 300, .quality = 50});
  const JpegBytes index = index_of(same_size);
  HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes, SeekIndex(index, jpeg.geometry));
  EXPECT_THROW(GroupReader(jpeg.geometry).read_all(source), Error);
}

TEST(SeekIndexTest, EveryTruncationIsCorrupt) {
  const TestJpeg jpeg(JpegOptions{});
  const JpegBytes whole = index_of(jpeg, 2);
  for (size_t length = 0; length < whole.size(); ++length) {
    const JpegBytes index(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_THROW(SeekIndex(index, jpeg.geometry), Error) << length;
  }
}

TEST(SeekIndexTest, LieIsFoundWhereItIsReadOrHarmless) {
  const TestJpeg jpeg(JpegOptions{.height = 64, .width = 200, .h = 1, .v = 1});
  const JpegBytes whole = index_of(jpeg, 4);
  const auto expected = libjpeg_coefficients(jpeg.bytes, jpeg.geometry);
  std::mt19937 random(5);
  int corrupt_count = 0;
  for (int round = 0; round < 4000; ++round) {
    JpegBytes index = whole;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      index[random() % index.size()] ^= static_cast<uint8_t>(1 << random() % 8);
    try {
      HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes, SeekIndex(index, jpeg.geometry));
      GroupReader reader(jpeg.geometry);
      for (int i = 0; i < 10; ++i) {
        const int row = static_cast<int>(random() % 8), begin = static_cast<int>(random() % 25);
        reader.read(source, row, begin, 25);
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
      ++corrupt_count;
    }
  }
  EXPECT_GT(corrupt_count, 2000);
}

TEST(SeekIndexTest, PointIsCheckedByWhoeverReadsUpToIt) {
  const TestJpeg jpeg(JpegOptions{.height = 64, .width = 200, .h = 1, .v = 1});
  JpegBytes index = index_of(jpeg);
  const int length_width = index[3], record_width = length_width + index[12] + index[15] + index[18];
  const size_t records = 12 + 3 * 3 + 4 * 8;
  // The length of the first point; the first predictor of the second point.
  for (const int bit : {0, record_width + length_width}) {
    index[records + bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes, SeekIndex(index, jpeg.geometry));
    EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { GroupReader(jpeg.geometry).read(source, 0, 0, 8); }),
                HasSubstr("MCU 8 does not begin where its seek index says"));
    index[records + bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
}

TEST(SeekIndexTest, FlippedBitsOfTheScanAreReadOrCorrupt) {
  TestJpeg jpeg(JpegOptions{.height = 64, .width = 200});
  const JpegBytes index = index_of(jpeg), whole = jpeg.bytes;
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const size_t scan = jpeg.header.scan_begin;
    jpeg.bytes[scan + random() % (whole.size() - scan)] ^= static_cast<uint8_t>(1 << random() % 8);
    if (random() % 8 == 0) jpeg.bytes.resize(scan + random() % (whole.size() - scan));
    HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes, SeekIndex(index, jpeg.geometry));
    try {
      GroupReader(jpeg.geometry).read_all(source);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    }
    jpeg.bytes = whole;
  }
}

}  // namespace
}  // namespace penstock
