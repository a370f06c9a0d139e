// Precision: layers that compute in half precision beside parameters, BatchNorm and losses in f32.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "train/nn/precision.h"

namespace penstock {

/// What layers have that follow --precision.
class InPrecision {
 public:
  virtual ~InPrecision() = default;
  void compute_in(const Precision& precision) { precision_ = precision; }

 protected:
  const Precision& precision() const { return precision_; }
  /// What a half-precision layer takes. Requires Precision::dtype.
  torch::Tensor rounded(const torch::Tensor& x) const;
  /// `x` in the dtype of parameters, which differs where it comes from a half-precision layer.
  torch::Tensor widened(const torch::Tensor& x, torch::ScalarType dtype) const;
  /// torch::linear(), in half precision with an output in it.
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) const;

 private:
  Precision precision_;
};

/// In f32: LibTorch's layer, to the bit. In half precision: input and parameters are rounded to `dtype`, and so is the
/// output.
class Conv2dImpl : public torch::nn::Conv2dImpl, public InPrecision {
 public:
  using torch::nn::Conv2dImpl::Conv2dImpl;
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(Conv2d);

/// The same, with an output in the dtype of the parameters: logits, and so the loss, are f32.
class LinearImpl : public torch::nn::LinearImpl, public InPrecision {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  torch::Tensor forward(const torch::Tensor& x);
  /// As forward(), but the output stays in half precision, for a layer that is followed by another one.
  torch::Tensor forward_rounded(const torch::Tensor& x);
};
TORCH_MODULE(Linear);

/// Over the last dimension, with an eps of 1e-6: LibTorch's layer, to the bit, in f32 whatever x is in.
class LayerNormImpl : public torch::nn::LayerNormImpl, public InPrecision {
 public:
  explicit LayerNormImpl(int64_t width) : torch::nn::LayerNormImpl(torch::nn::LayerNormOptions({width}).eps(1e-6)) {}
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(LayerNorm);

/// Tells all layers of a model. LibTorch's own layers, as those of other people's models may be, stay in f32; a run
/// says so (run/run_precision.h).
void compute_in(torch::nn::Module& model, const Precision& precision);

}  // namespace penstock
