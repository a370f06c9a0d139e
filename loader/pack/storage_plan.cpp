// StoragePlan: the cheapest form among those that reach the target.
#include "loader/pack/storage_plan.h"

#include <algorithm>
#include <cmath>

namespace penstock {
namespace {

constexpr double kMostNodes = 1e6;  // more are no advice

PlannedForm planned(const StorageForm& form, const PlanTarget& target) {
  PlannedForm plan;
  double most = 0;
  for (const auto& [workers, rate] : form.rates) {
    if (rate <= most) continue;
    most = rate;
    plan.workers = workers;
  }
  plan.most = most * target.nodes;
  plan.is_enough = plan.most >= target.images_per_second;
  const double wanted = std::min(most, target.images_per_second / target.nodes);
  for (int workers = form.rates.front().workers; workers < plan.workers; ++workers) {
    if (rate_of(form.rates, workers) < wanted) continue;
    plan.workers = workers;
    break;
  }
  return plan;
}

}  // namespace

double rate_of(const std::vector<WorkerRate>& rates, double workers) {
  if (workers <= rates.front().workers) return rates.front().images_per_second;
  for (size_t i = 1; i < rates.size(); ++i) {
    if (workers > rates[i].workers) continue;
    const double share = (workers - rates[i - 1].workers) / (rates[i].workers - rates[i - 1].workers);
    return rates[i - 1].images_per_second + share * (rates[i].images_per_second - rates[i - 1].images_per_second);
  }
  return rates.back().images_per_second;
}

StoragePlan plan_storage(const std::vector<StorageForm>& forms, const PlanTarget& target) {
  StoragePlan plan;
  for (const auto& form : forms) plan.forms.push_back(planned(form, target));
  for (size_t i = 0; i < forms.size(); ++i) {
    if (plan.forms[i].most > plan.forms[static_cast<size_t>(plan.nearest)].most) plan.nearest = static_cast<int>(i);
    if (!plan.forms[i].is_enough) continue;
    const auto& best = forms[static_cast<size_t>(std::max(plan.best, 0))];
    const bool is_better =
        plan.best < 0 || (forms[i].has_same_pixels && !best.has_same_pixels) ||
        (forms[i].has_same_pixels == best.has_same_pixels && forms[i].image_bytes < best.image_bytes);
    if (is_better) plan.best = static_cast<int>(i);
  }
  const double node_rate = plan.forms[static_cast<size_t>(plan.nearest)].most / target.nodes;
  const double nodes = node_rate > 0 ? std::ceil(target.images_per_second / node_rate) : 0;
  if (nodes <= kMostNodes) plan.nodes_needed = static_cast<int>(nodes);
  return plan;
}

}  // namespace penstock
