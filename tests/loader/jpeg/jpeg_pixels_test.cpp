// The JPEG pixel stage: gives the pixels of libjpeg-turbo's full decode, for any region, at every scale and on every
// instruction set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "augment/kernels/render_job.h"
#include "loader/jpeg/pixels/pixel_kernels.h"
#include "loader/jpeg/pixels/pixels.h"
#include "tests/loader/jpeg_pictures.h"
#include "tests/loader/photographs.h"
#include "tests/loader/storage_test_data.h"
#include "tests/support/case_stride.h"
#include "tests/support/forced_target.h"

namespace penstock {
namespace {

using detail::decode_pixels;
using detail::JpegGeometry;
using detail::parse_jpeg_header;
using detail::PixelScratch;
using test::ForcedTarget;
using testing::IsEmpty;
using testing_data::decode_by_libjpeg;
using testing_data::difference;
using testing_data::encode_jpeg;
using testing_data::jpeg_kinds;
using testing_data::JpegKind;
using testing_data::LibjpegSource;
using testing_data::random_region;

constexpr int kScales[] = {1, 2, 4, 8};

/// Decodes `region_count` regions at every scale, one of which is the whole picture, and compares them with libjpeg.
void expect_pixels_of_libjpeg(const std::vector<uint8_t>& file, int region_count, Rng& rng) {
  static PixelScratch scratch;  // reused, as a worker does: what earlier pictures left there must not matter
  const auto header = parse_jpeg_header(file);
  const JpegGeometry geometry(header);
  LibjpegSource source(file, geometry);
  const int channels = header.component_count == 1 && rng.chance(0.5) ? 1 : 3;
  for (const int scale : kScales) {
    const auto whole = decode_by_libjpeg(file, scale, channels);
    for (int i = 0; i < region_count; ++i) {
      const Region region =
          i == 0 ? Region{0, 0, whole.width, whole.height} : random_region(whole.height, whole.width, rng);
      const Picture picture = decode_pixels(header, geometry, source, region, scale, channels, scratch);
      ASSERT_THAT(difference(picture, region, whole), IsEmpty())
          << header.width << "x" << header.height << " at " << scale << "/8, region " << region.width << "x"
          << region.height << " at (" << region.x << ", " << region.y << ")";
    }
  }
}

class JpegPixelsTest : public testing::TestWithParam<std::string> {};

TEST_P(JpegPixelsTest, EqualLibjpegsOfSmallSquares) {
  const ForcedTarget target(GetParam());
  for (const auto& kind : jpeg_kinds())
    for (int size = 1; size <= 17; ++size) {
      SCOPED_TRACE(kind.name);
      Rng rng(21, 0, static_cast<uint64_t>(size), 0);
      expect_pixels_of_libjpeg(encode_jpeg(kind, size, size, 90, rng), 5, rng);
      if (HasFatalFailure()) return;
    }
}

TEST_P(JpegPixelsTest, EqualLibjpegsOfAnyRegion) {
  const ForcedTarget target(GetParam());
  for (const auto& kind : jpeg_kinds())
    for (uint64_t trial = 0; trial < 12; ++trial) {
      SCOPED_TRACE(kind.name);
      Rng rng(22, 0, trial, 0);
      const int height = rng.between(1, 150), width = rng.between(1, 400), quality = rng.between(1, 100);
      expect_pixels_of_libjpeg(encode_jpeg(kind, height, width, quality, rng), 12, rng);
      if (HasFatalFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(AllTargets, JpegPixelsTest, testing::ValuesIn(render_targets()),
                         [](const auto& info) { return info.param; });

TEST(JpegPixelsTest, OnlyTheMcusOfTheRegionAreRead) {
  Rng rng(23, 0, 0, 0);
  const auto file = encode_jpeg({"420", {2, 2}}, 400, 400, 90, rng);
  const auto header = parse_jpeg_header(file);
  const JpegGeometry geometry(header);
  LibjpegSource source(file, geometry);
  PixelScratch scratch;
  // Columns 159 .. 288 and rows 33 .. 46, with the chroma of their neighbours, need MCUs 9 .. 18 of one MCU row. They
  // are read in groups of 8.
  decode_pixels(header, geometry, source, {159, 33, 130, 14}, 8, 3, scratch);
  EXPECT_EQ(source.mcu_count, 10);
  EXPECT_EQ(source.read_count, 2);
  // Row 32 is even, so that it needs chroma of the row above, which is in another MCU row.
  decode_pixels(header, geometry, source, {159, 32, 130, 1}, 8, 3, scratch);
  EXPECT_EQ(source.mcu_count, 30);
  const auto capacity = scratch.samples.capacity();
  decode_pixels(header, geometry, source, {100, 30, 100, 50}, 8, 3, scratch);
  EXPECT_EQ(scratch.samples.capacity(), capacity);
}

TEST(JpegPixelsTest, RegionOutsideIsABug) {
  Rng rng(24, 0, 0, 0);
  const auto file = encode_jpeg({"444"}, 20, 30, 90, rng);
  const auto header = parse_jpeg_header(file);
  const JpegGeometry geometry(header);
  LibjpegSource source(file, geometry);
  PixelScratch scratch;
  for (const Region& region : {Region{0, 0, 16, 10}, {-1, 0, 3, 3}, {0, 0, 0, 3}, {14, 9, 1, 2}})
    EXPECT_THAT(testing_data::error_of([&] { decode_pixels(header, geometry, source, region, 4, 3, scratch); }),
                testing::HasSubstr("of 30x20x3 at scale 4/8; expected them inside it"));
}

/// Coefficients that no encoder makes: any 16 bits, multiplied by factors of any 16 bits.
struct HostileBlocks {
  static constexpr int kCount = 12;
  alignas(64) std::array<int16_t, size_t{64} * kCount> coefficients{};
  alignas(64) std::array<int16_t, 64> quant{};
  std::array<uint8_t, kCount> rows{};
  std::array<const int16_t*, kCount> blocks{};

  explicit HostileBlocks(Rng& rng) {
    const int limit = 1 << rng.between(1, 15);
    for (int block = 0; block < kCount; ++block) {
      const int used = rng.chance(0.5) ? rng.between(0, 8) : rng.between(0, 4);
      rows[block] = static_cast<uint8_t>(used);
      blocks[block] = coefficients.data() + ptrdiff_t{64} * block;
      for (int i = 0; i < std::max(1, 8 * used); ++i)
        coefficients[64 * block + i] = static_cast<int16_t>(rng.between(-limit, limit - 1));
    }
    for (auto& factor : quant) factor = static_cast<int16_t>(rng.between(-32768, 32767));
  }
};

TEST(JpegKernelsTest, EverySetGivesTheSameSamplesOfAnyCoefficients) {
  for (const auto& name : render_targets()) {
    const ForcedTarget target(name);
    for (uint64_t trial = 0; trial < 500; ++trial) {
      Rng rng(25, 0, trial, 0);
      HostileBlocks blocks(rng);
      const int count = rng.between(1, HostileBlocks::kCount);
      for (int method = 0; method < 4; ++method) {
        std::array<std::vector<uint8_t>, 2> samples;
        for (auto& out : samples) {
          out.assign(8 * 256, 0);
          const auto& kernels = &out == samples.data() ? detail::kPlainKernels : detail::pixel_kernels();
          kernels.idct[method]({blocks.blocks.data(), blocks.rows.data(), count, blocks.quant.data(), out.data(), 256});
          const auto size = size_t{1} << method;
          for (size_t row = 0; row < 8; ++row)
            std::fill(out.begin() + static_cast<ptrdiff_t>(256 * row + size * static_cast<size_t>(count)),
                      out.begin() + static_cast<ptrdiff_t>(256 * (row + 1)), uint8_t{0});
        }
        ASSERT_EQ(samples[0], samples[1]) << name << ", method " << method << ", trial " << trial;
      }
    }
  }
}

TEST(JpegKernelsTest, EverySetConvertsEveryColorAlike) {
  // Every Cb with every Cr, with Y = 0, 127 or 254. The tests with pictures show that the plain set agrees with
  // libjpeg.
  std::array<uint8_t, 512> y{}, cb{}, cr{};
  std::array<uint8_t, 3 * 512> expected{}, found{};
  for (const auto& name : render_targets()) {
    const ForcedTarget target(name);
    for (int blue = 0; blue < 256; ++blue) {
      for (int red = 0; red < 256; ++red) {
        y[red] = static_cast<uint8_t>(red % 3 * 127);
        cb[red] = static_cast<uint8_t>(blue);
        cr[red] = static_cast<uint8_t>(red);
      }
      detail::kPlainKernels.ycc_to_rgb(y.data(), cb.data(), cr.data(), 256, expected.data());
      detail::pixel_kernels().ycc_to_rgb(y.data(), cb.data(), cr.data(), 256, found.data());
      ASSERT_EQ(expected, found) << name << ", Cb " << blue;
    }
  }
}

TEST(JpegPixelsTest, PhotographsAreLibjpegs) {
  const auto paths = testing_data::photographs(kCaseStride);
  if (paths.empty()) GTEST_SKIP() << testing_data::no_photographs();
  size_t count = 0;
  for (const auto& path : paths) {
    const auto file = testing_data::read_bytes(path);
    if (!parse_jpeg_header(file).is_decodable()) continue;
    SCOPED_TRACE(path);
    Rng rng(26, 0, file.size(), 0);
    expect_pixels_of_libjpeg(file, 4, rng);
    ++count;
  }
  EXPECT_GE(count, paths.size() / 2);
}

}  // namespace
}  // namespace penstock
