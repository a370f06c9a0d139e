// Layers: what half precision rounds on the way into a layer.
#include "train/nn/layers.h"

#include "train/nn/batch_norm.h"
#include "train/nn/rounding.h"
#include "train/nn/weight_gradients.h"

namespace penstock {
namespace {

using torch::Tensor;

/// What a half-precision layer takes. Activations that are in half precision already have scaled gradients.
Tensor taken(const Tensor& x, const Precision& precision) {
  return x.scalar_type() == *precision.dtype ? x : detail::rounded(x, *precision.dtype, precision.gradient_scale);
}

Tensor laid_out(const Tensor& weight, const Precision& precision) {
  return precision.is_channels_last ? weight.contiguous(at::MemoryFormat::ChannelsLast) : weight;
}

/// Whether the gradient of `weight` is made of several micro-batches whose factors have so many numbers each.
bool keeps_factors(const Tensor& weight, int64_t numbers) {
  return torch::GradMode::is_enabled() && weight.requires_grad() && WeightGradients::keeps(weight, numbers);
}

bool keeps_factors(const torch::nn::Conv2dImpl& layer, const Tensor& x) {
  const auto& options = layer.options;
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&options.padding());
  if (padding == nullptr || !std::holds_alternative<torch::enumtype::kZeros>(options.padding_mode()) || x.dim() != 4)
    return false;
  int64_t outputs = x.size(0) * layer.weight.size(0);
  for (const size_t side : {0, 1}) {
    const int64_t kernel = options.dilation()->at(side) * (layer.weight.size(2 + static_cast<int64_t>(side)) - 1) + 1;
    outputs *=
        (x.size(2 + static_cast<int64_t>(side)) + 2 * (*padding)->at(side) - kernel) / options.stride()->at(side) + 1;
  }
  return keeps_factors(layer.weight, x.numel() + outputs);
}

}  // namespace

Tensor Conv2dImpl::forward(const Tensor& x) {
  if (!precision_.dtype && !precision_.is_channels_last) {
    auto* gradients = WeightGradients::current();
    if (gradients == nullptr || !keeps_factors(*this, x)) return torch::nn::Conv2dImpl::forward(x);
    return conv2d(*gradients, x, weight, bias, options.stride(), std::get<torch::ExpandingArray<2>>(options.padding()),
                  options.dilation(), options.groups());
  }
  const auto dtype = precision_.dtype.value_or(weight.scalar_type());
  const double scale = precision_.dtype ? precision_.gradient_scale : 1;
  const auto own_weight = laid_out(detail::rounded(weight, dtype, scale), precision_);
  const auto own_bias = bias.defined() ? detail::rounded(bias, dtype, scale) : bias;
  const auto input = precision_.dtype ? taken(x, precision_) : x;
  return torch::conv2d(input, own_weight, own_bias, options.stride(),
                       std::get<torch::ExpandingArray<2>>(options.padding()), options.dilation(), options.groups());
}

Tensor LinearImpl::forward(const Tensor& x) {
  if (!precision_.dtype) {
    auto* gradients = WeightGradients::current();
    const bool keeps =
        gradients != nullptr && x.dim() == 2 && keeps_factors(weight, x.size(0) * weight.size(0) + x.numel());
    return keeps ? linear(*gradients, x, weight, bias) : torch::nn::LinearImpl::forward(x);
  }
  const auto half = *precision_.dtype;
  const double scale = precision_.gradient_scale;
  const auto own_bias = bias.defined() ? detail::rounded(bias, half, scale) : bias;
  const auto y = torch::linear(taken(x, precision_), detail::rounded(weight, half, scale), own_bias);
  return detail::widened(y, weight.scalar_type(), scale);
}

void compute_in(torch::nn::Module& model, const Precision& precision) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* conv = dynamic_cast<Conv2dImpl*>(module.get())) conv->compute_in(precision);
    if (auto* linear = dynamic_cast<LinearImpl*>(module.get())) linear->compute_in(precision);
    if (auto* norm = dynamic_cast<BatchNorm2dImpl*>(module.get()))
      norm->take_scaled_gradients(precision.gradient_scale);
  }
}

}  // namespace penstock
