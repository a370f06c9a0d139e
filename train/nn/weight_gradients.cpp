// WeightGradients: what layers keep, and the two functions whose backward asks for it.
#include "train/nn/weight_gradients.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <optional>

namespace penstock {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

thread_local WeightGradients* t_current = nullptr;

void keep(AutogradContext* context, WeightGradients& gradients, const std::optional<Tensor>& bias) {
  context->saved_data["gradients"] = reinterpret_cast<int64_t>(&gradients);
  context->saved_data["has bias"] = bias && bias->defined();
}

WeightGradients& owner_of(AutogradContext* context) {
  return *reinterpret_cast<WeightGradients*>(context->saved_data["gradients"].toInt());
}

bool needs_bias_gradient(AutogradContext* context) {
  return context->saved_data["has bias"].toBool() && context->needs_input_grad(2);
}

struct Geometry {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;

  std::array<Tensor, 2> gradients(const Tensor& gradient, const Tensor& x, const Tensor& weight, bool of_x,
                                  bool of_weight) const {
    const auto both =
        at::convolution_backward(gradient, x, weight, c10::nullopt, stride, padding, dilation,
                                 /*transposed=*/false, /*output_padding=*/{0, 0}, groups, {of_x, of_weight, false});
    return {std::get<0>(both), std::get<1>(both)};
  }

  /// Where a large weight meets few places of the maps, as a product over unfolded maps: oneDNN brings the whole
  /// gradient into its order and back. A 3 x 3 convolution of 512 to 512 channels on 2 x 2 maps with 8 rows, one core:
  /// 1.5 in place of 5.9 ms, with the kernels of --exact 5.7 in place of 10.9; with 32 rows these two are equal.
  Tensor of_weight(const Tensor& gradient, const Tensor& x, const Tensor& weight) const {
    constexpr int64_t kMostPlaces = 128, kLeastWeights = int64_t{1} << 20;
    const int64_t places = gradient.size(0) * gradient.size(2) * gradient.size(3);
    if (places > kMostPlaces || weight.numel() < kLeastWeights || groups > 1 || !x.is_cpu())
      return gradients(gradient, x, weight, false, true)[1];
    const auto columns = at::im2col(x, weight.sizes().slice(2), dilation, padding, stride);  // N x I k k x places
    return gradient.transpose(0, 1)
        .reshape({weight.size(0), places})
        .mm(columns.transpose(1, 2).reshape({places, -1}))
        .view_as(weight);
  }
};

class Convolution : public torch::autograd::Function<Convolution> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, WeightGradients* gradients, const Geometry& geometry) {
    keep(context, *gradients, bias);
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = geometry.stride;
    context->saved_data["padding"] = geometry.padding;
    context->saved_data["dilation"] = geometry.dilation;
    context->saved_data["groups"] = geometry.groups;
    return at::conv2d(x, weight, bias, geometry.stride, geometry.padding, geometry.dilation, geometry.groups);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &gradient = output_gradients[0];
    const Geometry geometry{context->saved_data["stride"].toIntVector(), context->saved_data["padding"].toIntVector(),
                            context->saved_data["dilation"].toIntVector(), context->saved_data["groups"].toInt()};
    Tensor of_x, of_weight, of_bias;
    if (context->needs_input_grad(0)) of_x = geometry.gradients(gradient, x, weight, true, false)[0];
    if (context->needs_input_grad(1))
      of_weight =
          owner_of(context).add(weight, x, gradient, [weight, geometry](const Tensor& all_x, const Tensor& all) {
            return geometry.of_weight(all, all_x, weight);
          });
    if (needs_bias_gradient(context)) of_bias = gradient.sum({0, 2, 3});
    return {of_x, of_weight, of_bias, Tensor(), Tensor()};
  }
};

class LinearProduct : public torch::autograd::Function<LinearProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, WeightGradients* gradients) {
    keep(context, *gradients, bias);
    context->save_for_backward({x, weight});
    return at::linear(x, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &gradient = output_gradients[0];
    Tensor of_x, of_weight, of_bias;
    if (context->needs_input_grad(0)) of_x = gradient.mm(weight);
    if (context->needs_input_grad(1))
      of_weight = owner_of(context).add(weight, x, gradient,
                                        [](const Tensor& all_x, const Tensor& all) { return all.t().mm(all_x); });
    if (needs_bias_gradient(context)) of_bias = gradient.sum(0);
    return {of_x, of_weight, of_bias, Tensor()};
  }
};

}  // namespace

WeightGradients::Scope::Scope(WeightGradients* gradients) : before_(std::exchange(t_current, gradients)) {}
WeightGradients::Scope::~Scope() { t_current = before_; }
WeightGradients* WeightGradients::current() { return t_current; }

Tensor WeightGradients::Factors::take() {
  const Tensor whole =
      multiply(x.size() == 1 ? x[0] : torch::cat(x), x.size() == 1 ? gradients[0] : torch::cat(gradients));
  x.clear();
  gradients.clear();
  numbers = 0;
  return whole;
}

Tensor WeightGradients::add(const Tensor& weight, const Tensor& x, const Tensor& gradient, const Multiply& multiply) {
  const at::NoGradGuard no_grad;
  const void* key = weight.unsafeGetTensorImpl();
  auto& factors = kept_[{key, x.sizes().slice(1).vec()}];
  const int64_t more = x.numel() + gradient.numel();
  factors.weight = weight;
  factors.multiply = multiply;
  factors.x.push_back(x);
  factors.gradients.push_back(gradient);
  factors.numbers += more;
  if (!is_last_) return factors.numbers + more > weight.numel() ? factors.take() : Tensor();
  Tensor sum;
  for (auto one = kept_.lower_bound({key, {}}); one != kept_.end() && one->first.first == key; ++one)
    if (!one->second.x.empty()) sum = sum.defined() ? sum + one->second.take() : one->second.take();
  return sum;
}

bool WeightGradients::empty() const {
  return std::all_of(kept_.begin(), kept_.end(), [](const auto& one) { return one.second.x.empty(); });
}

void WeightGradients::finish() {
  const at::NoGradGuard no_grad;
  for (auto& [key, factors] : kept_) {
    if (factors.x.empty()) continue;
    auto& gradient = factors.weight.mutable_grad();
    if (!gradient.defined()) gradient = torch::zeros_like(factors.weight);  // with its strides, as optimisers expect
    gradient.add_(factors.take());
  }
  kept_.clear();
}

Tensor conv2d(WeightGradients& gradients, const Tensor& x, const Tensor& weight, const Tensor& bias,
              torch::IntArrayRef stride, torch::IntArrayRef padding, torch::IntArrayRef dilation, int64_t groups) {
  return Convolution::apply(x, weight, std::optional<Tensor>(bias), &gradients,
                            Geometry{stride.vec(), padding.vec(), dilation.vec(), groups});
}

Tensor linear(WeightGradients& gradients, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return LinearProduct::apply(x, weight, std::optional<Tensor>(bias), &gradients);
}

}  // namespace penstock
