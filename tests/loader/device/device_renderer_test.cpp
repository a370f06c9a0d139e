// The device's renderer: its kernels, run on the processor, make the rows that the loader makes, to the bit.
#include "loader/device/device_renderer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "augment/transform.h"
#include "core/text.h"
#include "tests/augment/pictures.h"
#include "tests/loader/device_pictures.h"
#include "tests/loader/photographs.h"
#include "tests/loader/storage_test_data.h"
#include "tests/support/case_stride.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::add_random_steps;
using testing_data::coefficient_picture;
using testing_data::CpuDevice;
using testing_data::DeviceRow;
using testing_data::encode_jpeg;
using testing_data::error_of;
using testing_data::expect_loaders_row;
using testing_data::jpeg_kinds;
using testing_data::JpegKind;
using testing_data::kLevels;
using testing_data::loader_row;

/// Where the coefficients begin among the sample's bytes.
size_t store_begin(const Sample& sample) {
  uint32_t lengths[2];
  std::memcpy(lengths, sample.bytes.data(), sizeof lengths);
  return sizeof lengths + lengths[0] + lengths[1];
}

/// The plan whose output is the picture decoded at `scale` eighths, pixel by pixel.
Plan decoded_plan(const Plan& whole, int scale) {
  Plan plan = whole;
  const auto length = [&](int full) { return (full * scale + 7) / 8; };
  plan.resample(Affine::scaling(8.0 / scale, 8.0 / scale), length(whole.output_height), length(whole.output_width));
  return plan;
}

/// A picture on a device of its own, and a row of any plan.
struct RandomRow {
  RandomRow(const JpegKind& kind, int height, int width, Rng& rng)
      : picture(coefficient_picture(encode_jpeg(kind, height, width, 90, rng))),
        row{device.add(picture.sample), test::random_plan(height, width, rng)} {}

  void expect_loaders(Rng& rng) {
    const int channels = picture.sample.extent.channels == 3 || rng.chance(0.5) ? 3 : 1;
    expect_loaders_row(device, picture.sample, row, channels, rng.chance(0.5),
                       Normalization::of({0.4, 0.5, 0.6}, {0.2, 0.25, 0.3}));
  }

  testing_data::CoefficientPicture picture;
  CpuDevice device;
  DeviceRow row;
};

/// Expects the rows of a batch one after the other.
void expect_rows(const std::vector<float>& found, const std::vector<std::vector<float>>& expected) {
  const size_t row_size = found.size() / expected.size();
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto begin = found.begin() + static_cast<ptrdiff_t>(i * row_size);
    ASSERT_TRUE(std::equal(expected[i].begin(), expected[i].end(), begin, begin + static_cast<ptrdiff_t>(row_size)))
        << "row " << i;
  }
}

TEST(DeviceRendererTest, PixelsAreTheCodecsAtEveryScaleAndSampling) {
  for (const auto& kind : jpeg_kinds()) {
    for (const auto& [height, width] : {std::pair{1, 1}, {7, 3}, {16, 17}, {61, 150}}) {
      Rng rng(41, 0, static_cast<uint64_t>(width), 0);
      const auto picture = coefficient_picture(encode_jpeg(kind, height, width, rng.between(20, 100), rng));
      CpuDevice device;
      const size_t number = device.add(picture.sample);
      const int channels = picture.sample.extent.channels == 3 || rng.chance(0.5) ? 3 : 1;
      for (const int scale : {1, 2, 4, 8}) {
        SCOPED_TRACE(concat(kind.name, ", ", height, " x ", width, ", scale ", scale));
        const DeviceRow row{number, decoded_plan(device.pictures().whole(number), scale)};
        expect_loaders_row(device, picture.sample, row, channels, /*scales_dct=*/true);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(DeviceRendererTest, RowsOfAnyPlanAreTheLoadersToTheBit) {
  for (uint64_t trial = 0; trial < 600; trial += kCaseStride) {
    SCOPED_TRACE(concat("trial ", trial));
    Rng rng(42, 0, trial, 0);
    const auto& kind = jpeg_kinds()[trial % jpeg_kinds().size()];
    const int height = rng.between(1, 90), width = rng.between(1, 130);
    RandomRow one(kind, height, width, rng);
    one.expect_loaders(rng);
    if (HasFatalFailure()) return;
  }
}

TEST(DeviceRendererTest, ColourStepsAreTheLoadersToTheBit) {
  for (uint64_t trial = 0; trial < 300; trial += kCaseStride) {
    SCOPED_TRACE(concat("trial ", trial));
    Rng rng(48, 0, trial, 0);
    const auto& kind = jpeg_kinds()[trial % jpeg_kinds().size()];
    const int height = rng.between(1, 40), width = rng.between(1, 50);
    RandomRow one(kind, height, width, rng);
    add_random_steps(one.row.plan, rng);
    one.expect_loaders(rng);
    if (HasFatalFailure()) return;
  }
}

TEST(DeviceRendererTest, HalvesAreTheLoadersToTheBit) {
  for (uint64_t trial = 0; trial < 200; trial += kCaseStride) {
    Rng rng(51, 0, trial, 0);
    const int height = rng.between(1, 40), width = rng.between(1, 50);
    RandomRow one({"420", {2, 2}}, height, width, rng);
    if (trial % 2 == 0) add_random_steps(one.row.plan, rng);
    // Small deviations, for values that f16 does not reach, and large ones, for subnormal values.
    const double deviation = trial % 3 == 0 ? 1e-6 : trial % 3 == 1 ? 0.25 : 4e4;
    const auto normalization = Normalization::of({0.4, 0.5, 0.6}, {deviation, deviation, deviation});
    for (const Layout layout : {Layout::kF16Nchw, Layout::kBf16Nchw}) {
      const auto found = one.device.run({one.row}, normalization, 3, false, false, layout);
      ASSERT_EQ(found.halves, testing_data::loader_row_of<uint16_t>(one.picture.sample, one.row.plan, normalization, 3,
                                                                    /*scales_dct=*/false, layout))
          << layout_name(layout) << ", trial " << trial;
    }
  }
}

TEST(DeviceRendererTest, RowsWithAndWithoutColourStepsAreInOneBatch) {
  Rng rng(49, 0, 0, 0);
  const auto picture = coefficient_picture(encode_jpeg({"420", {2, 2}}, 70, 90, 85, rng));
  CpuDevice device;
  const size_t number = device.add(picture.sample);
  const Pipeline pipeline(
      "random-resized-crop(size=31),color-jitter(brightness=0.4,contrast=0.4,saturation=0.4,hue=0.2),grayscale(p=0.3),"
      "normalize,erase(p=0.5)",
      {.channels = 3});
  const Pipeline plain("random-resized-crop(size=31)", {.channels = 3});
  std::vector<DeviceRow> rows;
  for (uint64_t i = 0; i < 9; ++i)
    rows.push_back({number, (i % 3 == 1 ? plain : pipeline).plan(device.pictures().whole(number), 1, 0, i)});
  std::vector<std::vector<float>> expected;
  for (const auto& row : rows) expected.push_back(loader_row(picture.sample, row.plan, pipeline.normalization(), 3));
  expect_rows(device.run(rows, pipeline.normalization(), 3).values, expected);
}

TEST(DeviceRendererTest, EmptyRowsAreZeroAndLeaveTheOthersAsTheyAre) {
  Rng rng(52, 0, 0, 0);
  const auto picture = coefficient_picture(encode_jpeg({"420", {2, 2}}, 70, 90, 85, rng));
  CpuDevice device;
  const size_t number = device.add(picture.sample);
  const Pipeline pipeline("random-resized-crop(size=31),color-jitter(brightness=0.4),normalize", {.channels = 3});
  std::vector<DeviceRow> rows;
  for (uint64_t i = 0; i < 7; ++i)
    rows.push_back({i % 3 == 0 ? DeviceRow::kEmpty : number, pipeline.plan(device.pictures().whole(number), 1, 0, i)});
  const auto normalization = Normalization::of({0.4, 0.5, 0.6}, {0.2, 0.25, 0.3});
  const auto found = device.run(rows, normalization, 3);
  ASSERT_EQ(found.status, std::vector<uint32_t>(rows.size()));
  constexpr size_t kRow = 3 * 31 * 31;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<float> expected(kRow);
    if (i % 3 != 0) expected = loader_row(picture.sample, rows[i].plan, normalization, 3);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), found.values.begin() + static_cast<ptrdiff_t>(i * kRow)))
        << "row " << i;
  }
}

/// Rows of more columns than a block of the kernel has (64), whose borders stand for columns of other blocks.
TEST(DeviceRendererTest, BordersOfWideRowsAreTheLoadersToTheBit) {
  Rng rng(54, 0, 0, 0);
  const auto picture = coefficient_picture(encode_jpeg({"420", {2, 2}}, 90, 160, 85, rng));
  for (const char* border : {"edge", "reflect", "symmetric"}) {
    for (const char* before : {"", "resize(height=70,width=131),", "resize(height=40,width=133,filter=bilinear),"}) {
      const std::string spec = concat(before, "crop(height=75,width=129,pad=34,border=", border, "),flip");
      SCOPED_TRACE(spec);
      const Pipeline pipeline(spec, {.channels = 3});
      for (uint64_t id = 0; id < 6; ++id) {
        CpuDevice device;
        const size_t number = device.add(picture.sample);
        const DeviceRow row{number, pipeline.plan(device.pictures().whole(number), 1, 0, id)};
        expect_loaders_row(device, picture.sample, row, 3, /*scales_dct=*/id % 2 == 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(DeviceRendererTest, ABatchHasTheRowsOfEachPlan) {
  CpuDevice device;
  std::vector<testing_data::CoefficientPicture> pictures;
  std::vector<DeviceRow> rows;
  const Pipeline pipeline("random-resized-crop(height=70,width=101),flip(p=0.5),normalize", {.channels = 3});
  for (uint64_t i = 0; i < 12; ++i) {
    Rng rng(43, 0, i, 0);
    pictures.push_back(
        coefficient_picture(encode_jpeg(jpeg_kinds()[i], 100 + 37 * static_cast<int>(i % 5), 160, 85, rng)));
    pictures.back().sample.orientation = static_cast<uint8_t>(1 + i % 8);
    rows.push_back({device.add(pictures.back().sample), {}});
  }
  Plan outside = Plan::identity(70, 101);  // a row without tasks in the middle of the batch
  outside.resample(Affine::translation(1000, 1000), 70, 101);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].plan = i == 5 ? outside : pipeline.plan(device.pictures().whole(i), 1, 0, i);
  for (const bool scales_dct : {false, true}) {
    SCOPED_TRACE(scales_dct);
    std::vector<std::vector<float>> expected;
    for (size_t i = 0; i < rows.size(); ++i)
      expected.push_back(loader_row(pictures[i].sample, rows[i].plan, pipeline.normalization(), 3, scales_dct));
    expect_rows(device.run(rows, pipeline.normalization(), 3, scales_dct).values, expected);
  }
}

TEST(DeviceRendererTest, EveryFilterGivesTheLoadersRows) {
  Rng rng(48, 0, 0, 0);
  for (int trial = 0; trial < 24; ++trial) {
    const auto kind = static_cast<size_t>(trial) % jpeg_kinds().size();
    auto picture = coefficient_picture(encode_jpeg(jpeg_kinds()[kind], 90, 120, 85, rng));
    picture.sample.orientation = static_cast<uint8_t>(1 + trial % 8);
    CpuDevice device;
    DeviceRow row{device.add(picture.sample), {}};
    const Plan whole = device.pictures().whole(0);
    for (const char* spec :
         {"random-resized-crop(size=40,interpolation=bicubic)", "random-resized-crop(size=70,interpolation=lanczos)",
          "random-resized-crop(size=40,interpolation=box)", "random-resized-crop(size=40,interpolation=hamming)",
          "letterbox(height=30,width=50,interpolation=bicubic)", "affine(degrees=30,interpolation=bicubic,fill=9)"}) {
      SCOPED_TRACE(concat("trial ", trial, " ", spec));
      row.plan = Pipeline(spec, {.channels = 3}).plan(whole, 1, 0, static_cast<uint64_t>(trial));
      expect_loaders_row(device, picture.sample, row, 3, trial % 2 == 1);
    }
  }
}

TEST(DeviceRendererTest, ALineLongerThanItsSharedMemoryIsTheSame) {
  Rng rng(44, 0, 0, 0);
  const auto picture = coefficient_picture(encode_jpeg({"420", {2, 2}}, 9, 3000, 70, rng));
  CpuDevice device;
  DeviceRow row{device.add(picture.sample), Plan::identity(9, 3000)};
  for (const int width : {1, 5, 70}) {
    row.plan = Plan::identity(9, 3000);
    row.plan.resample(Affine::scaling(3000.0 / width, 3), 3, width);
    row.plan.filter = Filter::kAntialias;
    expect_loaders_row(device, picture.sample, row, 3, false);
  }
}

/// The pixels of the codec, or nothing if it refuses the sample.
std::vector<float> row_or_nothing(const Sample& sample, const Plan& plan) {
  try {
    return loader_row(sample, plan, kLevels, 3);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    return {};
  }
}

TEST(DeviceRendererTest, DamagedStoresAreRefusedOrDecodedAsByTheCodec) {
  int refused_count = 0, decoded_count = 0;
  for (uint64_t trial = 0; trial < 1500; trial += kCaseStride) {
    SCOPED_TRACE(concat("trial ", trial));
    Rng rng(45, 0, trial, 0);
    const auto& kind = jpeg_kinds()[trial % 4];
    auto picture = coefficient_picture(encode_jpeg(kind, 24, 170, 90, rng));
    CpuDevice device;
    const size_t begin = store_begin(picture.sample);
    const size_t number = device.add(picture.sample);
    const size_t store_bytes = picture.bytes.size() - begin;
    for (int k = rng.between(1, 4); k > 0; --k) {
      // Every second time the change is in the tables of groups or in the first heads.
      const int limit = static_cast<int>(trial % 2 == 0 ? store_bytes : std::min<size_t>(store_bytes, 100));
      const auto at = static_cast<size_t>(rng.between(0, limit - 1));
      const auto flip = static_cast<uint8_t>(1 << rng.between(0, 7));
      picture.bytes[begin + at] ^= flip;
      device.stores()[at] ^= flip;
    }
    Plan plan = Plan::identity(24, 170);
    plan.resample(Affine::translation(rng.between(0, 150), rng.between(0, 20)), 4, 20);
    if (trial % 7 < 3) plan.adjust(ColorOp::kSolarize, 0);  // makes 255 of 0
    const auto expected = row_or_nothing(picture.sample, plan);
    const auto found = device.run({{number, plan}}, kLevels, 3, false, trial % 3 == 0);
    ASSERT_EQ(found.status[0], expected.empty() ? 1U : 0U);
    if (expected.empty()) {
      ++refused_count;
      ASSERT_EQ(found.values, std::vector<float>(found.values.size(), 0.f));
    } else {
      ++decoded_count;
      ASSERT_EQ(found.values, expected);
    }
  }
  EXPECT_GT(refused_count, 50 / kCaseStride);
  EXPECT_GT(decoded_count, 50 / kCaseStride);
}

TEST(DeviceRendererTest, RandomStoresAreNeverReadOutside) {
  Rng rng(46, 0, 0, 0);
  const auto picture = coefficient_picture(encode_jpeg({"420", {2, 2}}, 40, 300, 90, rng));
  CpuDevice device;
  const size_t number = device.add(picture.sample);
  for (int trial = 0; trial < 300; ++trial) {
    auto stores = device.stores();
    const size_t begin = trial % 3 == 0 ? 0 : trial % 3 == 1 ? 12 : 26;
    for (size_t i = begin; i < stores.size(); ++i) stores[i] = static_cast<uint8_t>(rng.next() >> 24);
    const auto found = device.run({{number, Plan::identity(40, 300)}}, kLevels, 3);
    EXPECT_LE(found.status[0], 1U);
  }
}

TEST(DeviceRendererTest, WhatTheKernelsDoNotDoIsRefused) {
  Rng rng(47, 0, 0, 0);
  const auto file = encode_jpeg({"444"}, 10, 10, 90, rng);
  auto picture = coefficient_picture(file);
  DevicePictures pictures;
  EXPECT_EQ(
      error_of([&] {
        pictures.add({.extent = {10, 10, 3}, .encoding = Encoding::kJpeg, .bytes = file});
      }),
      "2 is stored as JPEG; expected raw pixels or JPEG coefficients, as shardprep pack --encode raw and --encode coef "
      "store them");
  EXPECT_EQ(error_of([&] {
              pictures.add({.extent = {2, 3, 3}, .encoding = Encoding::kRaw, .bytes = std::span(file).first(17)});
            }),
            "4 17 bytes of raw pixels; expected 18 for 2 x 3 x 3");
  Sample shorter = picture.sample;
  shorter.bytes = shorter.bytes.first(store_begin(shorter));
  EXPECT_THAT(error_of([&] { pictures.add(shorter); }), HasSubstr("4 coefficient store: 0 bytes"));
  EXPECT_EQ(pictures.size(), 0U);
  pictures.add(picture.sample);
  EXPECT_THAT(error_of([&] {
                kernel_arguments({.rows = 1, .output = {}, .normalization = kLevels, .layout = Layout::kU8Nhwc}, {});
              }),
              HasSubstr("6 device renderer: rows of layout u8; expected f32, f16 or bf16"));
  KernelBatch grey(pictures, {10, 10, 1});
  EXPECT_THAT(error_of([&] { grey.add(0, Plan::identity(10, 10), false); }),
              HasSubstr("6 device renderer: picture 0 has 3 channels; expected 1 at most"));
  EXPECT_THAT(error_of([&] { grey.add(0, Plan::identity(10, 9), false); }),
              HasSubstr("6 device renderer: a row of 10x9; expected 10x10"));
}

TEST(DeviceRendererTest, SourcesNameEveryHeaderThatTheyInclude) {
  std::vector<std::string> names;
  for (const auto& source : kernel_sources()) names.emplace_back(source.name);
  ASSERT_EQ(names.front(), "loader/device/kernels.cu");
  for (const auto& source : kernel_sources()) {
    const std::string text = source.text;
    for (size_t at = 0; (at = text.find("#include ", at)) != std::string::npos; ++at) {
      const size_t begin = at + 10;
      const auto name = text.substr(begin, text.find_first_of("\">", begin) - begin);
      EXPECT_THAT(names, testing::Contains(name)) << source.name;
    }
  }
}

TEST(DeviceRendererTest, PhotographsAreTheLoadersToTheBit) {
  const auto paths = testing_data::photographs(kCaseStride);
  if (paths.empty()) GTEST_SKIP() << testing_data::no_photographs();
  const Pipeline pipeline("random-resized-crop(size=224),flip(p=0.5)", {.channels = 3});
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto picture = coefficient_picture(testing_data::read_bytes(paths[i]));
    ASSERT_EQ(picture.sample.encoding, Encoding::kCoefficients) << paths[i];
    CpuDevice device;
    const size_t number = device.add(picture.sample);
    const Plan whole = device.pictures().whole(number), crop = pipeline.plan(whole, 5, 0, i);
    std::vector<Plan> plans{crop};
    if (i % 4 == 0) plans.push_back(whole);  // all 199 as a whole take 9 s
    if (i % 3 == 0) {                        // all 199 with colour steps take 3.5 s
      Rng rng(50, 0, i, 0);
      plans.push_back(crop);
      add_random_steps(plans.back(), rng);
    }
    for (const Plan& plan : plans) {
      const auto expected = loader_row(picture.sample, plan, kLevels, 3);
      ASSERT_TRUE(device.run({{number, plan}}, kLevels, 3).values == expected)
          << paths[i] << ", " << plan.color_step_count << " colour steps";
    }
  }
}

}  // namespace
}  // namespace penstock
