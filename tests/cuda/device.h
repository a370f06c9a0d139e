// The device that the tests run on.
#pragma once

#include <torch/types.h>

namespace penstock {

inline const torch::Device kGpu(torch::kCUDA, 0);

}  // namespace penstock
