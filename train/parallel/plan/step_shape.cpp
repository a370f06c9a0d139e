// Step shape: of the plan, the model and the batch.
#include "train/parallel/plan/step_shape.h"

#include <algorithm>

#include "train/parallel/pipeline/block_costs.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/sharding/sharded_parameters.h"
#include "train/parallel/strategy/buckets.h"
#include "train/parallel/strategy/stage_cuts.h"
#include "train/parallel/sync/power_sgd.h"

namespace penstock::detail {
namespace {

/// What a block costs, as its mode would measure it.
std::vector<BlockCost> costs_of(const MachineCosts& costs, const StepShape& shape, int threads) {
  std::vector<BlockCost> list;
  const auto pass = costs.pass(shape.rows, {.threads = threads, .joins = shape.pass_kind(threads).joins});
  for (size_t block = 0; block < pass.blocks.size(); ++block)
    list.push_back({1e3 * (pass.blocks[block].forward + pass.blocks[block].backward + pass.blocks[block].joined).alone,
                    costs.activation_bytes[block] * static_cast<double>(shape.rows)});
  return list;
}

/// As measured() would cut it.
std::vector<BlockRange> measured_stages(const PlannedMode& planned, const ModelFacts& model, const StepShape& shape,
                                        const MachineCosts& costs) {
  const auto cost = stage_cost(shape.plan, model, costs_of(costs, shape, planned.threads), planned.optimizer_slots);
  return balanced(model.blocks.size(), static_cast<size_t>(shape.plan.stage_count()), cost);
}

bool holds(const StepShape& shape, int pipe_rank, size_t block) {
  const auto& parts = shape.placed.placement.parts_of(pipe_rank);
  return std::any_of(parts.begin(), parts.end(), [&](int part) {
    const auto& range = shape.plan.stages[static_cast<size_t>(part)];
    return range.first <= block && block < range.end;
  });
}

struct Sent {
  double first = 0, second = 0;
};

/// What is summed of a gradient.
Sent sent_bytes(const Compression& compression, const ParameterFacts& parameter) {
  const auto bytes = static_cast<double>(parameter.bytes);
  if (compression.name == "fp16") return {.first = bytes / 2};
  if (compression.name.empty() || !PowerSgd(compression.rank).compresses(parameter.sizes)) return {.first = bytes};
  const auto rows = static_cast<double>(parameter.sizes[0]);
  const double columns = static_cast<double>(parameter.count()) / rows;
  return {.first = bytes * compression.rank / columns, .second = bytes * compression.rank / rows};
}

}  // namespace

int StepShape::local_steps() const {
  constexpr int kMost = 1000;  // a meeting in more steps is less than can be measured
  return plan.local ? std::min(plan.local->count, kMost) : 0;
}

PassKind StepShape::pass_kind(int threads) const {
  const bool splits = std::any_of(placed.ranks.begin(), placed.ranks.end(), [](const Schedule& schedule) {
    return std::any_of(schedule.begin(), schedule.end(),
                       [](const Operation& one) { return one.kind == Operation::Kind::kInputGradient; });
  });
  return {.threads = std::max(1, threads / plan.mesh.replicas),
          .joins = plan.schedule.micro_batches > 1,
          .splits = splits,
          .syncs = syncs()};
}

double held_bytes(const StepShape& shape, int pipe_rank, const std::vector<ParameterFacts>& parameters,
                  bool only_trained) {
  double bytes = 0;
  for (const auto& one : parameters)
    if ((one.is_trained || !only_trained) && holds(shape, pipe_rank, one.block))
      bytes += static_cast<double>(one.bytes);
  return bytes;
}

std::vector<GradientBucket> gradient_buckets(const StepShape& shape, int pipe_rank,
                                             const std::vector<ParameterFacts>& parameters) {
  std::vector<int64_t> bytes;
  std::vector<const ParameterFacts*> trained;
  for (const auto& one : parameters)
    if (one.is_trained && holds(shape, pipe_rank, one.block)) bytes.push_back(one.bytes), trained.push_back(&one);
  std::vector<GradientBucket> buckets;
  for (const auto& members : assign_buckets(bytes)) {
    auto& bucket = buckets.emplace_back();
    for (const size_t member : members) {
      const auto sent = sent_bytes(shape.plan.compression, *trained[member]);
      bucket.bytes += static_cast<double>(bytes[member]);
      bucket.sent_bytes += sent.first;
      bucket.second_bytes += sent.second;
      bucket.blocks.push_back(trained[member]->block);
    }
  }
  return buckets;
}

std::vector<ParameterUnit> parameter_units(const StepShape& shape, const std::vector<ParameterFacts>& parameters) {
  const BlockRange all = shape.plan.stages.front();
  if (!shape.plan.sharded.parameters) return {{.blocks = all}};
  std::vector<int64_t> block_bytes(all.end, 0);
  for (const auto& one : parameters) block_bytes[one.block] += one.bytes;
  std::vector<ParameterUnit> units;
  for (const auto& range : assign_units(block_bytes)) {
    auto& unit = units.emplace_back(ParameterUnit{.blocks = range});
    for (const auto& one : parameters)
      if (range.first <= one.block && one.block < range.end)
        (one.is_trained ? unit.trained_bytes : unit.frozen_bytes) += static_cast<double>(one.bytes);
  }
  return units;
}

std::string why_unpredictable(const PlannedMode& planned) {
  const StepPlan& plan = planned.plan;
  if (plan.mesh.micro_shards > 0) return "sums of --exact are not measured";
  if (!plan.is_complete) return "nothing is known of a mode of a plug-in";
  if (!plan.replicas.empty() && !plan.mesh.gpus.empty()) return "GPUs are not measured";
  if (plan.sharded.parameters && planned.emulation.step_ns > 0)
    return "an emulated step gathers no parameters where a real one does";
  return "";
}

std::optional<StepShape> shape_of_step(const PlannedMode& planned, const ModelFacts& model, const MachineCosts* costs) {
  if (!why_unpredictable(planned).empty()) return std::nullopt;
  StepShape shape{.plan = fitted(planned.plan, model), .placed = placed_schedules(planned.plan)};
  auto& plan = shape.plan;
  const int64_t pieces = int64_t{plan.mesh.data} * plan.mesh.replicas * plan.schedule.micro_batches;
  shape.rows = (planned.batch_size + pieces - 1) / pieces;
  // An emulated step has no layers.
  if (plan.syncs_batch_norm && planned.emulation.step_ns == 0) shape.synced_layers = model.batch_norms;
  if (!plan.has_stages()) plan.stages = {{0, model.blocks.size()}};
  if (plan.balance != Balance::kParameters && costs) plan.stages = measured_stages(planned, model, shape, *costs);
  return shape;
}

}  // namespace penstock::detail
