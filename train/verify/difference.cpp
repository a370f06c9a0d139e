// Differences: by tensor, and of norms.
#include "train/verify/difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest_element(const torch::Tensor& tensor) { return tensor.to(torch::kFloat64).abs().max().item<double>(); }

/// What a difference in this tensor is relative to.
double scale_of(const std::string& name, const StateDict& state) {
  const double own = largest_element(state.at(name));
  const std::string optimizer = "optimizer.";  // optimizer.momentum.fc1.weight
  const auto dot = name.starts_with(optimizer) ? name.find('.', optimizer.size()) : std::string::npos;
  const auto parameter = dot == std::string::npos ? state.end() : state.find("model." + name.substr(dot + 1));
  return parameter == state.end() ? own : std::max(own, largest_element(parameter->second));
}

double squared_norm(const torch::Tensor& tensor) { return tensor.to(torch::kFloat64).square().sum().item<double>(); }

}  // namespace

Difference largest_difference(const StateDict& expected, const StateDict& state) {
  Difference largest;
  for (const auto& [name, tensor] : expected) {
    if (!state.contains(name)) return {kInfinity, name};
    if (tensor.numel() == 0) continue;
    const double difference = largest_element(tensor.to(torch::kFloat64) - state.at(name).to(torch::kFloat64));
    if (difference == 0) continue;
    const double relative = difference / scale_of(name, expected);
    if (!std::isfinite(relative)) return {kInfinity, name};
    if (relative > largest.relative) largest = {relative, name};
  }
  for (const auto& [name, tensor] : state)
    if (!expected.contains(name)) return {kInfinity, name};
  return largest;
}

double gradient_difference(const StateDict& expected, const StateDict& state) {
  const std::string momentum = "optimizer.momentum.", model = "model.";
  double differences = 0, norms = 0;
  for (const auto& [name, gradient] : expected) {
    if (!name.starts_with(momentum)) continue;
    const std::string parameter = model + name.substr(momentum.size());
    const std::string& compared = state.contains(name) ? name : parameter;
    if (!state.contains(compared)) return kInfinity;
    differences += squared_norm(expected.at(compared).to(torch::kFloat64) - state.at(compared).to(torch::kFloat64));
    norms += squared_norm(gradient);
  }
  const double relative = std::sqrt(differences / norms);
  return std::isfinite(relative) ? relative : kInfinity;
}

}  // namespace penstock
