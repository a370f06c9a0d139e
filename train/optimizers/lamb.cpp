// lamb: AdamW whose step of each parameter is as large as the parameter, for large batches.
#include <algorithm>
#include <cmath>

#include "train/optimizers/moments.h"
#include "train/optimizers/optimizer.h"

namespace penstock {
namespace {

/// You et al. 2020, "Large batch optimization for deep learning: training BERT in 76 minutes", algorithm 2, with phi
/// the identity: m and v as in Adam; r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * p; p -=
/// learning_rate * |p| / |r| * r, with norms over a whole parameter. Deviation: where one of the norms is 0, their
/// ratio counts as 1, so that biases, which start as 0, begin to move. As in the paper, no parameter is exempt.
///
/// Memory: two slots, and during a step as much as the parameters once more.
class Lamb final : public Optimizer {
 public:
  Lamb(const Spec& spec, const OptimizerContext& context)
      : Optimizer(context, {"first_moment", "second_moment"}, /*step_count=*/0),
        moments_(detail::read_moments(spec, /*eps=*/1e-6)) {}

 private:
  void update() override {
    const auto& parameters = context().parameters;
    const auto steps = parameters.empty() ? std::vector<torch::Tensor>() : directions();
    const auto ratios = trust_ratios(steps);  // also without parameters: other ranks wait for this one
    if (parameters.empty()) return;
    std::vector<at::Scalar> rates;
    for (const double factor : context().rate_factors) rates.emplace_back(-context().options.learning_rate * factor);
    at::_foreach_addcmul_(parameters, steps, ratios.to(parameters.front().scalar_type()).unbind(), rates);
  }

  /// r of the formula, for each parameter.
  std::vector<torch::Tensor> directions() {
    const auto& parameters = context().parameters;
    const auto& first = state().slots[0].tensors;
    const auto& second = state().slots[1].tensors;
    const auto step = static_cast<double>(*state().step_count);
    const auto gradients = gradients_of(parameters);
    at::_foreach_lerp_(first, gradients, 1 - moments_.beta1);
    at::_foreach_mul_(second, moments_.beta2);
    at::_foreach_addcmul_(second, gradients, gradients, 1 - moments_.beta2);
    auto steps = at::_foreach_sqrt(second);
    at::_foreach_div_(steps, std::sqrt(1 - std::pow(moments_.beta2, step)));
    at::_foreach_add_(steps, moments_.eps);
    at::_foreach_reciprocal_(steps);
    at::_foreach_mul_(steps, first);
    at::_foreach_div_(steps, 1 - std::pow(moments_.beta1, step));
    add_weight_decay(steps);
    return steps;
  }

  void add_weight_decay(const std::vector<torch::Tensor>& steps) const {
    const auto& parameters = context().parameters;
    const auto& decays = context().weight_decays;
    if (std::adjacent_find(decays.begin(), decays.end(), std::not_equal_to<>()) == decays.end()) {
      at::_foreach_add_(steps, parameters, decays.front());
      return;
    }
    for (size_t i = 0; i < steps.size(); ++i) steps[i].add_(parameters[i], decays[i]);
  }

  /// |p| / |r| of the formula: f64, one entry per parameter. Collective where the parameters are pieces.
  torch::Tensor trust_ratios(const std::vector<torch::Tensor>& steps) const {
    const auto norms = context().squared_norms({context().parameters, steps}).sqrt();
    const auto of_parameters = norms.select(1, 0), of_steps = norms.select(1, 1);
    return at::where((of_parameters > 0) & (of_steps > 0), of_parameters / of_steps, 1.0);
  }

  detail::MomentOptions moments_;
};

const Registered<OptimizerKind> kLamb{
    "lamb",
    {"beta1", "beta2", "eps"},
    "AdamW whose step of each parameter is as large as the parameter, for large batches (You et al. 2020): beta1=0.9, "
    "beta2=0.999, eps=1e-6",
    [](const Spec& spec, const OptimizerContext& context) { return std::make_unique<Lamb>(spec, context); },
    {.learning_rate = 1e-3, .takes_pieces = true}};

}  // namespace
}  // namespace penstock
