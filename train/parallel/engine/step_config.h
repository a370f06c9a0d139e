// StepConfig: what a mode chooses of a step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/parallel/engine/step_runner.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/strategy/mesh.h"

namespace penstock::detail {

class Replicas;

/// A mode is little more than a value of this. The engine makes the store, the update and the sync, in this order.
struct StepConfig {
  Mesh mesh = {};
  std::vector<BlockRange> ranges = {};  // parts; empty: every rank holds the model
  Placement placement = Placement();    // of the parts over the pipe ranks
  std::string text = {};                // as Strategy::text()
  double bubble = 0;                    // as Strategy::predicted_bubble()
  int micro_batches = 1;
  int micro_batch_step = 1;             // as Strategy::micro_batch_step()
  bool keeps_gradients = false;         // as StageLink has it
  Schedule schedule = accumulation(1);  // of this rank
  /// Where parameters are while no stage uses them; null: whole at every rank.
  std::function<std::shared_ptr<ParameterStore>(const ModelPart& part, Comm& data, Recorder& recorder)> store = {};
  std::function<std::unique_ptr<Update>(const UpdateContext&)> update = make_whole_update;
  std::function<std::unique_ptr<GradientSync>(const SyncContext&)> sync = make_no_sync;
  ShardedKinds sharded = {};
  bool syncs_batch_norm = false;            // over the data axis; only with one micro-batch
  bool defers_batch_norm = false;           // as DeferredBatchNorm has it; without Mesh::shards
  bool steps_in_backward = false;           // each bucket when its sum has landed; with make_bucket_sync() alone
  int local_steps = 1;                      // as Strategy::local_steps(); its update meets so often
  std::shared_ptr<Replicas> replicas = {};  // run the whole model, on several devices; the sync has them too
  bool can_be_captured = false;             // as CapturableStep has it; with make_no_sync() alone
  /// Null: as the engine chooses.
  std::function<std::unique_ptr<StepRunner>(const StepParts&, const StrategyContext&)> runner = {};
};

}  // namespace penstock::detail
