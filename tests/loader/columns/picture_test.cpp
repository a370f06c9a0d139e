// The column picture: a second picture shows what the picture shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "loader/codecs/field_picture.h"
#include "loader/codecs/npy.h"
#include "loader/codecs/png_writer.h"
#include "tests/loader/raster_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::array_of;
using testing_data::error_of;
using testing_data::raster_options;
using testing_data::raster_sample;
using testing_data::RasterSource;
using testing_data::TemporaryFolder;

FieldType second_type(double fill = 0) {
  return {.name = "second",
          .kind = FieldKind::kPicture,
          .dtype = Dtype::kU8,
          .shape = {FieldType::kVariable},
          .fill = fill};
}

/// A data set of 9 samples of one size, each with a second picture.
template <class Second>
std::shared_ptr<const Dataset> packed_with(const TemporaryFolder& folder, PixelType type, const Extent& extent,
                                           Second second, double fill = 0) {
  std::vector<SourceSample> samples;
  for (uint64_t i = 0; i < 9; ++i) {
    SourceSample sample = raster_sample(type, extent, i);
    sample.fields = {second(sample)};
    samples.push_back(std::move(sample));
  }
  pack(RasterSource(std::move(samples), {second_type(fill)}), "rasters", raster_options(folder.path(), type));
  return Dataset::open(folder.path());
}

Loader loader_of(const std::shared_ptr<const Dataset>& dataset, const std::string& augment, const std::string& columns,
                 Layout layout = Layout::kF32Nchw, int workers = 0) {
  LoaderOptions options;
  options.batch_size = 9;
  options.columns = columns;
  options.layout = layout;
  options.workers = workers;
  return {dataset, Pipeline(augment, dataset->manifest().statistics), options};
}

/// How many elements of the column `number` and of the images are equal.
template <class Element>
double equal_share(Loader loader, size_t number = Column::kWeights + 1) {
  loader.start_epoch(2);
  const auto batch = loader.next();
  const auto images = batch->column(Column::kImages), second = batch->column(number);
  EXPECT_EQ(images.size(), second.size());
  size_t equal = 0;
  for (size_t at = 0; at < images.size(); at += sizeof(Element))
    equal += std::memcmp(&images[at], &second[at], sizeof(Element)) == 0;
  return static_cast<double>(equal) / (static_cast<double>(images.size()) / sizeof(Element));
}

constexpr const char* kGeometry = "affine(degrees=40,translate=0.2,filter=bilinear),random-resized-crop(size=8),flip";

TEST(SecondPictureTest, OneThatIsThePictureIsRenderedLikeIt) {
  for (const PixelType type : {PixelType::kU16, PixelType::kF32})
    for (const int channels : {1, 5}) {
      const TemporaryFolder folder;
      const auto dataset = packed_with(folder, type, {11, 14, channels}, array_of);
      EXPECT_EQ(equal_share<float>(loader_of(dataset, kGeometry, "picture(field=second,layout=f32)")), 1);
      EXPECT_EQ(equal_share<float>(loader_of(dataset, std::string(kGeometry) + ",normalize(mean=0.5,std=2)",
                                             "picture(field=second,layout=f32,mean=0.5,std=2)")),
                1);
    }
}

TEST(SecondPictureTest, OneOfAnotherSizeHasTheSameFieldOfView) {
  const TemporaryFolder folder;
  // Each pixel of the second picture becomes a square of 2 x 2 pixels of the picture.
  std::vector<SourceSample> samples;
  for (uint64_t i = 0; i < 9; ++i) {
    const SourceSample small = raster_sample(PixelType::kU16, {6, 7, 1}, i);
    SourceSample large{std::vector<uint8_t>(12 * 14 * 2), Encoding::kRawU16, {12, 14, 1}};
    for (size_t y = 0; y < 12; ++y)
      for (size_t x = 0; x < 14; ++x)
        std::memcpy(&large.bytes[(y * 14 + x) * 2], &small.bytes[(y / 2 * 7 + x / 2) * 2], 2);
    large.fields = {array_of(small)};
    samples.push_back(std::move(large));
  }
  pack(RasterSource(std::move(samples), {second_type()}), "rasters", raster_options(folder.path(), PixelType::kU16));
  const auto dataset = Dataset::open(folder.path());
  for (const char* augment : {"crop(size=9,pad=2),flip,vflip", "affine(degrees=30,translate=0.1,scale=0.7:1.4),flip"})
    EXPECT_GT(equal_share<uint16_t>(loader_of(dataset, augment, "picture(field=second)", Layout::kU16Nhwc)), 0.999)
        << augment;
}

TEST(SecondPictureTest, IsInTheUprightPicturesCoordinates) {
  constexpr uint8_t kTurnedClockwise[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                                          0,   1,   0,  0, 0, 6, 0, 0, 0, 0, 0,    0, 0};
  std::vector<SourceSample> samples;
  for (uint64_t i = 0; i < 9; ++i) {
    const SourceSample upright = raster_sample(PixelType::kU8, {5, 8, 1}, i);
    std::vector<uint8_t> stored(40);  // 8 x 5: orientation 6 is stored so that it must be turned clockwise
    for (size_t y = 0; y < 5; ++y)
      for (size_t x = 0; x < 8; ++x) stored[(7 - x) * 5 + y] = upright.bytes[y * 8 + x];
    SourceSample sample{detail::write_png(stored, {8, 5, 1}, 8, kTurnedClockwise), Encoding::kPng, {8, 5, 1}};
    sample.fields = {detail::write_png(upright.bytes, {5, 8, 1})};
    samples.push_back(std::move(sample));
  }
  const TemporaryFolder folder;
  pack(RasterSource(std::move(samples), {second_type()}, false), "rasters",
       raster_options(folder.path(), PixelType::kU8));
  const auto dataset = Dataset::open(folder.path());
  ASSERT_EQ(dataset->at(0).orientation, 6);
  for (const char* augment : {"", "crop(size=4),flip", "resize(height=3,width=4)"})
    EXPECT_EQ(equal_share<uint8_t>(loader_of(dataset, augment, "picture(field=second)", Layout::kU8Nhwc)), 1)
        << augment;
}

TEST(SecondPictureTest, ColoursAreForThePictureUnlessAsked) {
  const TemporaryFolder folder;
  const auto dataset = packed_with(folder, PixelType::kU8, {12, 12, 3}, [](const SourceSample& sample) {
    return detail::write_png(sample.bytes, sample.extent);
  });
  const std::string augment = "flip,color-jitter(brightness=2.5:3),erase(p=1)";
  const auto share = [&](const char* columns) {
    return equal_share<uint8_t>(loader_of(dataset, augment, columns, Layout::kU8Nhwc));
  };
  EXPECT_LT(share("picture(field=second)"), 0.2);
  EXPECT_EQ(share("picture(field=second,color=true)"), 1);
  EXPECT_EQ(equal_share<uint8_t>(loader_of(dataset, "flip", "picture(field=second)", Layout::kU8Nhwc)), 1);
}

TEST(SecondPictureTest, FillAndInterpolationAreItsOwn) {
  const TemporaryFolder folder;
  const auto dataset = packed_with(folder, PixelType::kU16, {6, 6, 1}, array_of, 1234);
  auto loader = loader_of(dataset, "affine(degrees=45,filter=bilinear,scale=0.5)",
                          "picture(field=second,interpolation=nearest),picture(field=second,column=other,fill=77)");
  loader.start_epoch(0);
  const auto batch = loader.next();
  const auto levels = [&](size_t number) {
    const auto bytes = batch->column(number).first(36 * 2);
    std::vector<uint16_t> values(36);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  EXPECT_EQ(levels(4)[0], 1234);
  EXPECT_EQ(levels(5)[0], 77);
  const Sample first = [&] {
    uint64_t i = 0;
    while (dataset->at(i).id != batch->ids()[0]) ++i;
    return dataset->at(i);
  }();
  std::vector<uint16_t> stored(36);
  std::memcpy(stored.data(), first.bytes.data(), 72);
  for (const uint16_t level : levels(4))
    EXPECT_TRUE(level == 1234 || std::count(stored.begin(), stored.end(), level) > 0) << level;
}

TEST(SecondPictureTest, IsInTheDigestWhichWorkersDoNotChange) {
  const TemporaryFolder folder;
  const auto dataset = packed_with(folder, PixelType::kF32, {11, 14, 2}, array_of);
  const auto digest = [&](const char* columns, int workers) {
    auto loader = loader_of(dataset, kGeometry, columns, Layout::kF32Nchw, workers);
    loader.start_epoch(0);
    Digest made;
    while (const auto batch = loader.next()) made.add(*batch);
    return made.hex();
  };
  const std::string expected = digest("picture(field=second)", 0);
  for (const int workers : {1, 3}) EXPECT_EQ(digest("picture(field=second)", workers), expected);
  EXPECT_NE(digest("", 0), expected);
  EXPECT_NE(digest("picture(field=second,interpolation=nearest)", 0), expected);
}

TEST(SecondPictureTest, WhatCannotBeIsRefusedBeforeAThreadStarts) {
  const TemporaryFolder folder;
  const auto dataset = packed_with(folder, PixelType::kU16, {6, 6, 1}, array_of);
  const auto refusal = [&](const char* columns, const char* augment = "") {
    return error_of([&] { loader_of(dataset, augment, columns); });
  };
  EXPECT_THAT(refusal("picture"), HasSubstr("no field; expected field=FIELD"));
  EXPECT_THAT(refusal("picture(field=other)"), HasSubstr("other"));
  EXPECT_THAT(refusal("picture(field=second,layout=u8)"),
              HasSubstr("pictures have 1 channel of u16; expected a layout of floats, or u16"));
  EXPECT_THAT(refusal("picture(field=second,color=true)"),
              HasSubstr("color is true, and pictures have 1 channel of u16; expected 1 or 3 channels of u8"));
  EXPECT_THAT(refusal("picture(field=second,fill=-1)"), HasSubstr("fill is -1; expected a level from 0 to 65535"));
  EXPECT_THAT(refusal("picture(field=second,mean=0.5)"), HasSubstr("expected both, and a layout of floats"));
  EXPECT_THAT(refusal("picture(field=second,interpolation=cubic)"), HasSubstr("cubic"));
  EXPECT_THAT(refusal("picture(field=second)", "mixup"), HasSubstr("second is in pixels"));
  EXPECT_THAT(error_of([&] { loader_of(dataset, "", "mask(field=second)"); }),
              HasSubstr("of kind picture; expected mask"));
}

TEST(SecondPictureTest, OneOfAnotherKindThanTheFirstIsCorrupt) {
  const TemporaryFolder folder;
  const auto dataset = packed_with(folder, PixelType::kU16, {6, 6, 1}, [count = 0](const SourceSample& sample) mutable {
    return ++count == 5 ? array_of(raster_sample(PixelType::kF32, {6, 6, 1}, 1)) : array_of(sample);
  });
  auto loader = loader_of(dataset, "", "picture(field=second)");
  loader.start_epoch(0);
  EXPECT_THAT(
      error_of([&] { loader.next(); }),
      HasSubstr("field \"second\": a picture of 1 channel of f32; expected 1 channel of u16, as the first sample has"));
}

TEST(FieldPictureTest, ArraysOfOtherShapesAreCorrupt) {
  const auto refusal = [](Dtype dtype, const std::vector<int64_t>& shape) {
    size_t count = element_bytes(dtype);
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    const std::vector<uint8_t> data(count);
    return error_of([&] { probe_field_picture(detail::npy_file({dtype, shape, data})); });
  };
  EXPECT_EQ(refusal(Dtype::kF32, {3, 4}), "");
  EXPECT_THAT(refusal(Dtype::kF64, {3, 4}), HasSubstr("an array of F64"));
  EXPECT_THAT(refusal(Dtype::kU8, {3, 4, 33}), HasSubstr("with 33 channels"));
  EXPECT_THAT(refusal(Dtype::kU8, {3}), HasSubstr("in 1 dimensions"));
  EXPECT_THAT(refusal(Dtype::kU16, {0, 4}), HasSubstr("picture of 0 x 4 pixels"));
}

}  // namespace
}  // namespace penstock
