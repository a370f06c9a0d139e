// HuffmanSource: gives libjpeg's coefficients, and survives hostile streams.
#include <gtest/gtest.h>

#include <algorithm>

#include "augment/kernels/render_job.h"
#include "augment/render.h"
#include "loader/jpeg/entropy/huffman.h"
#include "loader/jpeg/entropy/rebuild.h"
#include "tests/loader/jpeg_coefficients_data.h"
#include "tests/support/forced_target.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using detail::HuffmanSource;
using detail::HuffmanSpec;
using detail::JpegGeometry;
using detail::JpegHeader;
using testing_data::baseline_options;
using testing_data::GroupReader;
using testing_data::JpegBytes;
using testing_data::JpegOptions;
using testing_data::libjpeg_coefficients;
using testing_data::TestJpeg;

std::vector<int16_t> all_of(const TestJpeg& jpeg) {
  HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes);
  return GroupReader(jpeg.geometry).read_all(source);
}

/// Whether the MCUs can be read; false for corrupt_error. Any other exception fails the test.
bool is_read(const TestJpeg& jpeg) {
  try {
    all_of(jpeg);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    return false;
  }
}

TEST(HuffmanSourceTest, CoefficientsAreLibjpegs) {
  for (auto options : baseline_options()) {
    for (const int restart_interval : {0, 1, 3}) {
      options.restart_interval = restart_interval;
      const TestJpeg jpeg(options);
      ASSERT_EQ(all_of(jpeg), libjpeg_coefficients(jpeg.bytes, jpeg.geometry)) << options.name();
    }
  }
}

TEST(HuffmanSourceTest, EveryInstructionSetReadsTheSame) {
  for (const auto& name : render_targets()) {
    const test::ForcedTarget target(name);
    for (const int quality : {20, 90, 100}) {
      const TestJpeg jpeg(JpegOptions{.quality = quality});
      EXPECT_EQ(all_of(jpeg), libjpeg_coefficients(jpeg.bytes, jpeg.geometry)) << name << ", quality " << quality;
    }
  }
}

TEST(HuffmanSourceTest, WindowsEndsDoNotShow) {
  // The file has 300 KB or more, which are 40 windows of 8 KB.
  const TestJpeg jpeg(JpegOptions{.height = 500, .width = 700, .quality = 100, .noise = 80});
  ASSERT_GT(jpeg.bytes.size(), 300000U);
  EXPECT_EQ(all_of(jpeg), libjpeg_coefficients(jpeg.bytes, jpeg.geometry));
}

TEST(HuffmanSourceTest, MayBeReadInAnyOrderWithoutAnIndex) {
  for (const int restart_interval : {0, 5}) {
    const TestJpeg jpeg(JpegOptions{.height = 70, .width = 400, .h = 1, .v = 1, .restart_interval = restart_interval});
    const auto expected = libjpeg_coefficients(jpeg.bytes, jpeg.geometry);
    HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes);
    GroupReader reader(jpeg.geometry);
    std::mt19937 random(3);
    for (int i = 0; i < 200; ++i) {
      const int row = static_cast<int>(random() % 9), begin = static_cast<int>(random() % 50);
      const int end = begin + 1 + static_cast<int>(random() % (50 - begin));
      const auto* first = expected.data() + (row * 50 + begin) * 3 * 64;
      ASSERT_EQ(reader.read(source, row, begin, end), std::vector(first, first + (end - begin) * 3 * 64));
    }
  }
}

/// A Huffman code of random lengths for all 256 symbols, or for the 16 symbols of DC.
HuffmanSpec random_spec(std::mt19937& random, int symbol_count) {
  HuffmanSpec spec;
  spec.symbol_count = symbol_count;
  for (int i = 0; i < symbol_count; ++i) spec.symbols[i] = static_cast<uint8_t>(i);
  std::shuffle(spec.symbols.begin(), spec.symbols.begin() + symbol_count, random);
  int left = symbol_count, free_codes = 1;
  for (int length = 1; length <= 16; ++length) {
    free_codes *= 2;
    // Leaves the code of ones unused, and enough room for the other symbols at 16 bits.
    int count = length == 16 ? left : std::min({left, free_codes - 1, static_cast<int>(random() % 12)});
    while (count > 0 && ((free_codes - count) << (16 - length)) <= left - count) --count;
    spec.counts[length - 1] = static_cast<uint8_t>(count);
    left -= count;
    free_codes -= count;
  }
  return spec;
}

/// Gives coefficients of up to 15 bits at random places, often also at the last one.
class RandomSource final : public detail::CoefficientSource {
 public:
  explicit RandomSource(int seed) : random_(seed) {}
  void read(int, int begin, int end, const detail::McuRun& run) override {
    for (int block = 0; block < (end - begin) * 3; ++block) {
      int16_t* values = run.blocks + block * 64;
      std::fill_n(values, 64, int16_t{0});
      values[0] = value(10);
      for (int count = static_cast<int>(random_() % 5) * static_cast<int>(random_() % 16); count > 0; --count)
        values[random_() % 64] = value(15);
      if (random_() % 4 == 0) values[63] = value(4);
    }
    all.insert(all.end(), run.blocks, run.blocks + (end - begin) * 3 * 64);
  }
  std::vector<int16_t> all;

 private:
  int16_t value(int bits) {
    const int size = static_cast<int>(random_() % (bits + 1)), magnitude = static_cast<int>(random_() % (1 << size));
    return static_cast<int16_t>(random_() % 2 == 0 ? magnitude : -magnitude);
  }
  std::mt19937 random_;
};

TEST(HuffmanSourceTest, DecodesWhateverAnyCodeEncodes) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    JpegHeader header = TestJpeg(JpegOptions{.height = 24, .width = 100, .h = 1, .v = 1}).header;
    for (int i = 0; i < 2; ++i) {
      header.dc[i] = random_spec(random, 16);
      header.ac[i] = random_spec(random, 256);
    }
    header.scan_begin = 0;
    const JpegGeometry geometry(header);
    RandomSource random_source(round);
    JpegBytes bytes = encode_scan(header, geometry, random_source);
    bytes.insert(bytes.end(), {0xFF, 0xD9});
    HuffmanSource source(header, geometry, bytes);
    ASSERT_EQ(GroupReader(geometry).read_all(source), random_source.all) << "round " << round;
  }
}

TEST(HuffmanSourceTest, EveryTruncationIsCorrupt) {
  for (const int restart_interval : {0, 2}) {
    TestJpeg jpeg(JpegOptions{.restart_interval = restart_interval});
    const JpegBytes whole = jpeg.bytes;
    ASSERT_TRUE(is_read(jpeg));
    for (size_t length = jpeg.header.scan_begin; length < whole.size(); ++length) {
      jpeg.bytes = JpegBytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
      ASSERT_FALSE(is_read(jpeg)) << length << " of " << whole.size() << " bytes";
    }
  }
}

TEST(HuffmanSourceTest, FlippedBitsAreReadOrCorrupt) {
  std::mt19937 random(7);
  int read_count = 0, corrupt_count = 0;
  for (const int restart_interval : {0, 2}) {
    TestJpeg jpeg(JpegOptions{.restart_interval = restart_interval});
    const JpegBytes whole = jpeg.bytes;
    for (int round = 0; round < 5000; ++round) {
      for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
        const size_t scan = jpeg.header.scan_begin;
        jpeg.bytes[scan + random() % (whole.size() - scan)] ^= static_cast<uint8_t>(1 << random() % 8);
      }
      ++(is_read(jpeg) ? read_count : corrupt_count);
      jpeg.bytes = whole;
    }
  }
  EXPECT_GT(read_count, 50);
  EXPECT_GT(corrupt_count, 5000);
}

TEST(HuffmanSourceTest, FlippedTablesAreReadOrCorrupt) {
  std::mt19937 random(11);
  TestJpeg jpeg(JpegOptions{.height = 16, .width = 16});
  const JpegHeader whole = jpeg.header;
  for (int round = 0; round < 3000; ++round) {
    auto& spec = random() % 2 == 0 ? jpeg.header.dc[random() % 2] : jpeg.header.ac[random() % 2];
    const size_t at = random() % 40;
    (at < 16 ? spec.counts[at] : spec.symbols[at - 16]) ^= static_cast<uint8_t>(1 << random() % 8);
    spec.symbol_count = 0;
    for (const int count : spec.counts) spec.symbol_count += count;
    if (spec.symbol_count <= 256) is_read(jpeg);
    jpeg.header = whole;
  }
}

TEST(HuffmanSourceTest, MarkerInsideOfTheScanIsCorrupt) {
  TestJpeg jpeg(JpegOptions{});
  const size_t middle = (jpeg.header.scan_begin + jpeg.bytes.size()) / 2;
  jpeg.bytes.insert(jpeg.bytes.begin() + static_cast<ptrdiff_t>(middle), {0xFF, 0xD0});
  EXPECT_FALSE(is_read(jpeg));
}

TEST(HuffmanSourceTest, RestartMarkersOutOfOrderAreCorrupt) {
  TestJpeg jpeg(JpegOptions{.restart_interval = 2});
  const uint8_t marker[] = {0xFF, 0xD1};
  const auto found = std::search(jpeg.bytes.begin(), jpeg.bytes.end(), marker, marker + 2);
  ASSERT_NE(found, jpeg.bytes.end());
  found[1] = 0xD2;
  EXPECT_FALSE(is_read(jpeg));
}

TEST(HuffmanSourceTest, GoesOnAfterAnError) {
  TestJpeg jpeg(JpegOptions{.height = 64, .width = 64, .h = 1, .v = 1});
  const auto expected = libjpeg_coefficients(jpeg.bytes, jpeg.geometry);
  std::fill(jpeg.bytes.end() - 20, jpeg.bytes.end(), 0xFF);
  HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes);
  GroupReader reader(jpeg.geometry);
  for (const int row : {7, 0, 7}) {
    EXPECT_THROW(reader.read(source, 7, 0, 8), Error);
    const auto* first = expected.data() + row * 8 * 3 * 64;
    EXPECT_EQ(reader.read(source, row, 0, 2), std::vector(first, first + 2 * 3 * 64));
  }
}

TEST(HuffmanSourceTest, CodesOfOnesAloneAreRefused) {
  TestJpeg jpeg(JpegOptions{});
  jpeg.header.dc[0] = {};
  jpeg.header.dc[0].counts[0] = 2;
  jpeg.header.dc[0].symbol_count = 2;
  EXPECT_EQ(message_of(ErrorKind::kCorrupt, [&] { all_of(jpeg); }),
            "JPEG: Huffman table has 2 codes of 1 bits; expected no more than fit, and none of ones alone");
}

}  // namespace
}  // namespace penstock
