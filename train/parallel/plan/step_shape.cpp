// Step shape: by the keys of the mode.
#include "train/parallel/plan/step_shape.h"

#include <algorithm>

#include "core/text.h"
#include "train/nn/batch_norm.h"
#include "train/nn/model.h"
#include "train/parallel/modes/mode_keys.h"
#include "train/parallel/modes/pipeline_plan.h"
#include "train/parallel/pipeline/block_costs.h"
#include "train/parallel/pipeline/stage_cuts.h"
#include "train/parallel/sharding/sharded_parameters.h"
#include "train/parallel/strategy/buckets.h"
#include "train/parallel/sync/power_sgd.h"

namespace penstock::detail {
namespace {

int64_t divided(int64_t rows, int64_t parts) { return (rows + parts - 1) / parts; }

/// One entry per block; empty: the model has none.
std::vector<int> batch_norm_layers(const Model& model) {
  std::vector<int> layers(model.blocks().size(), 0);
  bool has_any = false;
  for (const auto& item : model.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    if (!std::dynamic_pointer_cast<BatchNorm2dImpl>(item.value())) continue;
    ++layers[block_of(model, item.key() + ".weight")];
    has_any = true;
  }
  return has_any ? layers : std::vector<int>();
}

/// Every rank holds the model, or what zero(stage=3) leaves of it.
StepShape of_copies(const PlannedMode& planned, const Model& model) {
  const Mesh& mesh = planned.mesh;
  const Spec& spec = planned.spec;
  const int micro_batches = planned.spec.get("accumulate", 1);
  StepShape shape{.mesh = mesh, .micro_batches = micro_batches, .ranges = {{0, model.blocks().size()}}};
  shape.rows = divided(planned.batch_size, int64_t{mesh.data} * mesh.replicas * micro_batches);
  shape.schedules = {accumulation(micro_batches)};
  if (spec.name() == "single") return shape;
  if (spec.name() == "zero") shape.sharded_stage = spec.get("stage", 1);
  if (spec.name() == "ddp") shape.compression.name = spec.get("compress", "");
  if (spec.name() == "ddp" && spec.has("local-steps")) {
    constexpr int kMost = 1000;  // a meeting in more steps is less than can be measured
    shape.local_steps = std::min(spec.get("local-steps", 1), kMost);
    const bool is_nesterov = spec.get("outer", "sgd") == "nesterov";
    shape.outer_slots = is_nesterov ? 2 : spec.get("outer-rate", 1.0) != 1 ? 1 : 0;
  }
  if (shape.compression.name == "powersgd") shape.compression.rank = spec.get("rank", 2);
  // An emulated step has no layers.
  if (spec.get("sync-bn", false) && planned.emulation.step_ns == 0) shape.synced_layers = batch_norm_layers(model);
  return shape;
}

/// What a block costs, as its mode would measure it.
std::vector<BlockCost> costs_of(const MachineCosts& costs, const StepShape& shape, int threads) {
  std::vector<BlockCost> list;
  const auto pass = costs.pass(shape.rows, {.threads = threads, .joins = shape.pass_kind(threads).joins});
  for (size_t block = 0; block < pass.blocks.size(); ++block)
    list.push_back({1e3 * (pass.blocks[block].forward + pass.blocks[block].backward + pass.blocks[block].joined).alone,
                    costs.activation_bytes[block] * static_cast<double>(shape.rows)});
  return list;
}

std::vector<BlockRange> ranges_of(const PlannedMode& planned, const Model& model, const StepShape& shape,
                                  const MachineCosts* costs) {
  const std::string cut = planned.spec.get("cut", ""), where = flag(planned.spec);
  if (!cut.empty()) return cut_at(model, where, split(cut, ':'));
  const auto parts = static_cast<size_t>(shape.placement.part_count());
  const size_t blocks = model.blocks().size();
  if (parts > blocks)
    throw config_error(concat(where, ": ", parts, " stages of a model of ", blocks, " blocks; expected fewer stages"));
  const Balance balance = balance_named(where, planned.spec.get("balance", "parameters"));
  if (balance == Balance::kParameters || costs == nullptr) return balanced(blocks, parts, part_parameters(model));
  const auto measured = costs_of(*costs, shape, planned.threads);
  if (balance == Balance::kTime) return balanced(blocks, parts, part_ms(measured));
  std::vector<int> alive;
  for (int part = 0; part < shape.placement.part_count(); ++part) {
    const int rank = shape.placement.rank_of(part), chunks = static_cast<int>(shape.placement.parts_of(rank).size());
    alive.push_back((most_alive(shape.schedules[static_cast<size_t>(rank)]) + chunks - 1) / chunks);
  }
  const int copies = shape.mesh.data;
  const double beside = 1.0 / (shape.sharded_stage == 2 ? copies : 1) +
                        static_cast<double>(planned.optimizer_slots) / (shape.sharded_stage > 0 ? copies : 1);
  return balanced(blocks, parts, part_bytes(model, measured, alive, beside));
}

StepShape of_parts(const PlannedMode& planned, const Model& model, const MachineCosts* costs) {
  const SchedulePlan plan = plan_of(planned.spec, planned.mesh);
  StepShape shape{.mesh = planned.mesh, .micro_batches = plan.micro_batches, .placement = placement_of(plan)};
  shape.rows = divided(divided(planned.batch_size, planned.mesh.data), plan.micro_batches);
  shape.schedules = schedules_of(plan);
  for (const auto& schedule : shape.schedules)
    for (const auto& operation : schedule) shape.splits_backward |= operation.kind == Operation::Kind::kInputGradient;
  if (planned.spec.name() == "pipeline") shape.sharded_stage = planned.spec.get("zero", 0);
  shape.ranges = ranges_of(planned, model, shape, costs);
  return shape;
}

bool holds(const StepShape& shape, int pipe_rank, size_t block) {
  const auto& parts = shape.placement.parts_of(pipe_rank);
  return std::any_of(parts.begin(), parts.end(), [&](int part) {
    const auto& range = shape.ranges[static_cast<size_t>(part)];
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
  int64_t count = 1;
  for (const int64_t size : parameter.sizes) count *= size;
  const auto rows = static_cast<double>(parameter.sizes[0]);
  const double columns = static_cast<double>(count) / rows;
  return {.first = bytes * compression.rank / columns, .second = bytes * compression.rank / rows};
}

}  // namespace

PassKind StepShape::pass_kind(int threads) const {
  return {.threads = std::max(1, threads / mesh.replicas),
          .joins = micro_batches > 1,
          .splits = splits_backward,
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
      const auto sent = sent_bytes(shape.compression, *trained[member]);
      bucket.bytes += static_cast<double>(bytes[member]);
      bucket.sent_bytes += sent.first;
      bucket.second_bytes += sent.second;
      bucket.blocks.push_back(trained[member]->block);
    }
  }
  return buckets;
}

std::vector<ParameterUnit> parameter_units(const StepShape& shape, const std::vector<ParameterFacts>& parameters) {
  const BlockRange all = shape.ranges.front();
  if (shape.sharded_stage != 3) return {{.blocks = all}};
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

std::vector<ParameterFacts> facts_of(const Model& model) {
  std::vector<ParameterFacts> facts;
  for (const auto& item : model.named_parameters()) {
    const auto& tensor = item.value();
    facts.push_back({block_of(model, item.key()), tensor.numel() * static_cast<int64_t>(tensor.element_size()),
                     tensor.requires_grad(), tensor.sizes().vec()});
  }
  return facts;
}

std::string why_unpredictable(const PlannedMode& planned) {
  const Spec& spec = planned.spec;
  const std::string& name = spec.name();
  if (planned.mesh.shards > 0) return "sums of --exact are not measured";
  if (name == "dp") return planned.mesh.gpus.empty() ? "" : "GPUs are not measured";
  if (name == "single" || name == "mp" || name == "pipeline") return "";
  if (name != "ddp" && name != "zero") return "nothing is known of a mode of a plug-in";
  if (spec.get("step-in-backward", false)) return "updates are not simulated in the middle of backward";
  if (name == "zero" && spec.get("stage", 1) == 3 && planned.emulation.step_ns > 0)
    return "an emulated step gathers no parameters where a real one does";
  return "";
}

std::optional<StepShape> shape_of_step(const PlannedMode& planned, const Model& model, const MachineCosts* costs) {
  if (!why_unpredictable(planned).empty()) return std::nullopt;
  const std::string& name = planned.spec.name();
  if (name == "mp" || name == "pipeline") return of_parts(planned, model, costs);
  if (name == "dp")
    return StepShape{.mesh = planned.mesh,
                     .rows = divided(planned.batch_size, planned.mesh.replicas),
                     .ranges = {{0, model.blocks().size()}},
                     .schedules = {accumulation(1)}};
  return of_copies(planned, model);
}

}  // namespace penstock::detail
