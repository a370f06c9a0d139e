// ddp: every rank holds the model and takes its rows of each global batch; gradients are summed in buckets during
// backward (Li et al. 2020, "PyTorch Distributed").
#include "core/number_text.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/parallel/engine/engine.h"
#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/modes/mode_keys.h"
#include "train/parallel/sync/bucket_sync.h"
#include "train/parallel/sync/compressed_sync.h"
#include "train/parallel/sync/power_sgd.h"

namespace penstock {
namespace {

using detail::PowerSgd;

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

Mesh ddp_mesh(const Spec& spec, const MeshRequest& request) {
  const int ranks = request.ranks > 0 ? request.ranks : request.default_ranks;
  detail::accumulate_of(spec, request.batch_size, ranks, request.shards);  // throws
  detail::syncs_batch_norm(spec, request.shards);                          // throws
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
  return {.sees_whole_batches = detail::sees_whole_batches(spec, mesh.data), .compression_error = error};
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
  config.steps_in_backward = detail::steps_in_backward(spec, context.optimizer.spec);
  choose_sync(spec, context.model, config);
  return std::make_unique<detail::Engine>(context, config);
}

const Registered<StrategyKind> kDdp{
    "ddp",
    {"accumulate", "sync-bn", "compress", "rank", "step-in-backward"},
    "every rank holds the model; gradients are summed in buckets during backward; accumulate (default 1) as of single; "
    "with sync-bn=true BatchNorm sees the rows of all ranks; "
    "compress=fp16 sends gradients in 16 bits, compress=powersgd as products of two thin matrices of rank (default 2) "
    "columns; with step-in-backward=true the update of a bucket runs as soon as its sum is there",
    make_ddp,
    {.mesh = ddp_mesh,
     .check_model = detail::check_sync,
     .promise = ddp_promise,
     .examples = {"ddp(accumulate=2)", "ddp(step-in-backward=true)", "ddp(sync-bn=true)", "ddp(compress=fp16)",
                  "ddp(compress=powersgd)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true}};

}  // namespace
}  // namespace penstock
