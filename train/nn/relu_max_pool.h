// relu_max_pool(): rectified linear units and 2 x 2 max pooling in one pass.
#pragma once

#include <torch/types.h>

namespace penstock::detail {

/// Equal to max_pool2d(relu(x), 2) to the bit, with its gradient; x is N x C x H x W. On the CPU, contiguous f32 and
/// f64 tensors are computed by a kernel without branches; LibTorch's pooling has branches, and one is mispredicted per
/// pixel. LeNet's steps over 64 rows of MNIST (`single`, one thread) take 1.25 times the processor time without it, and
/// 1.39 with relu before the pooling. Other tensors are computed by LibTorch's operators. Differentiable once.
torch::Tensor relu_max_pool(const torch::Tensor& x);

}  // namespace penstock::detail
