// Layers: what half precision rounds on the way into a layer.
#include "train/nn/layers.h"

#include "train/nn/batch_norm.h"
#include "train/nn/rounding.h"
#include "train/nn/weight_gradients.h"

namespace penstock {
namespace {

using torch::Tensor;

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

/// Activations that are in half precision already have scaled gradients.
Tensor InPrecision::rounded(const Tensor& x) const {
  return x.scalar_type() == *precision_.dtype ? x : detail::rounded(x, *precision_.dtype, precision_.gradient_scale);
}

Tensor InPrecision::widened(const Tensor& x, torch::ScalarType dtype) const {
  return x.scalar_type() == dtype ? x : detail::widened(x, dtype, precision_.gradient_scale);
}

Tensor InPrecision::product(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
  if (!precision_.dtype) return torch::linear(x, weight, bias);
  const auto half = *precision_.dtype;
  const auto own_bias = bias.defined() ? detail::rounded(bias, half, precision_.gradient_scale) : bias;
  return torch::linear(rounded(x), detail::rounded(weight, half, precision_.gradient_scale), own_bias);
}

Tensor Conv2dImpl::forward(const Tensor& x) {
  if (!precision().dtype && !precision().is_channels_last) {
    auto* gradients = WeightGradients::current();
    if (gradients == nullptr || !keeps_factors(*this, x)) return torch::nn::Conv2dImpl::forward(x);
    return conv2d(*gradients, x, weight, bias, options.stride(), std::get<torch::ExpandingArray<2>>(options.padding()),
                  options.dilation(), options.groups());
  }
  const auto dtype = precision().dtype.value_or(weight.scalar_type());
  const double scale = precision().dtype ? precision().gradient_scale : 1;
  const auto own_weight = laid_out(detail::rounded(weight, dtype, scale), precision());
  const auto own_bias = bias.defined() ? detail::rounded(bias, dtype, scale) : bias;
  const auto input = precision().dtype ? rounded(x) : x;
  return torch::conv2d(input, own_weight, own_bias, options.stride(),
                       std::get<torch::ExpandingArray<2>>(options.padding()), options.dilation(), options.groups());
}

Tensor LinearImpl::forward(const Tensor& x) { return widened(forward_rounded(x), weight.scalar_type()); }

Tensor LinearImpl::forward_rounded(const Tensor& x) {
  auto* gradients = WeightGradients::current();
  const bool keeps = !precision().dtype && gradients != nullptr && x.dim() == 2 &&
                     keeps_factors(weight, x.size(0) * weight.size(0) + x.numel());
  return keeps ? linear(*gradients, x, weight, bias) : product(x, weight, bias);
}

Tensor LayerNormImpl::forward(const Tensor& x) {
  return torch::nn::LayerNormImpl::forward(widened(x, weight.scalar_type()));
}

void compute_in(torch::nn::Module& model, const Precision& precision) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* layer = dynamic_cast<InPrecision*>(module.get())) layer->compute_in(precision);
    if (auto* norm = dynamic_cast<BatchNorm2dImpl*>(module.get()))
      norm->take_scaled_gradients(precision.gradient_scale);
  }
}

}  // namespace penstock
