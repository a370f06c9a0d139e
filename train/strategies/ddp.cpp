// ddp: every rank holds the model and takes its rows of each global batch; gradients are summed in buckets during
// backward (Li et al. 2020, "PyTorch Distributed").
#include "train/strategies/engine.h"

namespace penstock {
namespace {

Mesh mesh_for(const Spec&, const MeshRequest& request) {
  return {.data = request.ranks > 0 ? request.ranks : request.default_ranks};
}

const Registered<StrategyKind> kRegistered{
    "ddp",
    {},
    "every rank holds the model; gradients are summed in buckets during backward",
    [](const Spec& spec, const StrategyContext& context) {
      return std::make_unique<detail::Engine>(
          context, detail::Choices{.mesh = mesh_for(spec, {.ranks = context.comm.world_size()}),
                                   .sync = detail::make_bucket_sync});
    },
    {.mesh = mesh_for}};

}  // namespace
}  // namespace penstock
