// Resident feeder: batches of raw pictures made by the device's kernels are the loader's batches to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/train/picture_datasets.h"
#include "tests/train/resident_batches.h"
#include "tests/train/small_dataset.h"
#include "train/feed/feeder.h"
#include "train/resident/resident_feeder.h"

namespace penstock {
namespace {

int64_t differing_digits(const std::string& augment, const LoaderOptions& options, const ResidentRun& run = {}) {
  return differing_pixels(small_dataset(), augment, options, run);
}

LoaderOptions loader_options() {
  return {.workers = 0, .prefetch = 2, .batch_size = 32, .rank = 0, .world_size = 1, .seed = 7};
}

TEST(ResidentFeederTest, BatchesAreTheLoadersToTheBit) {
  for (const char* augment :
       {"affine(degrees=30,translate=0.2,scale=0.7:1.3,shear=10,fill=40),normalize",
        "affine(degrees=30,translate=0.2,interpolation=bilinear,fill=40),normalize",
        "shift(pad=3),flip(p=0.5),normalize,erase(p=0.7)",
        "crop(pad=4,border=reflect),flip(p=0.5),color-jitter(contrast=0.4),normalize,erase(p=0.7)",
        "resize(height=27,width=31,filter=bilinear),center-crop(size=24),normalize", "resize(size=13)",
        "random-resized-crop(size=17),flip,normalize", "color-jitter(brightness=0.2,contrast=0.4),normalize",
        "trivial-augment,normalize,erase(p=0.3)"})
    EXPECT_EQ(differing_digits(augment, loader_options()), 0) << augment;
}

TEST(ResidentFeederTest, GreyAndColourPicturesOfSeveralSizesAreTheLoadersToTheBit) {
  for (const char* augment :
       {"random-resized-crop(size=17),flip,normalize", "resize(size=30),center-crop(size=24),normalize",
        "center-crop(size=40),crop(pad=6,border=symmetric),color-jitter(saturation=0.4,contrast=0.4),normalize"})
    EXPECT_EQ(differing_pixels(raw_dataset(), augment, loader_options()), 0) << augment;
}

TEST(ResidentFeederTest, DamagedPicturesAreSubstitutedOrNamed) {
  const TemporaryFolder folder("raw-corrupt");
  std::filesystem::copy(raw_dataset()->folder(), folder.path() / "train");
  const auto file = folder.path() / "train" / raw_dataset()->manifest().shards[1].file;
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(4096 + 20'000).write("penstock", 8);
  const auto dataset = Dataset::open(folder.path());
  auto options = loader_options();
  options.on_corrupt = OnCorrupt::kMask;
  EXPECT_EQ(differing_pixels(dataset, "center-crop(size=24),normalize", options), 0);
  options.on_corrupt = OnCorrupt::kSubstitute;
  for (const char* augment : {"center-crop(size=24),normalize", "random-resized-crop(size=24),flip,normalize"})
    EXPECT_EQ(differing_pixels(dataset, augment, options), 0) << augment;
  options.on_corrupt = OnCorrupt::kFail;
  const auto message =
      message_of(ErrorKind::kCorrupt, [&] { differing_pixels(dataset, "center-crop(size=24),normalize", options); });
  EXPECT_THAT(message, testing::HasSubstr("crc32c"));
}

TEST(ResidentFeederTest, HalvesAreTheLoadersRowsRounded) {
  auto options = loader_options();
  for (const Layout layout : {Layout::kF16Nchw, Layout::kBf16Nchw}) {
    options.layout = layout;
    EXPECT_EQ(differing_digits("affine(degrees=30),normalize", options), 0) << layout_name(layout);
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
            << shuffle.text() << ", rank " << rank;
      }
    }
  }
}

/// 130 pictures of 400 bytes. Of 40,000 free bytes 35,000 may be taken: 87 pictures.
TEST(ResidentFeederTest, PicturesThatDoNotFitComeFromTheLoader) {
  std::vector<std::string> said;
  const ResidentRoom room{.free_bytes = 40'000, .log = [&](const std::string& line) { said.push_back(line); }};
  for (const int workers : {0, 2}) {
    auto options = loader_options();
    options.workers = workers;
    for (const int64_t epoch : {0, 3})
      EXPECT_EQ(differing_digits("affine(degrees=10),normalize", options, {.epoch = epoch, .room = room}), 0);
  }
  ASSERT_EQ(said.size(), 4U);
  EXPECT_EQ(said[0],
            "--resident: 130 pictures take 52.0 KB, and 40.0 KB of the device's memory are free, of which an eighth is "
            "left for training; 87 pictures, 67 % of them, stay there, and the loader makes the rows of the others");
  EXPECT_NE(message_of(ErrorKind::kDevice,
                       [&] { differing_digits("normalize", loader_options(), {.room = {.free_bytes = 14'000}}); })
                .find("expected at most 30 pictures, 23 % of them"),
            std::string::npos);
  Recorder recorder;
  const Pipeline pipeline("normalize", small_dataset()->manifest().statistics);
  const auto make = [&](int64_t free_bytes) {
    return make_resident_feeder(small_dataset(), pipeline, loader_options(), torch::kCPU, recorder,
                                {.free_bytes = free_bytes});
  };
  EXPECT_FALSE(make(40'000)->defer_rendering()) << "a graph copies nothing from the host";
  EXPECT_TRUE(make(52'000 * 8 / 7 + 1)->defer_rendering());
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

}  // namespace
}  // namespace penstock
