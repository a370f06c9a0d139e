// ddp: every rank holds the model and takes its rows of each global batch; gradients are summed in buckets during
// backward (Li et al. 2020, "PyTorch Distributed").
#include "train/strategies/engine.h"
#include "train/strategies/mode_keys.h"

namespace penstock {
namespace {

Mesh mesh_for(const Spec& spec, const MeshRequest& request) {
  const int ranks = request.ranks > 0 ? request.ranks : request.default_ranks;
  detail::accumulate_of(spec, request.batch_size, ranks);  // throws
  return {.data = ranks};
}

std::unique_ptr<Strategy> make_ddp(const Spec& spec, const StrategyContext& context) {
  const Mesh mesh = mesh_for(spec, {.ranks = context.comm.world_size()});
  const int micro_batches = detail::accumulate_of(spec, /*batch_size=*/0, mesh.data);
  return std::make_unique<detail::Engine>(
      context, detail::Choices{.mesh = mesh,
                               .micro_batches = micro_batches,
                               .schedule = detail::accumulation(micro_batches),
                               .sync = detail::make_bucket_sync});
}

const Registered<StrategyKind> kRegistered{
    "ddp",
    {"accumulate"},
    "every rank holds the model; gradients are summed in buckets during backward; accumulate (default 1) as of single",
    make_ddp,
    {.mesh = mesh_for}};

}  // namespace
}  // namespace penstock
