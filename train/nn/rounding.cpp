// Rounding: one autograd function for both directions.
#include "train/nn/rounding.h"

#include <torch/csrc/autograd/custom_function.h>

namespace penstock::detail {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

/// x in `dtype`; the gradient in the dtype of x, times `factor`.
class Converted : public torch::autograd::Function<Converted> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, torch::ScalarType dtype, double factor) {
    context->saved_data["dtype"] = static_cast<int64_t>(x.scalar_type());
    context->saved_data["factor"] = factor;
    return dtype == x.scalar_type() ? x.clone() : x.to(dtype);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto dtype = static_cast<torch::ScalarType>(context->saved_data["dtype"].toInt());
    const double factor = context->saved_data["factor"].toDouble();
    // The product is taken in f32, where it has room.
    auto gradient = gradients[0].to(at::promote_types(dtype, gradients[0].scalar_type()));
    return {(factor == 1 ? gradient : gradient * factor).to(dtype), Tensor(), Tensor()};
  }
};

Tensor converted(const Tensor& x, torch::ScalarType dtype, double factor) {
  if (!x.defined() || (x.scalar_type() == dtype && factor == 1)) return x;
  return factor == 1 ? x.to(dtype) : Converted::apply(x, dtype, factor);
}

}  // namespace

Tensor rounded(const Tensor& f32, torch::ScalarType dtype, double scale) { return converted(f32, dtype, 1 / scale); }
Tensor widened(const Tensor& half, torch::ScalarType dtype, double scale) { return converted(half, dtype, scale); }
Tensor unscaled(const Tensor& x, double scale) { return converted(x, x.scalar_type(), 1 / scale); }

}  // namespace penstock::detail
