// Precision: layers that compute in half precision beside parameters, BatchNorm and losses in f32.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "train/nn/precision.h"

namespace penstock {

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

/// Tells all layers of a model. LibTorch's own layers, as those of other people's models may be, stay in f32; a run
/// says so (run/run_precision.h).
void compute_in(torch::nn::Module& model, const Precision& precision);

}  // namespace penstock
