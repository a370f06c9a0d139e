// Optimizer: slots of zeros, and parameters grouped by their learning rate.
#include "train/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>

namespace penstock {
namespace {

thread_local size_t present_part = 0;  // the part that this thread is changing, of any optimiser

}  // namespace

torch::Tensor squared_norms_of_whole(const std::vector<std::vector<torch::Tensor>>& lists) {
  std::vector<torch::Tensor> columns;
  for (const auto& list : lists)
    columns.push_back(list.empty() ? torch::zeros({0}, torch::kFloat64)
                                   : at::stack(at::_foreach_norm(list)).to(torch::kFloat64).square());
  return at::stack(columns, /*dim=*/1);
}

Optimizer::Optimizer(OptimizerContext context, const std::vector<std::string>& slots, std::optional<int64_t> step_count)
    : context_(std::move(context)), state_{.slots = {}, .step_count = step_count}, parts_(context_.part_count) {
  if (context_.rate_factors.empty()) context_.rate_factors.assign(context_.parameters.size(), 1);
  if (context_.weight_decays.empty())
    context_.weight_decays.assign(context_.parameters.size(), context_.options.weight_decay);
  for (const auto& name : slots) state_.slots.push_back({name, {}});
  for (size_t i = 0; i < context_.parameters.size(); ++i) {
    const auto& parameter = context_.parameters[i];
    const double factor = context_.rate_factors[i], decay = context_.weight_decays[i];
    const bool are_vectors = !context_.are_vectors.empty() && context_.are_vectors[i] != 0;
    auto& groups = parts_[context_.parts.empty() ? 0 : context_.parts[i]];
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& one) {
      return one.rate_factor == factor && one.weight_decay == decay && one.are_vectors == are_vectors;
    });
    if (group == groups.end())
      group = groups.insert(groups.end(),
                            {factor, decay, are_vectors, {}, std::vector<std::vector<torch::Tensor>>(slots.size())});
    group->parameters.push_back(parameter);
    for (size_t slot = 0; slot < slots.size(); ++slot)
      group->slots[slot].push_back(state_.slots[slot].tensors.emplace_back(torch::zeros_like(parameter)));
  }
}

void Optimizer::clip() {
  if (!context_.clip.is_on()) return;
  at::NoGradGuard no_grad;
  const auto gradients = gradients_of(context_.parameters);
  gradient_norm_ = context_.sum_over_model(context_.squared_norms({gradients}).select(1, 0)).sqrt();
  clip_gradients(context_.clip, context_.parameters, gradients, gradient_norm_);
}

torch::Tensor Optimizer::overflow() const {
  at::NoGradGuard no_grad;
  const auto gradients = gradients_of(context_.parameters);
  if (gradients.empty()) return torch::zeros({}, torch::kFloat64);
  return at::stack(at::_foreach_norm(gradients, HUGE_VAL)).isfinite().all().logical_not().to(torch::kFloat64);
}

void Optimizer::step() {
  step_on([this](const auto& change) {
    for (size_t part = 0; part < parts_.size(); ++part) change(part);
  });
}

void Optimizer::step_on(const std::function<void(const std::function<void(size_t)>&)>& run) {
  clip();
  if (state_.step_count) ++*state_.step_count;
  run([this](size_t part) { update_part(part); });
}

void Optimizer::update_part(size_t part) {
  at::NoGradGuard no_grad;
  present_part = part;
  update();
}

size_t Optimizer::part() { return present_part; }

std::vector<torch::Tensor> Optimizer::gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const auto& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerContext& context) {
  return OptimizerRegistry::make(parse_spec(OptimizerKind::kName, context.options.spec), context);
}

}  // namespace penstock
