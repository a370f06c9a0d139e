// Drops: a product with a mask.
#include "train/nn/drop.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "train/nn/row_draws.h"

namespace penstock {

DropImpl::DropImpl(double rate, int64_t layer, bool per_element)
    : rate_(rate), layer_(static_cast<uint32_t>(layer)), per_element_(per_element) {}

torch::Tensor DropImpl::forward(const torch::Tensor& x) {
  if (rate_ == 0) return x;
  if (RowScope::has_rows()) return x * detail::keep_factors(x, rate_, layer_, per_element_);
  if (is_training()) throw bug_error("a layer drops a share of its input; expected a RowScope around its forward");
  return x;
}

bool has_drops(const torch::nn::Module& model) {
  const auto modules = model.modules(/*include_self=*/false);
  return std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    const auto* drop = dynamic_cast<const DropImpl*>(module.get());
    return drop != nullptr && drop->rate() > 0;
  });
}

double detail::drop_path_rate(double rate, int64_t index, int64_t count) {
  return count < 2 ? 0 : rate * static_cast<double>(index) / static_cast<double>(count - 1);
}

double detail::drop_rate(const Spec& spec, const char* key) {
  const double rate = spec.get(key, 0.0);
  if (!(rate >= 0 && rate < 1))
    throw config_error(concat(spec.where(), ": ", key, " is ", rate, "; expected 0 to below 1"));
  return rate;
}

}  // namespace penstock
