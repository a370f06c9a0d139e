// ReluMaxPool: rectified linear units and 2 x 2 max pooling in one pass.
#pragma once

#include <torch/torch.h>

namespace penstock::detail {

/// max_pool2d(relu(x), 2) to the bit, gradient included, of N x C x H x W. On the CPU, for contiguous f32 and f64, by a
/// kernel of its own without branches: LibTorch's pooling takes 1.6 of 6 ms of a LeNet step (batch 64, one thread), as
/// much as all forward convolutions, because it mispredicts a branch a pixel. Elsewhere LibTorch's operators.
/// Differentiable once.
torch::Tensor relu_max_pool(const torch::Tensor& x);

}  // namespace penstock::detail
