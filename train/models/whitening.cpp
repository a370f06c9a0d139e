// Whitening: covariance, eigenvectors, filters.
#include "train/models/whitening.h"

namespace penstock::detail {

torch::Tensor whitening_filters(const torch::Tensor& images, int64_t side, double eps) {
  at::NoGradGuard no_grad;
  constexpr int64_t kAtOnce = 256;
  const int64_t channels = images.size(1), size = channels * side * side;
  auto products = torch::zeros({size, size}, torch::kFloat64);
  int64_t patch_count = 0;
  for (const auto& some : images.cpu().to(torch::kFloat64).split(kAtOnce)) {
    // N x C x H' x W' x side x side -> patches x (C side side)
    const auto patches = some.unfold(2, side, 1).unfold(3, side, 1).permute({0, 2, 3, 1, 4, 5}).reshape({-1, size});
    products.add_(patches.t().mm(patches));
    patch_count += patches.size(0);
  }
  const auto [values, vectors] = at::linalg_eigh(products / patch_count);  // in ascending order; a vector per column
  const auto filters = (vectors / (values + eps).sqrt()).t().reshape({size, channels, side, side});
  return torch::cat({filters, -filters}).to(images.options());
}

}  // namespace penstock::detail
