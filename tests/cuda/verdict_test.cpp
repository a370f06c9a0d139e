// Verdict on CUDA: a prediction holds only for one kind of GPU.
#include "train/run/verdict.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(GpuNameTest, IsTheDevices) {
  EXPECT_FALSE(gpu_name({torch::kCUDA, 0}).empty());
  EXPECT_EQ(gpu_name(torch::kCPU), "");
}

}  // namespace
}  // namespace penstock
