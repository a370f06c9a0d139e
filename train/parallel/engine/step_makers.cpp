// Step makers: the table from a plan to what computes.
#include "train/parallel/engine/step_makers.h"

#include <utility>

#include "core/error.h"
#include "train/parallel/engine/emulated_step.h"
#include "train/parallel/engine/schedule_runner.h"
#include "train/parallel/exact/micro_shards.h"
#include "train/parallel/exact/tree_scatter.h"
#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/sharding/reduce_scatter_sync.h"
#include "train/parallel/sync/bucket_sync.h"
#include "train/parallel/sync/compressed_sync.h"
#include "train/parallel/sync/deferred_batch_norm.h"
#include "train/parallel/sync/local_steps.h"
#include "train/parallel/sync/power_sgd.h"

namespace penstock::detail {
namespace {

std::shared_ptr<Replicas> make_replicas(const StepPlan& plan, const StrategyContext& context) {
  if (plan.replicas.empty()) return nullptr;
  std::vector<torch::Device> devices;
  for (const int gpu : plan.replicas)
    devices.push_back(gpu < 0 ? torch::Device(torch::kCPU)
                              : torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(gpu)));
  return std::make_shared<Replicas>(context.model, context.device, devices, context.make_model, context.log,
                                    /*has_shards=*/plan.mesh.micro_shards > 0);
}

std::unique_ptr<MicroBatchObserver> make_observer(const StepParts& parts, const StrategyContext& context) {
  const auto& plan = parts.plan;
  if (plan.defers_batch_norm) return std::make_unique<DeferredBatchNorm>(context.model, parts.part, parts.data);
  if (plan.mesh.micro_shards == 0) return std::make_unique<MicroBatchObserver>();
  const bool shares_generator =
      parts.replicas != nullptr || (parts.device.is_cpu() && context.comm.backend() == "threads");
  return std::make_unique<MicroShards>(parts.part, parts.data, parts.replicas, plan.mesh.micro_shards, context.seed,
                                       parts.device, shares_generator);
}

}  // namespace

StepMakers::StepMakers(const StepPlan& plan, OwnParts own, const StrategyContext& context)
    : plan_(plan),
      own_(std::move(own)),
      replicas_(make_replicas(plan, context)),
      sharded_(plan.sharded),
      shares_parameters_(context.device.is_cpu()) {}

std::shared_ptr<ParameterStore> StepMakers::make_store(const ModelPart& part, Comm& data, Recorder& recorder) {
  if (own_.store) return own_.store(part, data, recorder);
  if (!plan_.sharded.parameters) return nullptr;
  const int leaf_count = plan_.mesh.micro_shards > 0 ? plan_.schedule.micro_batches : 0;
  return sharded_.make_store(part, data, recorder, tree_passes(part, data, leaf_count));
}

std::unique_ptr<Update> StepMakers::make_update(const UpdateContext& context) {
  if (own_.update) return own_.update(context);
  if (plan_.local) return make_local_update(context, *plan_.local);
  if (plan_.sharded.optimizer) return sharded_.make_update(context);
  return replicas_ && shares_parameters_ ? make_replica_update(context, replicas_) : make_whole_update(context);
}

std::unique_ptr<GradientSync> StepMakers::make_sync(const SyncContext& context) {
  if (own_.sync) return own_.sync(context);
  switch (plan_.sync()) {
    case Sync::kNone:
      return make_no_sync(context);
    case Sync::kBuckets:
      return make_bucket_sync(context);
    case Sync::kCompressed: {
      const auto& [name, rank] = plan_.compression;
      return make_compressed_sync(context, name, name == "fp16" ? MakeCodec(make_half_codec) : PowerSgd(rank));
    }
    case Sync::kScatter:
      return make_reduce_scatter_sync(context, sharded_.buckets());
    case Sync::kUnits:
      return make_shard_sync(sharded_.parameters());
    case Sync::kTree:
      return make_tree_sync(context);
    case Sync::kTreeScatter:
      return make_tree_scatter(context, sharded_.buckets());
    case Sync::kReplicas:
      return make_replica_sync(replicas_);
    case Sync::kReplicaTree:
      return make_collected_tree(
          context, [replicas = replicas_] { replicas->sum_gradients(); },
          [replicas = replicas_] { replicas->reset_gradients(); });
    case Sync::kLocal:
      return make_local_sync(context);
  }
  throw bug_error("a sync that the engine does not know; expected one of enum Sync");
}

std::unique_ptr<StepRunner> StepMakers::make_runner(const StepParts& parts, const StrategyContext& context) {
  if (own_.runner) return own_.runner(parts, context);
  auto real = std::make_unique<ScheduleRunner>(parts, make_observer(parts, context), context.step, context.seed);
  if (context.emulation.learns()) return real;
  return std::make_unique<EmulatedStep>(parts, context.emulation, std::move(real));
}

}  // namespace penstock::detail
