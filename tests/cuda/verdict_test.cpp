// BottleneckReport on CUDA: a prediction holds only for one kind of GPU.
#include <gtest/gtest.h>

#include "train/run/bottleneck_report.h"

namespace penstock {
namespace {

TEST(GpuNameTest, IsTheDevices) {
  EXPECT_FALSE(gpu_name({torch::kCUDA, 0}).empty());
  EXPECT_EQ(gpu_name(torch::kCPU), "");
}

}  // namespace
}  // namespace penstock
