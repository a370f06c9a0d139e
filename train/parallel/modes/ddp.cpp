// ddp: every rank holds the model and takes its rows of each global batch; gradients are summed in buckets during
// backward (Li et al. 2020, "PyTorch Distributed"), or with local-steps parameters are averaged now and then.
#include <cmath>
#include <optional>

#include "core/text.h"
#include "train/parallel/engine/make_by_plan.h"
#include "train/parallel/modes/mode_keys.h"

namespace penstock {
namespace {

using detail::Compression, detail::LocalSteps;

Compression compression_of(const Spec& spec, int micro_shards) {
  const std::string name = spec.get("compress", "");
  if (!name.empty() && micro_shards > 0)
    throw config_error(concat(detail::flag(spec), ": compress is ", name, " with --exact ", micro_shards,
                              "; expected one of them: compressed gradients have an error"));
  if (!name.empty() && name != "fp16" && name != "powersgd")
    throw config_error(concat(detail::flag(spec), ": ", unknown_name("compression", name, {"fp16", "powersgd"})));
  if (name != "powersgd" && spec.has("rank"))
    throw config_error(concat(detail::flag(spec), ": rank is ", spec.get("rank", ""),
                              ", which is of compress=powersgd; expected that, or no rank"));
  return {.name = name, .rank = name == "powersgd" ? detail::at_least_one(spec, "rank", 2) : 0};
}

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
std::optional<LocalSteps> local_steps_of(const Spec& spec, int micro_shards) {
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
  if (micro_shards > 0)
    refuse(concat("--exact ", micro_shards), "weights of ranks that take steps alone are not those of single");
  if (spec.has("compress")) refuse("compress=" + spec.get("compress", ""), "no gradients are sent");
  if (spec.get("deferred-bn", false)) refuse("deferred-bn=true", "BatchNorm would wait for all ranks in every step");
  if (spec.get("sync-bn", false)) refuse("sync-bn=true", "BatchNorm would wait for all ranks in every step");
  return steps;
}

StepPlan ddp_plan(const Spec& spec, const MeshRequest& request) {
  const int ranks = request.ranks > 0 ? request.ranks : request.default_ranks, micro_shards = request.micro_shards;
  StepPlan plan{.mesh = {.data = ranks, .micro_shards = micro_shards}, .sums_gradients = true, .is_complete = true};
  plan.schedule.micro_batches = detail::accumulate_of(spec, request.batch_size, ranks, micro_shards);
  plan.syncs_batch_norm = detail::syncs_batch_norm(spec, micro_shards);
  plan.defers_batch_norm = detail::defers_batch_norm(spec, micro_shards);
  plan.local = local_steps_of(spec, micro_shards);
  plan.compression = compression_of(spec, micro_shards);
  return plan;
}

const Registered<StrategyKind> kDdp{
    "ddp",
    {"accumulate", "deferred-bn", "sync-bn", "compress", "rank", "local-steps", "outer", "outer-rate",
     "outer-momentum"},
    "every rank holds the model; gradients are summed in buckets during backward; accumulate (default 1) and "
    "deferred-bn as of single, the latter over all ranks; "
    "with sync-bn=true BatchNorm sees the rows of all ranks; "
    "compress=fp16 sends gradients in 16 bits, compress=powersgd as products of two thin matrices of rank (default 2) "
    "columns; with local-steps=H "
    "ranks take H steps alone, and then meet by outer=sgd (default; outer-rate 1: the mean of their weights) or "
    "outer=nesterov (outer-rate 0.7, outer-momentum 0.9: DiLoCo)",
    detail::make_by_plan,
    {.plan = ddp_plan,
     .examples = {"ddp(accumulate=2)", "ddp(sync-bn=true)", "ddp(compress=fp16)", "ddp(compress=powersgd)",
                  "ddp(local-steps=1)", "ddp(local-steps=4,outer=nesterov)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true}};

}  // namespace
}  // namespace penstock
