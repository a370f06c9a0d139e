// zero: as ddp, but each rank keeps the optimiser's state, and with stage 2 also the gradients, of its slice of the
// parameters alone (Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion parameter models",
// sec. 5).
#include "core/text.h"
#include "train/strategies/engine.h"

namespace penstock {
namespace {

int stage_of(const Spec& spec) {
  const int stage = spec.get("stage", 1);
  if (stage != 1 && stage != 2) throw config_error(concat("--mode zero: stage is ", stage, "; expected 1 or 2"));
  return stage;
}

Mesh mesh_for(const Spec& spec, const MeshRequest& request) {
  stage_of(spec);
  return {.data = request.ranks > 0 ? request.ranks : request.default_ranks};
}

std::unique_ptr<Strategy> make_zero(const Spec& spec, const StrategyContext& context) {
  const int stage = stage_of(spec);
  detail::Choices choices{.mesh = mesh_for(spec, {.ranks = context.comm.world_size()}),
                          .sliced = {.gradients = stage == 2, .optimizer = true}};
  if (stage == 1) {
    choices.sync = detail::make_bucket_sync;
    choices.update = [](const auto& update) { return detail::make_sliced_update(update); };
  } else {
    const auto slices = std::make_shared<detail::GradientSlices>();
    choices.sync = [slices](const auto& trained, Comm& data, Recorder& recorder, int backward_count) {
      return detail::make_scatter_sync(trained, data, recorder, backward_count, slices);
    };
    choices.update = [slices](const auto& update) { return detail::make_sliced_update(update, slices); };
  }
  return std::make_unique<detail::Engine>(context, choices);
}

const Registered<StrategyKind> kRegistered{
    "zero",
    {"stage"},
    "as ddp, but each rank makes the update for its slice of the parameters: with stage 1 (the default) it keeps the "
    "momentum of that slice alone, with stage 2 also the gradients",
    make_zero,
    {.mesh = mesh_for}};

}  // namespace
}  // namespace penstock
