// Predicted step: the costs of a machine that follow from one step of `single`.
#include "tools/train/study/predicted_step.h"

#include <algorithm>
#include <cmath>

#include "core/spec.h"
#include "train/parallel/plan/prediction.h"
#include "train/parallel/strategy/buckets.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {
namespace {

using detail::MachineCosts, detail::PlannedMode, detail::Work;

// So small that buckets of gradients are cut as those of a model are.
constexpr double kBlockBytes = detail::kOuterBucketBytes;

/// Stages that cost the same, each in as many blocks.
detail::ModelFacts equal_blocks(StepPlan& plan, double parameter_bytes) {
  const auto stages = static_cast<size_t>(plan.stage_count());
  const auto per_stage =
      static_cast<size_t>(std::max(1.0, std::ceil(parameter_bytes / kBlockBytes / static_cast<double>(stages))));
  detail::ModelFacts model;
  plan.balance = detail::Balance::kParameters;
  plan.cuts.clear();
  for (size_t block = 0; block < stages * per_stage; ++block) {
    model.blocks.push_back(std::to_string(block));
    const auto numbers = static_cast<int64_t>(parameter_bytes / 4 / static_cast<double>(stages * per_stage));
    model.parameters.push_back({.block = block, .bytes = 4 * numbers, .sizes = {numbers}});
    if (block > 0 && block % per_stage == 0) plan.cuts.push_back(model.blocks.back());
  }
  return model;
}

/// What `single` took, divided over `block_count` blocks and `piece_count` rows that cost the same. `slower`: how many
/// times as long a rank takes for the same work with its number of threads.
MachineCosts costs_of(const StepParts& single, const StepParts& own, const detail::PassKind& kind, double slower,
                      size_t block_count, int piece_count) {
  const auto of_block = [&](double ms) { return Work::of(1e-3 * ms * slower / static_cast<double>(block_count)); };
  MachineCosts costs;
  auto& pass = costs.passes.emplace_back();
  pass.rows = piece_count;
  pass.threads = kind.threads;
  pass.splits = true;
  const Work half = of_block(single.backward / 2);
  pass.blocks.assign(block_count, {of_block(single.forward), of_block(single.backward), half, half});
  costs.activation_bytes.assign(block_count, 0);
  costs.output_bytes.assign(block_count, own.activation_bytes);
  costs.compressions.emplace_back().compression.name = "fp16";
  costs.update = Work::of(1e-3 * single.optimizer * slower / std::max(1.0, single.parameter_bytes));
  costs.load = Work::of(1e-3 * single.load / piece_count);
  return costs;
}

}  // namespace

std::optional<double> predicted_step_ms(const std::string& mode, int ranks, const StepParts& single,
                                        const StepParts& own, const std::optional<NetworkModel>& net) {
  const Spec spec = parse_spec("mode", mode);
  if (spec.name() == "single") return single.total();
  if (!StrategyRegistry::entries().contains(spec.name())) return std::nullopt;
  PlannedMode planned{.plan = plan_of(spec, {.ranks = ranks}), .threads = static_cast<int>(own.threads), .prefetch = 0};
  auto& plan = planned.plan;
  if (plan.compression.name == "powersgd" || plan.syncs_batch_norm) return std::nullopt;
  plan.mesh.replicas = own.replicas;
  plan.mesh.gpus.clear();  // here they are as fast as `single` was
  planned.batch_size = plan.mesh.data * plan.mesh.replicas * plan.schedule.micro_batches;
  planned.emulation.network = net;
  if (single.is_emulated) planned.emulation.step_ns = std::llround(1e6 * (single.forward + single.backward));
  const auto model = equal_blocks(plan, single.parameter_bytes);
  const auto shape = detail::shape_of_step(planned, model, /*costs=*/nullptr);
  if (!shape) return std::nullopt;
  const auto kind = shape->pass_kind(planned.threads);
  const auto cores_of = [&](double threads) { return std::min(threads, single.cores); };
  const double slower = single.uses_cores ? cores_of(single.threads) / cores_of(kind.threads) : 1;
  auto costs = costs_of(single, own, kind, slower, model.blocks.size(), static_cast<int>(planned.batch_size));
  costs.cores = single.uses_cores ? single.cores : own.threads * plan.mesh.size() * plan.mesh.replicas;
  const double update = single.is_emulated ? single.optimizer : 0;  // otherwise the simulation has it
  return single.other + update + 1e3 * detail::predict(planned, *shape, costs, model.parameters).step_seconds;
}

std::vector<std::string> prediction_notes() {
  return {
      "simulated s: the total as train plan-modes simulates the step, from the phases of single in this study: stages "
      "take equally long, copies of the model share what single waited for its loader, ranks share the cores of this "
      "machine, and messages take what --sim-net says, without it no time. powersgd, sync-bn, zero(stage=3) with an "
      "emulated step and modes that are no plan have no prediction."};
}

}  // namespace penstock
