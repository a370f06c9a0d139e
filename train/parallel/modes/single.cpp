// single: one rank does everything.
#include "core/text.h"
#include "train/parallel/engine/make_by_plan.h"
#include "train/parallel/modes/mode_keys.h"

namespace penstock {
namespace {

StepPlan single_plan(const Spec& spec, const MeshRequest& request) {
  if (request.ranks > 1)
    throw config_error(concat("--mode single: launched with ", request.ranks, " ranks; expected 1 (use --mode ddp)"));
  StepPlan plan{.mesh = {.micro_shards = request.micro_shards}, .can_be_captured = true, .is_complete = true};
  plan.schedule.micro_batches = detail::accumulate_of(spec, request.batch_size, /*ranks=*/1, request.micro_shards);
  plan.defers_batch_norm = detail::defers_batch_norm(spec, request.micro_shards);
  return plan;
}

const Registered<StrategyKind> kSingle{
    "single",
    {"accumulate", "deferred-bn"},
    "one rank does everything; its rows of a batch go through the model in accumulate (default 1) equal pieces, whose "
    "gradients add up to one update: --batch-size stays the samples per update; with deferred-bn=true BatchNorm's "
    "running statistics are those of the whole batch, once per step",
    detail::make_by_plan,
    {.plan = single_plan,
     .examples = {"single(accumulate=4)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true}};

}  // namespace
}  // namespace penstock
