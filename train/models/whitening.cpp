// Whitening: covariance, eigenvectors, filters.
#include "train/models/whitening.h"

#include "core/error.h"

namespace penstock::detail {

torch::Tensor whitening_filters(const NextImages& next_images, int64_t side, double eps) {
  at::NoGradGuard no_grad;
  torch::Tensor products;
  int64_t patch_count = 0, channels = 0;
  for (auto images = next_images(); images.defined(); images = next_images()) {
    channels = images.size(1);
    // N x C x H x W -> N x C x H' x W' x side x side -> patches x (C side side)
    const auto patches = images.unfold(2, side, 1)
                             .unfold(3, side, 1)
                             .permute({0, 2, 3, 1, 4, 5})
                             .reshape({-1, channels * side * side})
                             .to(torch::kFloat64);
    const auto product = patches.t().mm(patches);
    products = products.defined() ? products.add_(product) : product;
    patch_count += patches.size(0);
  }
  if (patch_count == 0) throw bug_error("whitening_filters: no picture; expected one or more");
  const auto [values, vectors] = at::linalg_eigh(products / patch_count);  // in ascending order; a vector per column
  const auto filters = (vectors / (values + eps).sqrt()).t().reshape({-1, channels, side, side});
  return torch::cat({filters, -filters}).to(torch::kFloat32);
}

}  // namespace penstock::detail
