// Resident feeder: batches rendered from plans by tensor operations are the loader's batches.
#include <gtest/gtest.h>

#include "tests/train/resident_batches.h"
#include "tests/train/small_dataset.h"
#include "train/device_render.h"
#include "train/feeder.h"

namespace penstock {
namespace {

int64_t differing_digits(const std::string& augment, const LoaderOptions& options, const ResidentRun& run = {}) {
  return differing_pixels(small_dataset(), augment, options, run);
}

LoaderOptions loader_options() {
  return {.workers = 0, .prefetch = 2, .batch_size = 32, .rank = 0, .world_size = 1, .seed = 7};
}

TEST(ResidentFeederTest, NearestIsTheHostPathToTheBit) {
  EXPECT_EQ(
      differing_digits("affine(degrees=30,translate=0.2,scale=0.7:1.3,shear=10,fill=40),normalize", loader_options()),
      0);
}

/// One level is 0.01 here. The two feeders round in different places.
TEST(ResidentFeederTest, BilinearIsTheHostPathToRounding) {
  EXPECT_EQ(differing_digits("affine(degrees=30,translate=0.2,interpolation=bilinear,fill=40),normalize",
                             loader_options(), {.tolerance = 1e-6}),
            0);
}

TEST(ResidentFeederTest, ErasedRectanglesShiftsAndFlipsAreTheHostPathToTheBit) {
  EXPECT_EQ(differing_digits("shift(pad=3),flip(p=0.5),normalize,erase(p=0.7)", loader_options()), 0);
}

TEST(ResidentFeederTest, ResizesAndCropsAreTheHostPathToTheBit) {
  EXPECT_EQ(
      differing_digits("resize(height=27,width=31,filter=bilinear),center-crop(size=24),normalize", loader_options()),
      0);
}

TEST(ResidentFeederTest, WhatOnlyTheHostRendersIsRefusedAtTheStart) {
  for (const char* spec : {"color-jitter(brightness=0.2)", "grayscale(p=0.01)", "trivial-augment", "resize(size=20)",
                           "random-resized-crop(size=20,filter=bilinear)"}) {
    try {
      differing_digits(spec, loader_options());
      ADD_FAILURE() << "accepted: " << spec;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig) << error.what();
      EXPECT_EQ(std::string(error.what()).rfind("--resident: the list of transforms ", 0), 0u) << error.what();
    }
  }
}

TEST(ResidentFeederTest, EveryRankShuffleTailAndRestartFollowsTheLoader) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kGlobal, Shuffle::kRankLocal}) {
    for (const Tail tail : {Tail::kPad, Tail::kDrop}) {
      for (const int rank : {0, 2}) {
        auto options = loader_options();
        options.shuffle = shuffle;
        options.tail = tail;
        options.rank = rank;
        options.world_size = 3;
        EXPECT_EQ(differing_digits("affine(degrees=10),normalize", options, {.epoch = 2, .first_batch = 1}), 0)
            << static_cast<int>(shuffle) << rank;
      }
    }
  }
}

/// 130 pictures of 400 bytes. Of 40,000 free bytes 35,000 may be taken: 87 pictures, 32 of which are those of a batch.
TEST(ResidentFeederTest, PicturesThatDoNotFitAreCopiedWithTheirBatches) {
  std::vector<std::string> said;
  const ResidentRoom room{.free_bytes = 40'000, .say = [&](const std::string& line) { said.push_back(line); }};
  for (const int64_t epoch : {0, 3})
    EXPECT_EQ(differing_digits("affine(degrees=10),normalize", loader_options(), {.epoch = epoch, .room = room}), 0);
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[0],
            "--resident: 130 pictures take 52.0 KB, and 40.0 KB of the device's memory are free, of which an eighth is "
            "left for training; 55 pictures, 42 % of them, stay there, and the others are copied with their batches");
  EXPECT_NE(message_of(ErrorKind::kDevice,
                       [&] { differing_digits("normalize", loader_options(), {.room = {.free_bytes = 29'000}}); })
                .find("expected at most 63 pictures, 48 % of them"),
            std::string::npos);
  Recorder recorder;
  const Pipeline pipeline("normalize", small_dataset()->manifest().statistics);
  const auto make = [&](int64_t free_bytes) {
    return make_resident_feeder(small_dataset(), pipeline, loader_options(), torch::kCPU, recorder,
                                {.free_bytes = free_bytes});
  };
  EXPECT_FALSE(make(40'000)->leave_making()) << "a graph copies nothing from the host";
  EXPECT_TRUE(make(52'000 * 8 / 7 + 1)->leave_making());
}

TEST(DeviceRenderTest, ColourMatricesOfRgbAreRendersToTheBit) {
  constexpr int kHeight = 9, kWidth = 11;
  const auto pictures = torch::randint(0, 256, {4, kHeight, kWidth, 3}, at::make_generator<at::CPUGeneratorImpl>(3),
                                       torch::dtype(torch::kUInt8));
  const auto normalization = Normalization::of({0.4, 0.5, 0.6}, {0.2, 0.25, 0.3});
  std::vector<PlannedRow> rows;
  for (int i = 0; i < 4; ++i) {
    PlannedRow row{.picture = 3 - i, .label = i, .weight = 1, .plan = Plan::identity(kHeight, kWidth)};
    row.plan.resample({0.9, 0.1 * i, 0.3, -0.1, 1.05, 0.2}, 7, 8);
    row.plan.filter = i % 2 == 0 ? Filter::kNearest : Filter::kBilinear;
    row.plan.fill = {10, 20, 30};
    if (i > 0) row.plan.recolor({{{0.8f, 0.1f, 0.05f, 3.f}, {0.1f, 0.7f, 0.2f, -4.f}, {0.f, 0.3f, 0.6f, 5.f}}});
    if (i > 1) row.plan.erase({1, 2, 4, 5, {200, 100, 50}});
    rows.push_back(row);
  }
  const auto batch = device_render(pictures, pack_plans(rows, 3, torch::kCPU), {normalization, 3, torch::kCPU});
  for (const auto& row : rows) {
    std::vector<float> expected(3 * 7 * 8);
    const auto picture = pictures[row.picture];
    render({picture.data_ptr<uint8_t>(), kWidth * 3, kHeight, kWidth, 3, 0, 0}, row.plan, normalization,
           Layout::kF32Nchw, expected.data());
    EXPECT_TRUE(torch::equal(batch[row.label], torch::from_blob(expected.data(), {3, 7, 8}))) << "row " << row.label;
  }
}

TEST(ResidentFeederTest, MixesAreRefusedAtTheStart) {
  Recorder recorder;
  const Pipeline pipeline("flip,mixup(alpha=0.2)", small_dataset()->manifest().statistics);
  EXPECT_EQ(
      message_of(ErrorKind::kConfig,
                 [&] { make_resident_feeder(small_dataset(), pipeline, loader_options(), torch::kCPU, recorder); }),
      "--resident: the transforms flip,mixup(alpha=0.2) mix rows of a batch, which only the loader on the host can do; "
      "expected no mixup and no cutmix");
}

TEST(ResidentFeederTest, PicturesOfSeveralSizesAreRefused) {
  const TemporaryFolder folder("resident-png");
  auto manifest = small_dataset()->manifest();
  std::filesystem::copy(small_dataset()->folder(), folder.path() / "train");
  manifest.extent.reset();
  write_manifest(folder.path() / "train", manifest);
  const auto dataset = Dataset::open(folder.path());
  Recorder recorder;
  const auto message = message_of(ErrorKind::kConfig, [&] {
    make_resident_feeder(dataset, Pipeline("normalize", manifest.statistics), loader_options(), torch::kCPU, recorder);
  });
  EXPECT_NE(message.find("one size"), std::string::npos) << message;
}

}  // namespace
}  // namespace penstock
