// Whitening: filters of a first convolution that are computed from pictures.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace penstock::detail {

/// The eigenvectors of the covariance of all `side` x `side` patches of `images` (N x C x H x W), each divided by
/// sqrt(its eigenvalue + eps), and their negatives: 2 C side^2 filters x C x side x side, in the dtype of the images.
/// As in Jordan 2024, arXiv:2404.00498, sec. 3.2, after Page 2019, "How to train your ResNet", part 8; the mean is not
/// taken off, as there. Computed in f64; the sign of an eigenvector is that which LAPACK gives it.
///
/// Memory: that of the patches of 256 images.
torch::Tensor whitening_filters(const torch::Tensor& images, int64_t side, double eps = 5e-4);

}  // namespace penstock::detail
