// ddp: every rank holds the model and takes its rows of each global batch; gradients are summed in buckets during
// backward (Li et al. 2020, "PyTorch Distributed"), or with local-steps parameters are averaged now and then.
#include <cmath>
#include <optional>

#include "core/number_text.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/parallel/engine/engine.h"
#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/modes/mode_keys.h"
#include "train/parallel/sync/bucket_sync.h"
#include "train/parallel/sync/compressed_sync.h"
#include "train/parallel/sync/local_steps.h"
#include "train/parallel/sync/power_sgd.h"

namespace penstock {
namespace {

using detail::LocalSteps, detail::PowerSgd;

std::string compression_of(const Spec& spec, int shards) {
  const std::string name = spec.get("compress", "");
  if (!name.empty() && shards > 0)
    throw config_error(concat(detail::flag(spec), ": compress is ", name, " with --exact ", shards,
                              "; expected one of them: compressed gradients have an error"));
  if (!name.empty() && name != "fp16" && name != "powersgd")
    throw config_error(concat(detail::flag(spec), ": ", unknown_name("compression", name, {"fp16", "powersgd"})));
  if (name != "powersgd" && spec.has("rank"))
    throw config_error(concat(detail::flag(spec), ": rank is ", spec.get("rank", ""),
                              ", which is of compress=powersgd; expected that, or no rank"));
  return name;
}

int rank_of(const Spec& spec) { return detail::at_least_one(spec, "rank", 2); }

LocalSteps outer_of(const Spec& spec) {
  LocalSteps steps{.count = detail::at_least_one(spec, "local-steps", 1)};
  const std::string outer = spec.get("outer", "sgd");
  if (outer != "sgd" && outer != "nesterov")
    throw config_error(concat(detail::flag(spec), ": ", unknown_name("outer optimiser", outer, {"sgd", "nesterov"})));
  steps.is_nesterov = outer == "nesterov";
  steps.rate = spec.get("outer-rate", steps.is_nesterov ? 0.7 : 1.0);  // Douillard et al. 2023, sec. 3.1
  if (!(steps.rate > 0) || !std::isfinite(steps.rate))
    throw config_error(concat(detail::flag(spec), ": outer-rate is ", steps.rate, "; expected a number above 0"));
  if (!steps.is_nesterov && spec.has("outer-momentum"))
    throw config_error(concat(detail::flag(spec), ": outer-momentum is ", spec.get("outer-momentum", ""),
                              ", which is of outer=nesterov; expected that, or no outer-momentum"));
  steps.momentum = steps.is_nesterov ? spec.get("outer-momentum", 0.9) : 0;
  if (!(steps.momentum >= 0 && steps.momentum < 1))
    throw config_error(
        concat(detail::flag(spec), ": outer-momentum is ", steps.momentum, "; expected 0 or more, below 1"));
  return steps;
}

/// None: ranks sum their gradients in every step.
std::optional<LocalSteps> local_steps_of(const Spec& spec, int shards) {
  if (!spec.has("local-steps")) {
    for (const char* key : {"outer", "outer-rate", "outer-momentum"})
      if (spec.has(key))
        throw config_error(concat(detail::flag(spec), ": ", key, " is ", spec.get(key, ""),
                                  ", which is of local-steps; expected local-steps, or no ", key));
    return std::nullopt;
  }
  const LocalSteps steps = outer_of(spec);
  const auto refuse = [&](const std::string& what, const char* why) {
    throw config_error(
        concat(detail::flag(spec), ": local-steps is ", steps.count, " with ", what, "; expected one of them: ", why));
  };
  if (shards > 0) refuse(concat("--exact ", shards), "weights of ranks that take steps alone are not those of single");
  if (spec.has("compress")) refuse("compress=" + spec.get("compress", ""), "no gradients are sent");
  if (spec.get("step-in-backward", false)) refuse("step-in-backward=true", "no update waits for a sum of gradients");
  if (spec.get("deferred-bn", false)) refuse("deferred-bn=true", "BatchNorm would wait for all ranks in every step");
  if (spec.get("sync-bn", false)) refuse("sync-bn=true", "BatchNorm would wait for all ranks in every step");
  return steps;
}

Mesh ddp_mesh(const Spec& spec, const MeshRequest& request) {
  const int ranks = request.ranks > 0 ? request.ranks : request.default_ranks;
  detail::accumulate_of(spec, request.batch_size, ranks, request.shards);  // throws
  detail::syncs_batch_norm(spec, request.shards);                          // throws
  detail::defers_batch_norm(spec, request.shards);                         // throws
  local_steps_of(spec, request.shards);                                    // throws
  const std::string compression = compression_of(spec, request.shards);
  if (compression == "powersgd") rank_of(spec);  // throws
  if (detail::steps_in_backward(spec, request.optimizer, request.shards, request.clip) && !compression.empty())
    throw config_error(concat("--mode ddp: step-in-backward is true and compress is ", compression,
                              "; expected one of them: compressed sums are unpacked after backward"));
  return {.data = ranks, .shards = request.shards};
}

/// Compression to 16 bits rounds every rank's gradient by up to 2^-11, which adds up where they point the same way; a
/// gradient of products of thin matrices is a projection.
EquivalenceGuarantee ddp_promise(const Spec& spec, const Mesh& mesh) {
  const std::string compression = compression_of(spec, mesh.shards);
  const double error = compression.empty() ? 0 : compression == "fp16" ? mesh.data / 2048.0 : 1;
  const auto local = local_steps_of(spec, mesh.shards);
  return {.sees_whole_batches = detail::sees_whole_batches(spec, mesh.data),
          .compression_error = error,
          .averages_parameters = local.has_value(),
          .holds_for_many_steps = !local || (local->count == 1 && local->takes_mean())};
}

/// "that send 2,266 numbers per step for 61,706 of gradients".
std::string text_of(const Model& model, const PowerSgd& power) {
  int64_t all = 0, sent = 0;
  for (const auto& parameter : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    all += parameter.numel();
    sent += power.sent_count(parameter.sizes());
  }
  return concat("that send ", grouped(static_cast<uint64_t>(sent)), " numbers per step for ",
                grouped(static_cast<uint64_t>(all)), " of gradients");
}

void choose_sync(const Spec& spec, const Model& model, detail::StepConfig& config) {
  if (const auto local = local_steps_of(spec, config.mesh.shards)) {
    config.text = local->text();
    config.local_steps = local->count;
    config.update = [steps = *local](const auto& update) { return detail::make_local_update(update, steps); };
    config.sync = detail::make_local_sync;
    return;
  }
  const std::string name = compression_of(spec, config.mesh.shards);
  config.sync = config.mesh.shards > 0 ? detail::make_tree_sync : detail::make_bucket_sync;
  if (name.empty()) return;
  detail::MakeCodec codec = detail::make_half_codec;
  if (name == "powersgd") {
    const PowerSgd power(rank_of(spec));
    config.text = text_of(model, power);
    codec = power;
  }
  config.sync = [name, codec](const auto& sync) { return detail::make_compressed_sync(sync, name, codec); };
}

std::unique_ptr<Strategy> make_ddp(const Spec& spec, const StrategyContext& context) {
  const Mesh mesh = ddp_mesh(
      spec, {.ranks = context.comm.world_size(), .shards = context.shards, .optimizer = context.optimizer.spec});
  const int micro_batches = detail::accumulate_of(spec, /*batch_size=*/0, mesh.data, mesh.shards);
  detail::StepConfig config{
      .mesh = mesh, .micro_batches = micro_batches, .schedule = detail::accumulation(micro_batches)};
  config.syncs_batch_norm = detail::syncs_batch_norm(spec, mesh.shards);
  config.defers_batch_norm = detail::defers_batch_norm(spec, mesh.shards);
  config.steps_in_backward = detail::steps_in_backward(spec, context.optimizer.spec);
  choose_sync(spec, context.model, config);
  return std::make_unique<detail::Engine>(context, config);
}

const Registered<StrategyKind> kDdp{
    "ddp",
    {"accumulate", "deferred-bn", "sync-bn", "compress", "rank", "step-in-backward", "local-steps", "outer",
     "outer-rate", "outer-momentum"},
    "every rank holds the model; gradients are summed in buckets during backward; accumulate (default 1) and "
    "deferred-bn as of single, the latter over all ranks; "
    "with sync-bn=true BatchNorm sees the rows of all ranks; "
    "compress=fp16 sends gradients in 16 bits, compress=powersgd as products of two thin matrices of rank (default 2) "
    "columns; with step-in-backward=true the update of a bucket runs as soon as its sum is there; with local-steps=H "
    "ranks take H steps alone, and then meet by outer=sgd (default; outer-rate 1: the mean of their weights) or "
    "outer=nesterov (outer-rate 0.7, outer-momentum 0.9: DiLoCo)",
    make_ddp,
    {.mesh = ddp_mesh,
     .check_model = detail::check_norms,
     .promise = ddp_promise,
     .examples = {"ddp(accumulate=2)", "ddp(step-in-backward=true)", "ddp(sync-bn=true)", "ddp(compress=fp16)",
                  "ddp(compress=powersgd)", "ddp(local-steps=1)", "ddp(local-steps=4,outer=nesterov)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true,
     .micro_batches = detail::accumulated_micro_batches}};

}  // namespace
}  // namespace penstock
