// StepPlan: what follows from it.
#include "train/parallel/strategy/step_plan.h"

#include <array>
#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using detail::Operation;

constexpr std::array kSyncs{"none", "buckets",      "compressed", "scatter",      "units",
                            "tree", "tree-scatter", "replicas",   "replica-tree", "local"};
constexpr std::array kBalances{"parameters", "time", "memory"};
constexpr std::array kRecomputes{"never", "except-last", "always"};
constexpr std::array kOperations{"F", "B", "I", "W"};

/// "0F0 0F1 0B0 0B1": as a schedule file has them.
std::string text_of(const detail::Schedule& schedule, const detail::Placement& placement, int rank) {
  std::string text;
  for (const auto& one : schedule)
    text += (text.empty() ? "" : " ") + std::to_string(placement.part_of(rank, one.chunk)) +
            kOperations.at(static_cast<size_t>(one.kind)) + std::to_string(one.micro_batch);
  return text;
}

}  // namespace

const char* name_of(Sync sync) { return kSyncs.at(static_cast<size_t>(sync)); }
const char* name_of(detail::Recompute recompute) { return kRecomputes.at(static_cast<size_t>(recompute)); }

int StepPlan::stage_count() const {
  return operations ? operations->placement.part_count() : schedule.ranks * schedule.interleave;
}

Sync StepPlan::sync() const {
  const bool is_exact = mesh.micro_shards > 0;
  if (local) return Sync::kLocal;
  if (!replicas.empty()) return is_exact ? Sync::kReplicaTree : Sync::kReplicas;
  if (sharded.parameters) return Sync::kUnits;
  if (sharded.gradients) return is_exact ? Sync::kTreeScatter : Sync::kScatter;
  if (is_exact) return Sync::kTree;
  if (!sums_gradients) return Sync::kNone;
  return compression.name.empty() ? Sync::kBuckets : Sync::kCompressed;
}

std::string to_json(const StepPlan& plan) {
  nlohmann::ordered_json json{{"mode", plan.mode},
                              {"data", plan.mesh.data},
                              {"pipe", plan.mesh.pipe},
                              {"replicas", plan.replicas},
                              {"shards", plan.mesh.micro_shards},
                              {"gpus", plan.mesh.gpus},
                              {"schedule", plan.schedule.name},
                              {"micro_batches", plan.schedule.micro_batches},
                              {"interleave", plan.schedule.interleave},
                              {"recompute", name_of(plan.schedule.recompute)},
                              {"takes_turns", plan.schedule.takes_turns},
                              {"cuts", plan.cuts},
                              {"balance", kBalances.at(static_cast<size_t>(plan.balance))},
                              {"sync", name_of(plan.sync())},
                              {"zero", plan.sharded.stage()},
                              {"syncs_batch_norm", plan.syncs_batch_norm},
                              {"defers_batch_norm", plan.defers_batch_norm},
                              {"can_be_captured", plan.can_be_captured},
                              {"is_complete", plan.is_complete}};
  for (const auto& stage : plan.stages) json["stages"].push_back({stage.first, stage.end});
  if (!plan.compression.name.empty()) json["compression"] = {plan.compression.name, plan.compression.rank};
  if (const auto& local = plan.local)
    json["local"] = {{"steps", local->count},
                     {"outer", local->is_nesterov ? "nesterov" : "sgd"},
                     {"rate", local->rate},
                     {"momentum", local->momentum}};
  if (const auto& placed = plan.operations)
    for (size_t rank = 0; rank < placed->ranks.size(); ++rank)
      json["operations"].push_back(text_of(placed->ranks[rank], placed->placement, static_cast<int>(rank)));
  return json.dump();
}

/// Compression to 16 bits rounds every rank's gradient by up to 2^-11, which adds up where they point the same way; a
/// gradient of products of thin matrices is a projection.
EquivalenceGuarantee promise_of(const StepPlan& plan) {
  const auto& compression = plan.compression.name;
  const int pieces = plan.mesh.data * plan.mesh.replicas * plan.schedule.micro_batches;
  return {.sees_whole_batches = plan.syncs_batch_norm || pieces == 1,
          .compression_error = compression.empty()     ? 0
                               : compression == "fp16" ? plan.mesh.data / 2048.0
                                                       : 1,
          .averages_parameters = plan.local.has_value(),
          .holds_for_many_steps = !plan.local || (plan.local->count == 1 && plan.local->takes_mean())};
}

}  // namespace penstock
