// single: one rank does everything.
#include "core/text.h"
#include "train/parallel/engine/engine.h"
#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/modes/mode_keys.h"

namespace penstock {
namespace {

Mesh single_mesh(const Spec& spec, const MeshRequest& request) {
  if (request.ranks > 1)
    throw config_error(concat("--mode single: launched with ", request.ranks, " ranks; expected 1 (use --mode ddp)"));
  detail::accumulate_of(spec, request.batch_size, /*ranks=*/1, request.shards);  // throws
  detail::defers_batch_norm(spec, request.shards);                               // throws
  return {.shards = request.shards};
}

EquivalenceGuarantee single_promise(const Spec& spec, const Mesh&) {
  return {.sees_whole_batches = detail::accumulate_of(spec, /*batch_size=*/0, /*ranks=*/1) == 1};
}

std::unique_ptr<Strategy> make_single(const Spec& spec, const StrategyContext& context) {
  const Mesh mesh = single_mesh(spec, {.ranks = context.comm.world_size(), .shards = context.shards});
  const int micro_batches = detail::accumulate_of(spec, /*batch_size=*/0, /*ranks=*/1, mesh.shards);
  detail::StepConfig config{
      .mesh = mesh, .micro_batches = micro_batches, .schedule = detail::accumulation(micro_batches)};
  if (mesh.shards > 0) config.sync = detail::make_tree_sync;
  config.defers_batch_norm = detail::defers_batch_norm(spec, mesh.shards);
  config.can_be_captured = true;
  return std::make_unique<detail::Engine>(context, config);
}

const Registered<StrategyKind> kSingle{
    "single",
    {"accumulate", "deferred-bn"},
    "one rank does everything; its rows of a batch go through the model in accumulate (default 1) equal pieces, whose "
    "gradients add up to one update: --batch-size stays the samples per update; with deferred-bn=true BatchNorm's "
    "running statistics are those of the whole batch, once per step",
    make_single,
    {.mesh = single_mesh,
     .check_model = [](const Spec& spec, const Model& model, const Mesh&) { detail::check_deferred(spec, model); },
     .promise = single_promise,
     .examples = {"single(accumulate=4)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true,
     .micro_batches = detail::accumulated_micro_batches}};

}  // namespace
}  // namespace penstock
