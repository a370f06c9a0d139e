// What is said where no CUDA device is visible, and where one has too little memory. None of it needs a device.
#include "train/tensor/cuda_device.h"

#include <gtest/gtest.h>

#include "tests/support/testing.h"

namespace penstock {
namespace {

TEST(NoDeviceTest, NamesTheFirstThingThatRulesADeviceOut) {
  EXPECT_EQ(no_device_text({}), "this LibTorch is without CUDA");
  EXPECT_EQ(no_device_text({.runtime = 13000}), "there is no NVIDIA driver");
  EXPECT_EQ(no_device_text({.driver = 12040, .runtime = 13000, .error = "insufficient driver"}),
            "the NVIDIA driver is for CUDA 12.4, older than LibTorch's 13.0");
  EXPECT_EQ(no_device_text({.driver = 13000, .runtime = 13000, .error = "system not yet initialized"}),
            "system not yet initialized");
  EXPECT_EQ(no_device_text({.driver = 13010, .runtime = 13000, .visible_devices = "7", .has_visible_devices = true}),
            "CUDA_VISIBLE_DEVICES is \"7\", which names no GPU of this machine");
  EXPECT_EQ(no_device_text({.driver = 13000, .runtime = 13000, .has_visible_devices = true}),
            "CUDA_VISIBLE_DEVICES is \"\", which names no GPU of this machine");
  EXPECT_EQ(no_device_text({.driver = 13000, .runtime = 13000}), "the driver counts none");
}

TEST(RoomForPicturesTest, SaysBothNumbersAndWhatWouldFit) {
  EXPECT_NO_THROW(require_room("", 60'000, 47'040'000, 53'760'000));
  EXPECT_EQ(message_of(ErrorKind::kDevice, [] { require_room("", 60'000, 47'040'000, 39'200'783); }),
            "--resident: 60,000 pictures take 47.0 MB, and 39.2 MB of the device's memory are free, of which an eighth "
            "is left for training; expected at most 43,750 pictures, 73 % of them: more ranks with --shuffle "
            "rank-local, smaller pictures (shardprep pack "
            "--resize), or no --resident");
  EXPECT_EQ(
      message_of(ErrorKind::kDevice, [] { require_room("the coefficients of ", 1000, 1'000'000'000, 250'000'000); }),
      "--resident: the coefficients of 1,000 pictures take 1.0 GB, and 250.0 MB of the device's memory are free, of "
      "which an eighth is left for training; expected at most 218 pictures, 22 % of them: more ranks with --shuffle "
      "rank-local, smaller pictures (shardprep pack "
      "--resize), or no --resident");
}

TEST(FreeMemoryTest, IsNotAskedForOnTheCpu) { EXPECT_FALSE(free_device_bytes(c10::Device(c10::kCPU))); }

}  // namespace
}  // namespace penstock
