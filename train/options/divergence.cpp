// What a line says about a run that diverged: what to try, the likeliest first.
#include "train/options/divergence.h"

#include <algorithm>
#include <vector>

#include "core/text.h"

namespace penstock {
std::string text_of_divergence(const TrainOptions& options, const std::string& expected) {
  const Precision& precision = *options.precision;
  std::string fact = "the run diverged";
  std::vector<std::string> advice;
  if (precision.dtype == c10::kHalf) {
    constexpr double kSmallest = 1, kStep = 8;  // of the scale
    fact += concat(", or overflowed f16, where ",
                   precision.adapts() ? "" : concat(precision.gradient_scale, " times a gradient, and "),
                   "every activation", precision.adapts() ? " " : ", ", "must be below 65,504");
    if (!precision.adapts() && precision.gradient_scale / kStep >= kSmallest)
      advice.push_back(concat("--precision 'f16(scale=", precision.gradient_scale / kStep, ")'"));
    advice.push_back("--precision bf16");
  }
  if (options.bias_rate > 1) advice.push_back(concat("a lower --bias-lr than ", options.bias_rate));
  const auto& rates = *options.layer_rates;
  if (std::any_of(rates.begin(), rates.end(), [](const auto& rate) { return rate.second > 1; }))
    advice.push_back(concat("lower factors than --layer-lr ", options.layer_rates));
  advice.push_back(concat("a lower --lr than ", options.learning_rate));
  return concat(fact, "; expected ", expected, ", try ", join(advice, ", or "),
                " (earlier checkpoints are as they were)");
}

}  // namespace penstock
