// single: one rank does everything.
#include "core/text.h"
#include "train/strategies/engine.h"

namespace penstock {
namespace {

Mesh mesh_for(const Spec&, const MeshRequest& request) {
  if (request.ranks > 1)
    throw config_error(concat("--mode single: launched with ", request.ranks, " ranks; expected 1 (use --mode ddp)"));
  return {};
}

const Registered<StrategyKind> kRegistered{"single",
                                           {},
                                           "one rank does everything",
                                           [](const Spec& spec, const StrategyContext& context) {
                                             const Mesh mesh = mesh_for(spec, {.ranks = context.comm.world_size()});
                                             return std::make_unique<detail::Engine>(context,
                                                                                     detail::Choices{.mesh = mesh});
                                           },
                                           {.mesh = mesh_for}};

}  // namespace
}  // namespace penstock
