// Resident photographs: batches decoded from coefficients by the device's kernels are the loader's batches to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/picture_datasets.h"
#include "tests/train/resident_batches.h"
#include "train/feed/feeder.h"
#include "train/resident/device_kernels.h"
#include "train/resident/kernel_compiler.h"
#include "train/resident/resident_feeder.h"

namespace penstock {
namespace {

using testing::HasSubstr;

LoaderOptions photograph_options() {
  return {.workers = 0, .prefetch = 2, .batch_size = 32, .rank = 0, .world_size = 1, .seed = 7};
}

void expect_loaders_batches(const std::shared_ptr<const Dataset>& dataset, const std::string& augment,
                            const LoaderOptions& options, const ResidentRun& run = {}) {
  EXPECT_EQ(differing_pixels(dataset, augment, options, run), 0) << augment;
}

TEST(ResidentPhotographsTest, BatchesAreTheLoadersToTheBit) {
  for (const char* augment :
       {"random-resized-crop(size=24),flip(p=0.5),normalize", "resize(size=17),center-crop(size=17),normalize",
        "center-crop(size=30),affine(degrees=30,translate=0.2,interpolation=bilinear,fill=40),normalize",
        "center-crop(size=13)",
        "center-crop(size=40),color-jitter(brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1),normalize,erase(p=0.7)",
        "random-resized-crop(size=24),trivial-augment,normalize",
        "center-crop(size=40),shift(pad=3),normalize,erase(p=0.7)",
        "resize(size=30),crop(size=32,pad=6,border=symmetric),flip(p=0.5),normalize"})
    expect_loaders_batches(jpeg_dataset(), augment, photograph_options());
}

TEST(ResidentPhotographsTest, EveryRankShuffleTailAndRestartFollowsTheLoader) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kGlobal, Shuffle::kRankLocal}) {
    for (const Tail tail : {Tail::kPad, Tail::kDrop}) {
      for (const int rank : {0, 2}) {
        auto options = photograph_options();
        options.shuffle = shuffle, options.tail = tail, options.rank = rank, options.world_size = 3;
        SCOPED_TRACE(concat("rank ", rank, ", shuffle ", shuffle.text()));
        for (const auto& room : {ResidentRoom(), room_for(15)})
          expect_loaders_batches(jpeg_dataset(), "random-resized-crop(size=12),normalize", options,
                                 {.epoch = 2, .first_batch = 1, .room = room});
      }
    }
  }
}

TEST(ResidentPhotographsTest, DctScalesAreTheLoaders) {
  auto options = photograph_options();
  for (const auto scale : {DctScale::kOff, DctScale::kAlways, DctScale::kAuto}) {
    options.dct_scale = scale;
    for (const char* transforms : {"resize(height=9,width=10),normalize", "resize(height=9,width=10),flip,normalize"})
      expect_loaders_batches(jpeg_dataset(), transforms, options);
  }
}

TEST(ResidentPhotographsTest, CorruptSamplesAreSubstitutedOrNamed) {
  const TemporaryFolder folder("jpeg-corrupt");
  std::filesystem::copy(jpeg_dataset()->folder(), folder.path() / "train");
  const auto file = folder.path() / "train" / jpeg_dataset()->manifest().shards[1].file;
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(4096 + 700).write("penstock", 8);
  auto options = photograph_options();
  options.on_corrupt = OnCorrupt::kMask;
  options.batch_size = 16;
  auto failing = options;
  failing.on_corrupt = OnCorrupt::kFail;
  const auto dataset = Dataset::open(folder.path());
  auto substituting = options;
  substituting.on_corrupt = OnCorrupt::kSubstitute;
  expect_loaders_batches(dataset, "random-resized-crop(size=9),flip,normalize", substituting);
  EXPECT_THAT(message_of(ErrorKind::kConfig,
                         [&] {
                           expect_loaders_batches(dataset, "resize(height=9,width=10),normalize", substituting,
                                                  {.room = room_for(40)});
                         }),
              HasSubstr("--resident with --on-corrupt substitute: not all pictures fit on the device"));
  for (const auto& room : {ResidentRoom(), room_for(40), room_for(16)}) {  // of the second shard all, some or none fit
    expect_loaders_batches(dataset, "resize(height=9,width=10),normalize", options, {.room = room});
    EXPECT_THAT(message_of(ErrorKind::kCorrupt,
                           [&] {
                             Recorder recorder;
                             const auto feeder = make_resident_feeder(
                                 dataset, Pipeline("resize(height=9,width=10)", dataset->manifest().statistics),
                                 failing, torch::kCPU, recorder, room);
                             feeder->start_epoch(0, 0);
                             while (feeder->next()) continue;
                           }),
                HasSubstr("crc32c"));
  }
}

/// 70 photographs, of which 32 (the rows of a batch), 50 or all but one fit.
TEST(ResidentPhotographsTest, PhotographsThatDoNotFitComeFromTheLoader) {
  auto options = photograph_options();
  for (const int workers : {0, 2}) {
    options.workers = workers;
    for (const int count : {32, 50, 69})
      expect_loaders_batches(jpeg_dataset(), "random-resized-crop(size=24),flip(p=0.5),normalize,erase(p=0.5)", options,
                             {.room = room_for(count)});
  }
}

TEST(ResidentPhotographsTest, OnlyThosePhotographsAreDecodedByTheLoader) {
  Recorder recorder;
  std::vector<std::string> said;
  auto options = photograph_options();
  options.epoch_count = 1;
  const Pipeline pipeline("center-crop(size=24)", jpeg_dataset()->manifest().statistics);
  const auto made_count = [&](ResidentRoom room) {
    room.log = [&](const std::string& line) { said.push_back(line); };
    const auto feeder = make_resident_feeder(jpeg_dataset(), pipeline, options, torch::kCPU, recorder, room);
    feeder->start_epoch(0, 0);
    while (feeder->next()) continue;
    return feeder->statistics().decode.count;
  };
  EXPECT_EQ(made_count(room_for(50)), 20U);
  EXPECT_EQ(made_count(room_for(70)), 0U);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], HasSubstr("--resident: the coefficients of 70 pictures take "));
  EXPECT_THAT(said[0],
              HasSubstr("; 50 pictures, 71 % of them, stay there, and the loader makes the rows of the others"));
  const auto message = message_of(ErrorKind::kDevice, [&] { made_count(room_for(31)); });
  EXPECT_THAT(message, HasSubstr("--resident: the coefficients of 70 pictures take "));
  EXPECT_THAT(message,
              HasSubstr("of the device's memory are free, of which an eighth is left for training; expected at"));
}

TEST(ResidentPhotographsTest, HalvesAreTheLoadersRowsRounded) {
  auto options = photograph_options();
  for (const Layout layout : {Layout::kF16Nchw, Layout::kBf16Nchw}) {
    options.layout = layout;
    for (const auto& room : {ResidentRoom(), room_for(40)})
      expect_loaders_batches(jpeg_dataset(), "random-resized-crop(size=24),flip(p=0.5),normalize,erase(p=0.5)", options,
                             {.room = room});
  }
}

TEST(ResidentPhotographsTest, WhatOnlyTheHostDoesIsRefusedAtTheStart) {
  Recorder recorder;
  const auto message = [&](const char* augment) {
    return message_of(ErrorKind::kConfig, [&] {
      make_resident_feeder(jpeg_dataset(), Pipeline(augment, jpeg_dataset()->manifest().statistics),
                           photograph_options(), torch::kCPU, recorder);
    });
  };
  EXPECT_THAT(message("normalize"), HasSubstr("expected all of one size: add center-crop(size="));
  EXPECT_THAT(message("flip,mixup(alpha=0.2)"), HasSubstr("expected no mixup and no cutmix"));
}

/// Needs the CUDA libraries of LibTorch, and no device.
TEST(KernelCompilerTest, KernelsCompileForHopper) {
#ifdef PENSTOCK_HAS_CUDA
  const KernelLaunches launches = kernel_launches({.rows = 1, .output = {1, 1, 1}, .normalization = {}}, {});
  for (size_t kernel = 0; kernel < launches.size(); ++kernel) {
    const auto code = compile_kernel(9, 0, kernel);
    ASSERT_GT(code.size(), 4U);
    EXPECT_EQ(std::string(code.data() + 1, 3), "ELF");
    EXPECT_THAT(std::string(code.begin(), code.end()), HasSubstr(launches[kernel].name));
  }
  EXPECT_THAT(message_of(ErrorKind::kDevice, [] { compile_kernel(1, 0, 0); }), HasSubstr("compiling for sm_10"));
#else
  EXPECT_THAT(message_of(ErrorKind::kDevice, [] { compile_kernel(9, 0, 0); }), HasSubstr("has no CUDA"));
#endif
}

}  // namespace
}  // namespace penstock
