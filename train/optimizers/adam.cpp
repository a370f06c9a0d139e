// adam and adamw: steps of the size of the learning rate, whatever the size of the gradients.
#include "train/optimizers/moments.h"
#include "train/optimizers/optimizer.h"

namespace penstock {
namespace {

/// LibTorch's fused kernels: at::_fused_adam_ adds weight_decay * p to the gradient, at::_fused_adamw_ takes
/// learning_rate * weight_decay * p off the parameter.
using FusedStep = void (*)(at::TensorList parameters, at::TensorList gradients, at::TensorList first_moments,
                           at::TensorList second_moments, at::TensorList largest_second_moments,
                           at::TensorList step_counts, double learning_rate, double beta1, double beta2,
                           double weight_decay, double eps, bool amsgrad, bool maximize,
                           const std::optional<torch::Tensor>& gradient_scale,
                           const std::optional<torch::Tensor>& found_infinity);

/// Computes what torch.optim.Adam (Kingma and Ba 2015, algorithm 1, with weight decay as an L2 penalty) and
/// torch.optim.AdamW (Loshchilov and Hutter 2019, algorithm 2) do, without amsgrad: in step t, m = beta1 * m + (1 -
/// beta1) * g; v = beta2 * v + (1 - beta2) * g * g; p -= learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) +
/// eps). One fused call per factor of the learning rate.
class Adam final : public Optimizer {
 public:
  Adam(const Spec& spec, const OptimizerContext& context, FusedStep fused_step)
      : Optimizer(context, {"first_moment", "second_moment"}, /*step_count=*/0),
        moments_(detail::read_moments(spec, /*eps=*/1e-8)),
        fused_step_(fused_step) {
    if (context.parameters.empty()) return;
    const auto options = torch::dtype(torch::kFloat32).device(context.parameters.front().device());
    for (size_t part = 0; part < context.part_count; ++part) step_counts_.push_back(torch::zeros({}, options));
  }

 private:
  void update() override {
    if (groups().empty()) return;
    auto& step_count = step_counts_[part()];
    step_count.fill_(*state().step_count);
    for (const auto& group : groups()) {
      const std::vector<torch::Tensor> step_counts(group.parameters.size(), step_count);
      fused_step_(group.parameters, gradients_of(group.parameters), group.slots[0], group.slots[1], {}, step_counts,
                  learning_rate(group), moments_.beta1, moments_.beta2, group.weight_decay, moments_.eps,
                  /*amsgrad=*/false, /*maximize=*/false, {}, {});
    }
  }

  detail::MomentOptions moments_;
  FusedStep fused_step_;
  // One entry per part: an f32 scalar where the parameters are, as the kernels want it; exact up to 2^24 steps.
  std::vector<torch::Tensor> step_counts_;
};

const Registered<OptimizerKind> kAdam{
    "adam",
    {"beta1", "beta2", "eps"},
    "Adam (Kingma and Ba 2015), with weight decay as a part of the gradient: beta1=0.9, beta2=0.999, eps=1e-8",
    [](const Spec& spec, const OptimizerContext& context) {
      return std::make_unique<Adam>(spec, context, FusedStep{at::_fused_adam_});
    },
    {.learning_rate = 1e-3, .steps_in_parts = true, .takes_pieces = true}};

const Registered<OptimizerKind> kAdamw{
    "adamw",
    {"beta1", "beta2", "eps"},
    "Adam with decoupled weight decay (Loshchilov and Hutter 2019): beta1=0.9, beta2=0.999, eps=1e-8",
    [](const Spec& spec, const OptimizerContext& context) {
      return std::make_unique<Adam>(spec, context, FusedStep{at::_fused_adamw_});
    },
    {.learning_rate = 1e-3, .steps_in_parts = true, .takes_pieces = true}};

}  // namespace
}  // namespace penstock
