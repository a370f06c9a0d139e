// What a line says about a run that diverged: what to try, the likeliest first.
#include "train/options/divergence.h"

#include <charconv>
#include <vector>

#include "core/text.h"

namespace penstock {
namespace {

/// Whether --layer-lr makes the rate of a layer larger. layers.cpp has checked the list.
bool has_larger_layer_rate(const std::string& layer_rates) {
  for (const auto& item : split(layer_rates, ',')) {
    const std::string factor = item.substr(item.find('=') + 1);
    double value = 0;
    std::from_chars(factor.data(), factor.data() + factor.size(), value);
    if (value > 1) return true;
  }
  return false;
}

}  // namespace

std::string text_of_divergence(const TrainOptions& options, const std::string& expected) {
  const Precision& precision = *options.precision;
  std::string fact = "the run diverged";
  std::vector<std::string> advice;
  if (precision.dtype == c10::kHalf) {
    constexpr double kSmallest = 1, kStep = 8;  // of the scale
    fact += concat(", or overflowed f16, where ", precision.gradient_scale,
                   " times a gradient, and every activation, must be below 65,504");
    if (precision.gradient_scale / kStep >= kSmallest)
      advice.push_back(concat("--precision 'f16(scale=", precision.gradient_scale / kStep, ")'"));
    advice.push_back("--precision bf16");
  }
  if (options.bias_rate > 1) advice.push_back(concat("a lower --bias-lr than ", options.bias_rate));
  if (has_larger_layer_rate(options.layer_rates))
    advice.push_back(concat("lower factors than --layer-lr ", options.layer_rates));
  advice.push_back(concat("a lower --lr than ", options.learning_rate));
  return concat(fact, "; expected ", expected, ", try ", join(advice, ", or "),
                " (earlier checkpoints are as they were)");
}

}  // namespace penstock
