// add_by_halves(): the order in which tensors of ranks are added, whoever adds them.
#pragma once

#include <torch/types.h>

#include <vector>

namespace penstock::detail {

/// The sum of all comes to the first one; the others are destroyed: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). With a
/// power of two of them these are the bits of TreeSum.
inline void add_by_halves(const std::vector<torch::Tensor>& tensors) {
  for (size_t stride = 1; stride < tensors.size(); stride *= 2)
    for (size_t i = 0; i + stride < tensors.size(); i += 2 * stride) {
      auto sum = tensors[i];
      sum.add_(tensors[i + stride]);
    }
}

}  // namespace penstock::detail
