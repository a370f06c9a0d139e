// zero: as ddp, but each rank keeps the optimiser's state, with stage 2 also the gradients, and with stage 3 also the
// parameters, of its slice alone (Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion
// parameter models", sec. 5).
#include <algorithm>
#include <numeric>

#include "core/number_text.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/parallel/engine/engine.h"
#include "train/parallel/modes/mode_keys.h"
#include "train/parallel/modes/sharding_config.h"
#include "train/parallel/sharding/sharded_parameters.h"

namespace penstock {
namespace {

int stage_of(const Spec& spec) {
  const int stage = spec.get("stage", 1);
  if (stage < 1 || stage > 3) throw config_error(concat("--mode zero: stage is ", stage, "; expected 1, 2 or 3"));
  return stage;
}

Mesh zero_mesh(const Spec& spec, const MeshRequest& request) {
  const int ranks = request.ranks > 0 ? request.ranks : request.default_ranks;
  const int micro_batches = detail::accumulate_of(spec, request.batch_size, ranks, request.shards);
  if (stage_of(spec) == 3 && request.shards == 0 && micro_batches > 1)
    throw config_error(concat("--mode zero: stage is 3 and accumulate is ", micro_batches,
                              "; expected stage 1 or 2: in stage 3 each backward gives its gradients back"));
  detail::check_takes_slices(spec, request.optimizer, request.clip);
  detail::syncs_batch_norm(spec, request.shards);   // throws
  detail::defers_batch_norm(spec, request.shards);  // throws
  if (detail::steps_in_backward(spec, request.optimizer, request.shards, request.clip) && stage_of(spec) > 1)
    throw config_error(concat("--mode zero: step-in-backward is true and stage is ", stage_of(spec),
                              "; expected stage 1, where gradients are summed whole"));
  return {.data = ranks, .shards = request.shards};
}

/// "that keep 1 / 2 of the parameters each; 7 units of blocks are gathered in turn, the largest of 18.9 MB".
std::string text_of(const Model& model, int ranks) {
  std::vector<int64_t> stage_bytes(model.blocks().size(), 0);
  for (const auto& item : model.named_parameters())
    stage_bytes[detail::block_of(model, item.key())] += static_cast<int64_t>(item.value().nbytes());
  int64_t largest = 0;
  const auto units = detail::assign_units(stage_bytes);
  for (const auto& unit : units)
    largest =
        std::max(largest, std::accumulate(stage_bytes.begin() + static_cast<std::ptrdiff_t>(unit.first),
                                          stage_bytes.begin() + static_cast<std::ptrdiff_t>(unit.end), int64_t{0}));
  return concat("that keep 1 / ", ranks, " of the parameters each; ", count_text(units.size(), "unit"), " of blocks ",
                units.size() == 1 ? "is" : "are", " gathered in turn, the largest of ",
                byte_text(static_cast<uint64_t>(largest)));
}

EquivalenceGuarantee zero_promise(const Spec& spec, const Mesh& mesh) {
  return {.sees_whole_batches = detail::sees_whole_batches(spec, mesh.data)};
}

std::unique_ptr<Strategy> make_zero(const Spec& spec, const StrategyContext& context) {
  const int stage = stage_of(spec);
  const Mesh mesh = zero_mesh(
      spec, {.ranks = context.comm.world_size(), .shards = context.shards, .optimizer = context.optimizer.spec});
  const int micro_batches = detail::accumulate_of(spec, /*batch_size=*/0, mesh.data, mesh.shards);
  detail::StepConfig config{.mesh = mesh,
                            .micro_batches = micro_batches,
                            .schedule = detail::accumulation(micro_batches),
                            .syncs_batch_norm = detail::syncs_batch_norm(spec, mesh.shards),
                            .defers_batch_norm = detail::defers_batch_norm(spec, mesh.shards),
                            .steps_in_backward = detail::steps_in_backward(spec, context.optimizer.spec)};
  if (stage == 1) detail::shard_optimizer_state(config);
  if (stage == 2) detail::shard_gradients(config);
  if (stage == 3) detail::shard_parameters(config);
  if (stage == 3) config.text = text_of(context.model, mesh.data);
  return std::make_unique<detail::Engine>(context, config);
}

const Registered<StrategyKind> kZero{
    "zero",
    {"stage", "accumulate", "deferred-bn", "sync-bn", "step-in-backward"},
    "as ddp, but each rank makes the update for its slice of the parameters: with stage 1 (the default) it keeps the "
    "optimiser's state of that slice alone, with stage 2 also the gradients, and with stage 3 also the parameters, "
    "which are gathered while they are used; accumulate (default 1, with stages 1 and 2) as of single; deferred-bn, "
    "sync-bn, and with stage 1 step-in-backward, as of ddp",
    make_zero,
    {.mesh = zero_mesh,
     .check_model = detail::check_norms,
     .holds_part = [](const Spec& spec, const Mesh& mesh) { return stage_of(spec) == 3 && mesh.data > 1; },
     .promise = zero_promise,
     .examples = {"zero(accumulate=2)", "zero(step-in-backward=true)", "zero(stage=2)", "zero(stage=2,accumulate=2)",
                  "zero(stage=3)", "zero(stage=3,sync-bn=true)"},
     .exact = StrategyKind::Exact::kPieces,
     .keeps_average = true,
     .micro_batches = detail::accumulated_micro_batches}};

}  // namespace
}  // namespace penstock
