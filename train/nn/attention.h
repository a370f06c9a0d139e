// Attention: multi-head self-attention.
#pragma once

#include <string>

#include "train/nn/layers.h"

namespace penstock {

/// softmax(Q K^T / sqrt(width / heads)) V for each head, and a linear layer after them (Vaswani et al. 2017, sec.
/// 3.2), with the parameters and initial values of torch.nn.MultiheadAttention: N x L x width -> N x L x width in the
/// dtype of the parameters. In half precision the products of both linear layers and of the heads are in it.
///
/// Requires that `heads` divides `width`. Memory: LibTorch's scaled_dot_product_attention() keeps no L x L weights
/// where its fused kernels run, as they do on the processor.
class AttentionImpl : public torch::nn::Module, public InPrecision {
 public:
  /// `path`: that of the module in its model, for detail::draw().
  AttentionImpl(const std::string& path, int64_t width, int64_t heads);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  int64_t heads_;
  torch::Tensor in_weight_, in_bias_;  // 3 width x width and 3 width: Q, K and V
  Linear out_{nullptr};
};
TORCH_MODULE(Attention);

}  // namespace penstock
