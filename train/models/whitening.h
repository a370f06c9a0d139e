// Whitening: filters of a first convolution that are computed from pictures.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "train/nn/model.h"

namespace penstock::detail {

/// The eigenvectors of the covariance of all `side` x `side` patches of the pictures, each divided by sqrt(its
/// eigenvalue + eps), and their negatives: 2 C side^2 filters x C x side x side, f32. As in Jordan 2024,
/// arXiv:2404.00498, sec. 3.2, after Page 2019, "How to train your ResNet", part 8; the mean is not taken off, as
/// there. Computed in f64, batch after batch; the sign of an eigenvector is that which LAPACK gives it. Requires a
/// picture.
///
/// Memory: that of the patches of one batch, in f64: 8 side^2 bytes for each of its numbers.
torch::Tensor whitening_filters(const NextImages& next_images, int64_t side, double eps = 5e-4);

}  // namespace penstock::detail
