// Dropout and stochastic depth, with the same masks in every mode.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "core/spec.h"

namespace penstock {

/// Drops a share `rate` of its input and multiplies the rest by 1 / (1 - rate), by the masks of detail::keep_factors().
/// `layer` tells the layers of one model apart. With a rate of 0, or without a RowScope that has rows, it gives the
/// input itself. In training mode without rows forward() throws bug_error.
class DropImpl : public torch::nn::Module {
 public:
  torch::Tensor forward(const torch::Tensor& x);
  double rate() const { return rate_; }
  void stop() { rate_ = 0; }

 protected:
  DropImpl(double rate, int64_t layer, bool per_element);

 private:
  double rate_;
  uint32_t layer_;
  bool per_element_;
};

/// Element by element (Srivastava et al. 2014).
class DropoutImpl : public DropImpl {
 public:
  DropoutImpl(double rate, int64_t layer) : DropImpl(rate, layer, /*per_element=*/true) {}
};
TORCH_MODULE(Dropout);

/// Whole rows: stochastic depth (Huang et al. 2016), as torchvision.ops.StochasticDepth(rate, "row").
class DropPathImpl : public DropImpl {
 public:
  DropPathImpl(double rate, int64_t layer) : DropImpl(rate, layer, /*per_element=*/false) {}
};
TORCH_MODULE(DropPath);

/// Whether a layer of the model draws random numbers in training.
bool has_drops(const torch::nn::Module& model);

namespace detail {

/// The rate of branch `index` of `count`: from 0 at the first one straight to `rate` at the last one (Huang et al.
/// 2016, eq. 4, with a survival of 1 at the first).
double drop_path_rate(double rate, int64_t index, int64_t count);

/// The number under `key` of a model's spec, by default 0. Throws config_error unless it is from 0 to below 1.
double drop_rate(const Spec& spec, const char* key);

}  // namespace detail
}  // namespace penstock
