// Clipping: its three kinds.
#include "train/optimizers/clip.h"

#include <cmath>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"

namespace penstock {
namespace {

/// One number per filter, row or whole vector, with a shape that multiplies the tensor.
torch::Tensor unit_norms(const torch::Tensor& tensor) {
  const auto squares = tensor.detach().to(torch::kFloat64).square();
  if (tensor.dim() <= 1) return squares.sum().sqrt();
  std::vector<int64_t> sizes(static_cast<size_t>(tensor.dim()), 1);
  sizes[0] = tensor.size(0);
  return squares.flatten(1).sum(1).sqrt().view(sizes);
}

void clip_adaptively(double factor, const torch::Tensor& parameter, const torch::Tensor& gradient) {
  constexpr double kLeastParameter = 1e-3, kLeastGradient = 1e-6;
  const auto most = unit_norms(parameter).clamp_min(kLeastParameter).mul(factor);
  const auto norms = unit_norms(gradient);
  gradient.mul_(at::where(norms < most, 1.0, most / norms.clamp_min(kLeastGradient)).to(gradient.scalar_type()));
}

}  // namespace

ClipOptions parse_clip(const std::string& text) {
  if (text.empty()) return {};
  const size_t sign = text.find('=');
  const std::string name = text.substr(0, sign), number = sign == std::string::npos ? "" : text.substr(sign + 1);
  ClipOptions options{.text = text};
  if (name == "norm") options.kind = ClipOptions::Kind::kNorm;
  if (name == "value") options.kind = ClipOptions::Kind::kValue;
  if (name == "agc") options.kind = ClipOptions::Kind::kAgc;
  const auto most = parse_number<double>(number);
  if (!options.is_on() || !most)
    throw config_error(concat("--clip-grad is ", text, "; expected norm=1.0, value=0.5 or agc=0.01"));
  options.most = *most;
  if (!(options.most > 0 && std::isfinite(options.most)))
    throw config_error(concat("--clip-grad is ", text, "; expected a number of more than 0"));
  return options;
}

void clip_gradients(const ClipOptions& options, const std::vector<torch::Tensor>& parameters,
                    const std::vector<torch::Tensor>& gradients, const torch::Tensor& norm) {
  at::NoGradGuard no_grad;
  if (gradients.empty()) return;
  constexpr double kAddend = 1e-6;
  switch (options.kind) {
    case ClipOptions::Kind::kNone:
      return;
    case ClipOptions::Kind::kNorm: {
      const auto factor = (options.most / (norm + kAddend)).clamp_max(1).to(gradients.front().options());
      for (const auto& gradient : gradients) gradient.mul_(factor);
      return;
    }
    case ClipOptions::Kind::kValue:
      for (const auto& gradient : gradients) gradient.clamp_(-options.most, options.most);
      return;
    case ClipOptions::Kind::kAgc:
      for (size_t i = 0; i < gradients.size(); ++i) clip_adaptively(options.most, parameters[i], gradients[i]);
      return;
  }
}

}  // namespace penstock
