// Resident photographs: batches decoded from coefficients by the device's kernels are the loader's batches to the bit.
#include "train/resident_photographs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/jpeg_dataset.h"
#include "tests/train/resident_batches.h"
#include "train/device_kernels.h"
#include "train/kernel_compiler.h"

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
        "center-crop(size=40),shift(pad=3),normalize,erase(p=0.7)"})
    expect_loaders_batches(jpeg_dataset(), augment, photograph_options());
}

TEST(ResidentPhotographsTest, EveryRankShuffleTailAndRestartFollowsTheLoader) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kGlobal, Shuffle::kRankLocal}) {
    for (const Tail tail : {Tail::kPad, Tail::kDrop}) {
      for (const int rank : {0, 2}) {
        auto options = photograph_options();
        options.shuffle = shuffle, options.tail = tail, options.rank = rank, options.world_size = 3;
        SCOPED_TRACE(concat("rank ", rank, ", shuffle ", static_cast<int>(shuffle)));
        expect_loaders_batches(jpeg_dataset(), "random-resized-crop(size=12),normalize", options,
                               {.epoch = 2, .first_batch = 1});
      }
    }
  }
}

TEST(ResidentPhotographsTest, DctScalesAreTheLoaders) {
  auto options = photograph_options();
  for (const bool scales : {false, true}) {
    options.scales_dct = scales;
    expect_loaders_batches(jpeg_dataset(), "resize(height=9,width=10),normalize", options);
  }
}

TEST(ResidentPhotographsTest, CorruptSamplesAreSubstitutedOrNamed) {
  const TemporaryFolder folder("jpeg-corrupt");
  std::filesystem::copy(jpeg_dataset()->folder(), folder.path() / "train");
  const auto file = folder.path() / "train" / jpeg_dataset()->manifest().shards[1].file;
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(4096 + 700).write("penstock", 8);
  auto options = photograph_options();
  options.on_corrupt = OnCorrupt::kSubstitute;
  expect_loaders_batches(Dataset::open(folder.path()), "resize(height=9,width=10),normalize", options);
  EXPECT_THAT(message_of(ErrorKind::kCorrupt,
                         [&] {
                           expect_loaders_batches(Dataset::open(folder.path()), "resize(height=9,width=10)",
                                                  photograph_options());
                         }),
              HasSubstr("crc32c"));
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
  const auto code = compile_kernels(9, 0);
  ASSERT_GT(code.size(), 4U);
  EXPECT_EQ(std::string(code.data() + 1, 3), "ELF");
  const std::string text(code.begin(), code.end());
  for (const auto* name :
       {"penstock_weigh", "penstock_decode", "penstock_color", "penstock_render", "penstock_recolor"})
    EXPECT_THAT(text, HasSubstr(name));
  EXPECT_THAT(message_of(ErrorKind::kDevice, [] { compile_kernels(1, 0); }), HasSubstr("compiling for sm_10"));
#else
  EXPECT_THAT(message_of(ErrorKind::kDevice, [] { compile_kernels(9, 0); }), HasSubstr("has no CUDA"));
#endif
}

}  // namespace
}  // namespace penstock
