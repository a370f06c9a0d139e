// Precision: layers that compute in half precision beside parameters, BatchNorm and losses in f32.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <optional>
#include <string>

namespace penstock {

/// What convolutions and linear layers compute in. Without a dtype in that of their parameters.
struct Precision {
  std::optional<torch::ScalarType> dtype = {};
  /// Loss scaling (Micikevicius et al. 2018, arXiv:1710.03740, sec. 3.2): gradients between half-precision tensors are
  /// this many times as large, so that fewer of them round to 0; those of parameters and of f32 tensors are not.
  /// Deviation: the scale is applied where a gradient enters the half-precision layers, and taken off in each layer,
  /// and so holds in every mode; it does not change in the run. A power of two changes no bit but by range.
  double gradient_scale = 1;
  bool is_channels_last = false;  // filters, and so the maps, lie in memory as N x H x W x C
};

/// What --precision says: f32, tf32, bf16, f16 or f16(scale=1024). Throws config_error.
Precision parse_precision(const std::string& text);

/// In f32: LibTorch's layer, to the bit. In half precision: input and parameters are rounded to `dtype`, and so is the
/// output.
class Conv2dImpl : public torch::nn::Conv2dImpl {
 public:
  using torch::nn::Conv2dImpl::Conv2dImpl;
  torch::Tensor forward(const torch::Tensor& x);
  void compute_in(const Precision& precision) { precision_ = precision; }

 private:
  Precision precision_;
};
TORCH_MODULE(Conv2d);

/// The same, with an output in the dtype of the parameters: logits, and so the loss, are f32.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  torch::Tensor forward(const torch::Tensor& x);
  void compute_in(const Precision& precision) { precision_ = precision; }

 private:
  Precision precision_;
};
TORCH_MODULE(Linear);

/// Tells all layers of a model. LibTorch's own layers, as those of other people's models may be, stay in f32.
void compute_in(torch::nn::Module& model, const Precision& precision);

}  // namespace penstock
