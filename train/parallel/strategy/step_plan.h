// StepPlan: what a mode makes of a step, as a value. The engine computes by it, plan-modes predicts from it,
// --print-schedule draws it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/parallel/strategy/mesh.h"
#include "train/parallel/strategy/schedule.h"

namespace penstock {
namespace detail {

/// What the costs of two parts of a model are compared by.
enum class Balance { kParameters, kTime, kMemory };

/// How ranks send gradients in fewer bytes.
struct Compression {
  std::string name = {};  ///< "fp16" or "powersgd"; empty: they are sent as they are.
  int rank = 0;           ///< Columns of PowerSGD's factors.
  bool operator==(const Compression&) const = default;
};

/// How often ranks that take steps alone meet, and the outer optimiser by which they do.
struct LocalSteps {
  int count = 1;  ///< H: steps from one meeting to the next.
  bool is_nesterov = false;
  double rate = 1, momentum = 0;  ///< Of the outer optimiser; the momentum of Nesterov's alone.

  /// Ranks go on from the mean of their parameters, and need nothing else.
  bool takes_mean() const { return !is_nesterov && rate == 1; }
  /// Tensors that the outer optimiser keeps for each parameter.
  int slots() const { return is_nesterov ? 2 : takes_mean() ? 0 : 1; }
  bool operator==(const LocalSteps&) const = default;
};

}  // namespace detail

/// How the gradients of the ranks that hold the same parameters come together. The trees are of --exact.
enum class Sync {
  kNone,         ///< One rank holds them.
  kBuckets,      ///< Summed in buckets during backward.
  kCompressed,   ///< The same in fewer bytes, by StepPlan::compression.
  kScatter,      ///< As buckets; each rank gets its slice of the sum.
  kUnits,        ///< The same, of parameters that are gathered while they are used.
  kTree,         ///< Summed in one fixed tree.
  kTreeScatter,  ///< The same; each rank gets its slice of the sum.
  kReplicas,     ///< Summed over the replicas of one rank.
  kReplicaTree,  ///< The same in one fixed tree.
  kLocal,        ///< Not at all: ranks take steps alone, by StepPlan::local.
};
const char* name_of(Sync sync);
const char* name_of(detail::Recompute recompute);  ///< As the key `recompute` has it.

/// One step of all ranks, known before data are opened; fitted() adds what depends on the model. A mode that sets
/// nothing computes as `single` does. A plain value: members say what is chosen, functions what follows from it.
struct StepPlan {
  std::string mode = {};  ///< "ddp", by which errors name it.
  Mesh mesh = {};
  /// Of each copy of the model. Without a name a rank holds the whole model, and its micro-batches run one after the
  /// other.
  detail::SchedulePlan schedule = {.name = ""};
  /// In place of those that `schedule` names: a file has them. Without Operation::recomputes, as there.
  std::optional<detail::PlacedSchedules> operations = {};
  std::vector<std::string> cuts = {};  ///< Blocks at which stages begin; empty: they are cut by `balance`.
  detail::Balance balance = detail::Balance::kParameters;
  /// One entry per stage; empty: ranks hold the whole model, or the model is not known yet.
  std::vector<detail::BlockRange> stages = {};
  detail::ShardedKinds sharded = {};  ///< Over the data axis: a rank keeps its slice.
  bool sums_gradients = false;        ///< Over the data axis, also where that is one rank.
  detail::Compression compression = {};
  std::optional<detail::LocalSteps> local = {};
  std::vector<int> replicas = {};  ///< One entry per replica: its GPU, or -1 for a thread of the CPU. Empty: none.
  bool syncs_batch_norm = false;   ///< Over the data axis; only with one micro-batch.
  bool defers_batch_norm = false;  ///< As DeferredBatchNorm has it; without Mesh::micro_shards.
  bool can_be_captured = false;    ///< As CapturableStep has it; with Sync::kNone alone.
  bool is_complete = false;        ///< The engine makes the step from this alone. Otherwise nothing is predicted.

  bool has_stages() const { return !schedule.name.empty(); }
  int stage_count() const;
  /// Whether ranks hold a part of the model each, and take StrategyContext::weights.
  bool holds_part() const { return mesh.pipe > 1 || (sharded.parameters && mesh.data > 1); }
  Sync sync() const;
  bool operator==(const StepPlan&) const = default;
};

/// One object; `operations` as a drawing in one line per rank. For people and comparisons: nothing reads it back.
std::string to_json(const StepPlan& plan);

/// How close a step of a mode comes to one of `single` on the same rows. Gradients are the same sums in another order.
struct EquivalenceGuarantee {
  /// BatchNorm's statistics are those of all rows of a batch: models with BatchNorm train the same, too.
  bool sees_whole_batches = true;
  /// The most that |gradient as sent - gradient| / |gradient| of one step may be where gradients are compressed.
  double compression_error = 0;
  /// Each rank updates by the gradient of its own rows, and ranks take the mean of their parameters: that is the update
  /// of `single` if it is linear in the gradient, as that of sgd without clipping.
  bool averages_parameters = false;
  /// After many steps too; otherwise one step is like one of `single`, but not where many lead to.
  bool holds_for_many_steps = true;
};

/// What `train verify-modes` may demand of a mode with this plan.
EquivalenceGuarantee promise_of(const StepPlan& plan);

}  // namespace penstock
