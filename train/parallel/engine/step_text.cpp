// Step text: by what the plan has.
#include "train/parallel/engine/step_text.h"

#include <algorithm>
#include <numeric>

#include "core/number_text.h"
#include "core/text.h"
#include "train/nn/module_names.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/pipeline/timeline.h"
#include "train/parallel/sharding/sharded_parameters.h"
#include "train/parallel/sync/power_sgd.h"

namespace penstock::detail {
namespace {

std::string text_of_replicas(const std::vector<int>& replicas, const torch::Device& output) {
  const std::string count = count_text(replicas.size(), "replica");
  if (output.is_cpu()) return concat("with ", count, " on threads of the CPU, which share the parameters");
  std::vector<std::string> names;
  for (const int gpu : replicas) names.push_back(concat("cuda:", gpu));
  return concat("with ", count, " on ", join(names), "; loss and update on ", output.str());
}

std::string text_of(const LocalSteps& steps) {
  const std::string alone = concat("that take ", count_text(steps.count, "step"), " alone, then ");
  if (steps.takes_mean()) return alone + "the mean of their parameters";
  return concat(alone, "an outer step of ", steps.is_nesterov ? "nesterov" : "sgd", " (rate ", steps.rate,
                steps.is_nesterov ? concat(", momentum ", steps.momentum) : "", ")");
}

/// "that send 2,266 numbers per step for 61,706 of gradients".
std::string text_of(const PowerSgd& power, const ModelFacts& model) {
  int64_t all = 0, sent = 0;
  for (const auto& parameter : model.parameters) {
    if (!parameter.is_trained) continue;
    all += parameter.count();
    sent += power.sent_count(parameter.sizes);
  }
  return concat("that send ", grouped(static_cast<uint64_t>(sent)), " numbers per step for ",
                grouped(static_cast<uint64_t>(all)), " of gradients");
}

/// "that keep 1 / 2 of the parameters each; 7 units of blocks are gathered in turn, the largest of 18.9 MB".
std::string text_of_slices(int ranks, const ModelFacts& model) {
  std::vector<int64_t> block_bytes(model.blocks.size(), 0);
  for (const auto& parameter : model.parameters) block_bytes[parameter.block] += parameter.bytes;
  int64_t largest = 0;
  const auto units = assign_units(block_bytes);
  for (const auto& unit : units)
    largest =
        std::max(largest, std::accumulate(block_bytes.begin() + static_cast<std::ptrdiff_t>(unit.first),
                                          block_bytes.begin() + static_cast<std::ptrdiff_t>(unit.end), int64_t{0}));
  return concat("that keep 1 / ", ranks, " of the parameters each; ", count_text(units.size(), "unit"), " of blocks ",
                units.size() == 1 ? "is" : "are", " gathered in turn, the largest of ",
                byte_text(static_cast<uint64_t>(largest)));
}

/// "stage 0: conv1..conv2 (2,572 parameters, 12 ms), ...".
std::string text_of_stages(const MeasuredPlan& all, const Model& model, const Placement& placement) {
  const auto parameters = part_parameters(facts_of(model));
  std::vector<std::string> stages;
  for (size_t stage = 0; stage < all.plan.stages.size(); ++stage) {
    const auto range = all.plan.stages[stage];
    const bool names_rank = all.plan.schedule.interleave > 1;
    stages.push_back(concat(
        "stage ", stage, names_rank ? concat(" at rank ", placement.rank_of(static_cast<int>(stage))) : "", ": ",
        blocks_text(model, range.first, range.end), " (", grouped(static_cast<uint64_t>(parameters(stage, range))),
        " parameters", all.costs.empty() ? "" : ", " + all.costs[stage], ")"));
  }
  return join(stages);
}

/// "as 2 data x 2 pipe, 1f1b, 4 micro-batches, bubble 20 %; stage 0: conv1..conv2 (2,572 parameters), ...".
std::string text_of_pipeline(const MeasuredPlan& all, const Model& model) {
  const auto& plan = all.plan;
  const auto& schedule = plan.schedule;
  const int zero = plan.sharded.stage();
  return concat("as ", plan.mesh.data, " data x ", plan.mesh.pipe, " pipe, ",
                schedule.takes_turns ? "in turn" : schedule.name, ", ",
                count_text(schedule.micro_batches, "micro-batch", "micro-batches"),
                schedule.recompute == Recompute::kNever ? "" : concat(", recompute ", name_of(schedule.recompute)),
                zero == 0 ? "" : concat(", zero ", zero), ", bubble ", percent_text(bubble_of(plan)), "; ",
                text_of_stages(all, model, placed_schedules(plan).placement));
}

}  // namespace

std::string step_text(const MeasuredPlan& measured, const Model& model, const torch::Device& device) {
  const auto& plan = measured.plan;
  if (!plan.replicas.empty()) return text_of_replicas(plan.replicas, device);
  if (plan.local) return text_of(*plan.local);
  if (plan.compression.name == "powersgd") return text_of(PowerSgd(plan.compression.rank), facts_of(model));
  if (plan.sharded.parameters) return text_of_slices(plan.mesh.data, facts_of(model));
  return plan.has_stages() ? text_of_pipeline(measured, model) : "";
}

double bubble_of(const StepPlan& plan) {
  if (!plan.has_stages()) return 0;
  const auto placed = placed_schedules(plan);
  return simulate(placed.ranks, placed.placement).bubble();
}

}  // namespace penstock::detail
