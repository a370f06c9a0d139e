// Rounding: tensors on their way into and out of half precision, and the scale of their gradients.
#pragma once

#include <torch/types.h>

namespace penstock::detail {

/// `f32` rounded to `dtype`; its gradient divided by `scale`.
torch::Tensor rounded(const torch::Tensor& f32, torch::ScalarType dtype, double scale);
/// `half` as f32; its gradient times `scale`.
torch::Tensor widened(const torch::Tensor& half, torch::ScalarType dtype, double scale);
/// The same tensor, whose gradient is divided by `scale`.
torch::Tensor unscaled(const torch::Tensor& x, double scale);

}  // namespace penstock::detail
