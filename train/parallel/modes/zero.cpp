// zero: as ddp, but each rank keeps the optimiser's state, with stage 2 also the gradients, and with stage 3 also the
// parameters, of its slice alone (Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion
// parameter models", sec. 5).
#include "core/text.h"
#include "train/parallel/engine/make_by_plan.h"
#include "train/parallel/modes/mode_keys.h"

namespace penstock {
namespace {

int stage_of(const Spec& spec) {
  const int stage = spec.get("stage", 1);
  if (stage < 1 || stage > 3) throw config_error(concat("--mode zero: stage is ", stage, "; expected 1, 2 or 3"));
  return stage;
}

StepPlan zero_plan(const Spec& spec, const MeshRequest& request) {
  const int ranks = request.ranks > 0 ? request.ranks : request.default_ranks, micro_shards = request.micro_shards;
  StepPlan plan{.mesh = {.data = ranks, .micro_shards = micro_shards}, .sums_gradients = true, .is_complete = true};
  plan.schedule.micro_batches = detail::accumulate_of(spec, request.batch_size, ranks, micro_shards);
  const int stage = stage_of(spec);
  plan.sharded = detail::ShardedKinds::of_stage(stage);
  if (stage == 3 && micro_shards == 0 && plan.schedule.micro_batches > 1)
    throw config_error(concat("--mode zero: stage is 3 and accumulate is ", plan.schedule.micro_batches,
                              "; expected stage 1 or 2: in stage 3 each backward gives its gradients back"));
  detail::check_takes_slices(spec, request);
  plan.syncs_batch_norm = detail::syncs_batch_norm(spec, micro_shards);
  plan.defers_batch_norm = detail::defers_batch_norm(spec, micro_shards);
  return plan;
}

const Registered<StrategyKind> kZero{
    "zero",
    {"stage", "accumulate", "deferred-bn", "sync-bn"},
    "as ddp, but each rank makes the update for its slice of the parameters: with stage 1 (the default) it keeps the "
    "optimiser's state of that slice alone, with stage 2 also the gradients, and with stage 3 also the parameters, "
    "which are gathered while they are used; accumulate (default 1, with stages 1 and 2) as of single; deferred-bn "
    "and sync-bn as of ddp",
    detail::make_by_plan,
    {.plan = zero_plan,
     .examples = {"zero(accumulate=2)", "zero(stage=2)", "zero(stage=2,accumulate=2)", "zero(stage=3)",
                  "zero(stage=3,sync-bn=true)"},
     .exact = StrategyKind::Exact::kPieces,
     .keeps_average = true}};

}  // namespace
}  // namespace penstock
