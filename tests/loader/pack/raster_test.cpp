// Rasters from a source to a batch: pixels, statistics, digests, files, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "loader/codecs/npy.h"
#include "loader/look/picture.h"
#include "loader/look/sheet.h"
#include "loader/pack/merge.h"
#include "loader/pack/raster_sums.h"
#include "loader/pack/unpack.h"
#include "loader/pack/verify.h"
#include "tests/loader/raster_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::error_of;
using testing_data::raster_options;
using testing_data::raster_sample;
using testing_data::RasterSource;
using testing_data::read_bytes;
using testing_data::TemporaryFolder;

std::vector<SourceSample> rasters(PixelType type, int channels, int count = 11, bool has_one_size = true) {
  std::vector<SourceSample> samples;
  for (int i = 0; i < count; ++i)
    samples.push_back(raster_sample(type, {7 + (has_one_size ? 0 : i % 3), 9, channels}, static_cast<uint64_t>(i)));
  return samples;
}

std::string digest_of(const std::shared_ptr<const Dataset>& dataset, const std::string& augment, int workers,
                      int world_size, Layout layout = Layout::kF32Nchw) {
  Digest digest;
  for (int rank = 0; rank < world_size; ++rank) {
    LoaderOptions options;
    options.batch_size = 4;
    options.workers = workers;
    options.rank = rank;
    options.world_size = world_size;
    options.layout = layout;
    Loader loader(dataset, Pipeline(augment, dataset->manifest().statistics), options);
    loader.start_epoch(1);
    while (const auto batch = loader.next()) digest.add(*batch);
  }
  return digest.hex();
}

TEST(PackedRasterTest, LevelsOfSixteenBitsAreMixedLikeNumbers) {
  const TemporaryFolder folder;
  pack(RasterSource(rasters(PixelType::kU16, 3)), "memory", raster_options(folder.path(), PixelType::kU16));
  const auto dataset = Dataset::open(folder.path());
  const auto batch_of = [&](Layout layout) {
    Loader loader(dataset, Pipeline("mixup(alpha=1)", dataset->manifest().statistics),
                  {.batch_size = 11, .layout = layout});
    loader.start_epoch(1);
    const auto batch = loader.next();
    return std::vector(batch->pixels().begin(), batch->pixels().end());
  };
  const auto levels = batch_of(Layout::kU16Nhwc), numbers = batch_of(Layout::kF32Nhwc);
  ASSERT_EQ(levels.size(), 11 * 7 * 9 * 3 * sizeof(uint16_t));
  const auto* const level = reinterpret_cast<const uint16_t*>(levels.data());
  const auto* const number = reinterpret_cast<const float*>(numbers.data());
  for (size_t i = 0; i < levels.size() / sizeof(uint16_t); ++i) ASSERT_NEAR(level[i], number[i] * 65535, 0.51) << i;
}

TEST(PackedRasterTest, PixelsComeBackAsTheyWere) {
  for (const PixelType type : {PixelType::kU8, PixelType::kU16, PixelType::kF32})
    for (const int channels : {1, 2, 3, 13, 32})
      for (const bool has_one_size : {true, false}) {
        if (!is_raster(type, channels)) continue;
        SCOPED_TRACE(concat(pixels_text(type, channels), has_one_size));
        const TemporaryFolder folder;
        const auto samples = rasters(type, channels, 11, has_one_size);
        pack(RasterSource(samples, {}, has_one_size), "rasters", raster_options(folder.path(), type));
        EXPECT_EQ(verify(folder / "train").count, 0U);
        const auto dataset = Dataset::open(folder.path());
        EXPECT_EQ(dataset->manifest().pixels, type);
        EXPECT_EQ(dataset->manifest().channels, channels);
        for (uint64_t i = 0; i < dataset->size(); ++i) {
          const auto picture = decode_picture(*dataset, i);
          EXPECT_EQ(picture.type, type);
          EXPECT_EQ(picture.pixels, samples[dataset->at(i).id].bytes);
        }
        const std::string augment = "affine(degrees=20,filter=bilinear),resize(height=6,width=5),flip,normalize";
        const std::string expected = digest_of(dataset, augment, 0, 1);
        for (const auto& [workers, ranks] : {std::pair{1, 1}, {3, 1}, {0, 3}, {2, 2}})
          EXPECT_EQ(digest_of(dataset, augment, workers, ranks), expected) << workers << " workers, " << ranks;
      }
}

TEST(PackedRasterTest, StatisticsAreThoseOfAllLevels) {
  const TemporaryFolder folder;
  auto samples = rasters(PixelType::kF32, 2);
  const float not_a_number = NAN;
  std::memcpy(samples[4].bytes.data(), &not_a_number, sizeof not_a_number);  // does not count
  pack(RasterSource(samples), "rasters", raster_options(folder.path(), PixelType::kF32));
  const auto statistics = read_manifest(folder / "train").statistics;
  for (size_t channel = 0; channel < 2; ++channel) {
    long double sum = 0, squares = 0, count = 0;
    for (const auto& sample : samples)
      for (size_t i = channel; i < sample.bytes.size() / 4; i += 2) {
        float level = 0;
        std::memcpy(&level, &sample.bytes[i * 4], sizeof level);
        if (!std::isfinite(level)) continue;
        sum += level, squares += static_cast<long double>(level) * level, ++count;
      }
    const long double mean = sum / count;
    EXPECT_NEAR(statistics.mean[channel], static_cast<double>(mean), 1e-9);
    EXPECT_NEAR(statistics.deviation[channel], static_cast<double>(sqrtl(squares / count - mean * mean)), 1e-9);
  }
}

TEST(PackedRasterTest, ExactSumsDoNotDependOnTheOrder) {
  const std::vector<double> values{1e38, -3.25, 1e-30, 7e70, -1e38, 0.1, -7e70, 1e-45, 2.5e9};
  detail::ExactSum forwards, backwards, halves[2];
  for (size_t i = 0; i < values.size(); ++i) {
    forwards.add(values[i]);
    backwards.add(values[values.size() - 1 - i]);
    halves[i % 2].add(values[i]);
  }
  halves[0].add(halves[1]);
  EXPECT_EQ(forwards.parts(), backwards.parts());
  EXPECT_EQ(forwards.parts(), halves[0].parts());
  EXPECT_DOUBLE_EQ(forwards.value(), 2.5e9 - 3.25 + 0.1);
}

TEST(PackedRasterTest, PartsHaveTheBytesOfOneCall) {
  const TemporaryFolder folder;
  const RasterSource source(rasters(PixelType::kF32, 3));
  pack(source, "rasters", raster_options(folder / "whole", PixelType::kF32));
  for (const int index : {1, 0}) {
    auto options = raster_options(folder / "parts", PixelType::kF32);
    options.part = PackPart{.index = index, .count = 2};
    pack(source, "rasters", options);
  }
  merge_parts({.output = folder / "parts", .split = "train", .force = false, .attempts = {}});
  for (const auto& name : testing_data::names_in(folder / "whole" / "train"))
    EXPECT_EQ(read_bytes(folder / "whole" / "train" / name), read_bytes(folder / "parts" / "train" / name)) << name;
}

TEST(PackedRasterTest, UnpackGivesArrays) {
  const TemporaryFolder folder;
  const auto samples = rasters(PixelType::kU16, 5, 4);
  pack(RasterSource(samples), "rasters", raster_options(folder / "packed", PixelType::kU16));
  EXPECT_EQ(unpack(folder / "packed" / "train", folder / "out").count, 0U);
  const auto file = read_bytes(folder / "out" / "train" / "b" / "3.npy");
  const auto array = detail::parse_npy(file);
  EXPECT_EQ(array.dtype, Dtype::kU16);
  EXPECT_EQ(array.shape, (std::vector<int64_t>{7, 9, 5}));
  EXPECT_EQ(std::vector<uint8_t>(array.data.begin(), array.data.end()), samples[3].bytes);
}

TEST(PackedRasterTest, LayoutsOfLevelsAreForTheirOwnPixels) {
  const TemporaryFolder folder;
  pack(RasterSource(rasters(PixelType::kU16, 1)), "rasters", raster_options(folder / "words", PixelType::kU16));
  pack(RasterSource(rasters(PixelType::kF32, 4)), "rasters", raster_options(folder / "reals", PixelType::kF32));
  const auto words = Dataset::open(folder / "words"), reals = Dataset::open(folder / "reals");
  EXPECT_EQ(error_of([&] { digest_of(words, "", 0, 1, Layout::kU8Nhwc); }),
            "2 layout u8: pictures have 1 channel of u16; expected f32, f16 or bf16, or u16");
  EXPECT_EQ(error_of([&] { digest_of(reals, "", 0, 1, Layout::kU16Nhwc); }),
            "2 layout u16: pictures have 4 channels of f32; expected f32, f16 or bf16");
  LoaderOptions options;
  options.batch_size = 11;
  options.shuffle = Shuffle::kNone;
  options.layout = Layout::kU16Nhwc;
  Loader loader(words, Pipeline("", words->manifest().statistics), options);
  loader.start_epoch(0);
  const auto batch = loader.next();
  EXPECT_EQ(batch->columns()[Column::kImages].dtype, Dtype::kU16);
  for (uint64_t i = 0; i < 11; ++i) {
    const auto bytes = words->at(i).bytes;
    EXPECT_EQ(std::memcmp(batch->pixels().data() + i * bytes.size(), bytes.data(), bytes.size()), 0);
  }
}

TEST(PackedRasterTest, MixupMixesThem) {
  const TemporaryFolder folder;
  pack(RasterSource(rasters(PixelType::kF32, 5)), "rasters", raster_options(folder.path(), PixelType::kF32));
  const auto dataset = Dataset::open(folder.path());
  for (const char* mix : {"mixup", "cutmix"}) {
    EXPECT_NE(digest_of(dataset, mix, 0, 1), digest_of(dataset, "", 0, 1));
    EXPECT_EQ(digest_of(dataset, mix, 0, 1), digest_of(dataset, mix, 2, 2));
  }
}

TEST(PackedRasterTest, ASheetShowsTheFirstChannelsStretched) {
  const TemporaryFolder folder;
  std::vector<SourceSample> samples = rasters(PixelType::kU16, 4, 1);
  const uint16_t levels[] = {1000, 2000, 3000, 9};
  for (size_t i = 0; i < samples[0].bytes.size() / 8; ++i) {
    std::memcpy(&samples[0].bytes[i * 8], levels, sizeof levels);
    samples[0].bytes[i * 8] += static_cast<uint8_t>(i % 2);  // the first channel: 1000 and 1001
  }
  pack(RasterSource(samples), "rasters", raster_options(folder.path(), PixelType::kU16));
  const auto dataset = Dataset::open(folder.path());
  const Sheet sheet = make_sheet(dataset, Pipeline("", dataset->manifest().statistics), {.rows = 1, .columns = 1});
  EXPECT_EQ(sheet.extent, (Extent{7, 9, 3}));
  EXPECT_EQ(sheet.pixels[0], 0);
  EXPECT_EQ(sheet.pixels[3], 255);
  EXPECT_EQ(sheet.pixels[1], 0);
}

TEST(PackedRasterTest, OtherKindsAreRefused) {
  const TemporaryFolder folder;
  const auto refusal = [&](std::vector<SourceSample> samples, PixelType type) {
    return error_of(
        [&] { pack(RasterSource(std::move(samples), {}, false), "rasters", raster_options(folder.path(), type)); });
  };
  auto mixed = rasters(PixelType::kU16, 3);
  mixed[5] = raster_sample(PixelType::kU16, {7, 9, 1}, 5);
  EXPECT_THAT(refusal(mixed, PixelType::kU16), HasSubstr("expected all of one kind"));
  mixed[5] = raster_sample(PixelType::kF32, {7, 9, 3}, 5);
  EXPECT_THAT(refusal(mixed, PixelType::kU16), HasSubstr("picture of 3 channels of f32; expected u16, or pixels f32"));
  auto bytes = rasters(PixelType::kU8, 3);
  bytes[7] = raster_sample(PixelType::kU8, {7, 9, 5}, 7);
  EXPECT_THAT(refusal(bytes, PixelType::kU8), HasSubstr("expected all of one kind"));
  auto options = raster_options(folder.path(), PixelType::kU16);
  options.storage.encode = Encode::kJpeg;
  EXPECT_EQ(error_of([&] { check_pack_options(options); }),
            "2 pack: encode is jpeg with pixels u16, which are stored raw; expected encode auto or raw");
  options.storage = {.sixteen_bit = SixteenBit::kDrop, .pixels = PixelType::kU16};
  EXPECT_THAT(error_of([&] { check_pack_options(options); }), HasSubstr("sixteen-bit is drop with pixels u16"));
  EXPECT_THAT(error_of([&] { pack(raster_options(folder.path(), PixelType::kU16)); }),
              HasSubstr("source digits gives raw pixels of u8; expected pixels u8, not u16"));
}

TEST(PackedRasterTest, AManifestThatSaysAnotherKindIsRefused) {
  const TemporaryFolder folder;
  pack(RasterSource(rasters(PixelType::kU16, 3)), "rasters", raster_options(folder.path(), PixelType::kU16));
  const Manifest packed = read_manifest(folder / "train");
  const auto error_with = [&](auto change) {
    Manifest changed = packed;
    change(changed);
    write_manifest(folder / "train", changed);
    return error_of([&] { Dataset::open(folder.path()); });
  };
  EXPECT_THAT(error_with([](Manifest& m) { m.pixels = PixelType::kU8; }),
              HasSubstr("pixels are u16; expected u8, as the manifest says"));
  EXPECT_THAT(error_with([](Manifest& m) { m.pixels = PixelType::kF32; }), HasSubstr("pixels are u16; expected f32"));
  EXPECT_THAT(error_with([](Manifest& m) { m.extent.reset(), m.channels = 4; }),
              HasSubstr("expected 4 channels of u16, as the manifest says"));
  EXPECT_THAT(error_with([](Manifest& m) { m.extent.reset(), m.channels = 33; }),
              HasSubstr("channels is 33; expected 1 to 32"));
  EXPECT_EQ(error_with([](Manifest&) {}), "");
}

}  // namespace
}  // namespace penstock
