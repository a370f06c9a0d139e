// Photographs decoded on CUDA: the kernels give there what they give on the processor, to the bit.
#include <gtest/gtest.h>

#include "core/text.h"
#include "tests/cuda/device.h"
#include "tests/train/picture_datasets.h"
#include "train/feed/feeder.h"
#include "train/resident/resident_feeder.h"

namespace penstock {
namespace {

/// Compares two epochs.
void expect_processors_batches(const std::string& augment, Layout layout = Layout::kF32Nchw,
                               const ResidentRoom& room = {}) {
  const auto dataset = jpeg_dataset();
  const Pipeline pipeline(augment, dataset->manifest().statistics);
  const LoaderOptions options{
      .workers = 0, .prefetch = 2, .batch_size = 32, .rank = 0, .world_size = 1, .seed = 7, .layout = layout};
  Recorder recorder;
  const auto expected = make_resident_feeder(dataset, pipeline, options, torch::kCPU, recorder);
  const auto found = make_resident_feeder(dataset, pipeline, options, kGpu, recorder, room);
  for (const int64_t epoch : {0, 1}) {
    expected->start_epoch(epoch, 0);
    found->start_epoch(epoch, 0);
    while (const auto batch = expected->next()) {
      SCOPED_TRACE(concat(augment, ", epoch ", epoch, ", batch ", batch->index));
      const auto on_device = found->next();
      ASSERT_TRUE(on_device);
      EXPECT_TRUE(on_device->images.is_cuda());
      EXPECT_EQ(on_device->images.scalar_type(), batch->images.scalar_type());
      EXPECT_TRUE(torch::equal(on_device->labels.cpu(), batch->labels));
      EXPECT_TRUE(torch::equal(on_device->weights.cpu(), batch->weights));
      EXPECT_TRUE(torch::equal(on_device->images.cpu(), batch->images));
    }
    EXPECT_FALSE(found->next());  // throws if the device has refused a group
  }
}

/// Filters along the axes, bilinear points, and copies, at the full and at smaller DCT scales.
TEST(CudaPhotographsTest, BatchesAreThoseOfTheProcessorToTheBit) {
  for (const char* augment :
       {"random-resized-crop(size=24),flip(p=0.5),normalize", "resize(height=9,width=10),normalize",
        "center-crop(size=30),affine(degrees=30,interpolation=bilinear,fill=40),normalize",
        "center-crop(size=40),color-jitter(brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1),normalize,erase(p=0.7)",
        "random-resized-crop(size=24),trivial-augment,normalize",
        "center-crop(size=40),shift(pad=3),normalize,erase(p=0.7)",
        "center-crop(size=40),crop(pad=6,border=reflect),flip,color-jitter(contrast=0.4),normalize",
        "resize(height=70,width=131),crop(height=75,width=129,pad=34,border=symmetric),flip,normalize"})
    expect_processors_batches(augment);
}

TEST(CudaPhotographsTest, HalvesAreThoseOfTheProcessorToTheBit) {
  for (const Layout layout : {Layout::kF16Nchw, Layout::kBf16Nchw})
    expect_processors_batches("random-resized-crop(size=24),flip(p=0.5),normalize,erase(p=0.5)", layout);
}

/// The others are decoded by the loader and copied into the batch.
TEST(CudaPhotographsTest, PhotographsThatDoNotFitAreThoseOfTheProcessorToTheBit) {
  for (const Layout layout : {Layout::kF32Nchw, Layout::kF16Nchw})
    expect_processors_batches("random-resized-crop(size=24),flip(p=0.5),normalize,erase(p=0.5)", layout, room_for(40));
}

}  // namespace
}  // namespace penstock
