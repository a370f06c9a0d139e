// Attention: heads are views of one product.
#include "train/nn/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/init.h>

#include <utility>
#include <vector>

#include "train/nn/initial_weights.h"

namespace penstock {

using torch::Tensor;

AttentionImpl::AttentionImpl(const std::string& path, int64_t width, int64_t heads) : heads_(heads) {
  namespace init = torch::nn::init;
  in_weight_ = register_parameter("in_proj_weight", torch::empty({3 * width, width}));
  detail::draws_later(in_weight_);
  detail::draw(path + ".in_proj_weight", in_weight_, [](Tensor weight) { init::xavier_uniform_(std::move(weight)); });
  in_bias_ = register_parameter("in_proj_bias", torch::zeros({3 * width}));
  out_ = register_module("out_proj", Linear(width, width));
  init::zeros_(out_->bias);
  detail::drawn(path + ".out_proj", *out_);
}

Tensor AttentionImpl::forward(const Tensor& x) {
  const int64_t rows = x.size(0), tokens = x.size(1), width = x.size(2);
  std::vector<Tensor> heads;  // Q, K and V: N x heads x L x width / heads
  for (const auto& part : product(x, in_weight_, in_bias_).chunk(3, -1))
    heads.push_back(part.view({rows, tokens, heads_, width / heads_}).transpose(1, 2));
  const auto mixed = at::scaled_dot_product_attention(heads[0], heads[1], heads[2]);
  return out_(mixed.transpose(1, 2).reshape({rows, tokens, width}));
}

}  // namespace penstock
