// Mutants: modes put together from the parts of the others, with one part that is broken.
#include <utility>

#include "tests/train/mutants/mutant_of_parts.h"
#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/sharding/sharded_state.h"
#include "train/parallel/strategy/buckets.h"

namespace penstock::detail {
namespace {

/// One bucket is not summed. LeNet has the first alone.
class BucketLeftOut final : public OrderedBuckets {
 public:
  BucketLeftOut(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members,
                Comm& comm, Recorder& recorder, int backward_count, size_t left_out)
      : OrderedBuckets(parameters, members, recorder, backward_count),
        comm_(comm),
        left_out_(left_out),
        buckets_(bucket_gradients(parameters, members, comm)) {}
  void begin() override {
    for (auto& bucket : buckets_) bucket.flat.zero_();
    OrderedBuckets::begin();
  }

 private:
  void start(size_t bucket) override {
    if (bucket != left_out_) works().add(comm_.all_reduce_sum(buckets_[bucket].flat));
  }

  Comm& comm_;
  size_t left_out_;
  std::vector<Bucket> buckets_;
};
Registered<StrategyKind> mutant_of_buckets(const char* name, const char* help, size_t left_out) {
  return mutant_of_parts(name, help, [left_out](auto& c) {
    c.own.sync = [left_out](const SyncContext& sync) {
      const auto parameters = values(sync.trained);
      return std::make_unique<BucketLeftOut>(parameters, assign_buckets(bytes_of(parameters)), sync.comm, sync.recorder,
                                             sync.backward_count, left_out);
    };
  });
}
const auto kBucketLeftOut = mutant_of_buckets("bucket-left-out", "the first bucket is not summed over the ranks", 0);
const auto kLaterBucketLeftOut =
    mutant_of_buckets("later-bucket-left-out", "of several buckets the second is not summed over the ranks", 1);

/// Sums after the first backward of a step, and again after the last.
class SummedTwice final : public OrderedBuckets {
 public:
  SummedTwice(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members, Comm& comm,
              Recorder& recorder)
      : OrderedBuckets(parameters, members, recorder, /*backward_count=*/1),
        comm_(comm),
        buckets_(bucket_gradients(parameters, members, comm)) {}
  void begin() override {
    for (auto& bucket : buckets_) bucket.flat.zero_();
    OrderedBuckets::begin();
  }
  void finish() override {
    OrderedBuckets::finish();
    for (auto& bucket : buckets_) comm_.all_reduce_sum(bucket.flat)->wait();
  }

 private:
  void start(size_t bucket) override { comm_.all_reduce_sum(buckets_[bucket].flat)->wait(); }

  Comm& comm_;
  std::vector<Bucket> buckets_;
};

void accumulate(BrokenMode& config) {
  config.plan.schedule.micro_batches = 2;
  config.plan.operations = PlacedSchedules{.placement = Placement(), .ranks = {accumulation(2)}, .micro_batches = 2};
}

const auto kSummedTwice = mutant_of_parts(
    "summed-twice", "what an accumulated batch has so far is summed again with its rest", [](BrokenMode& c) {
      accumulate(c);
      c.own.sync = [](const SyncContext& sync) {
        const auto parameters = values(sync.trained);
        return std::make_unique<SummedTwice>(parameters, assign_buckets(bytes_of(parameters)), sync.comm,
                                             sync.recorder);
      };
    });

const auto kMicroBatchTwice = mutant_of_parts(
    "micro-batch-twice", "the first micro-batch runs in place of the second one, too", [](BrokenMode& c) {
      accumulate(c);
      for (auto& operation : c.plan.operations->ranks.front()) operation.micro_batch = 0;
    });

/// ZeRO's update without the gather.
class SliceNotGathered final : public Update {
 public:
  explicit SliceNotGathered(const UpdateContext& context)
      : inner_(ShardedState({.optimizer = true}).make_update(context)) {}
  void step() override { inner_->step(); }
  Optimizer& optimizer() override { return inner_->optimizer(); }
  torch::Tensor slot(size_t index, size_t parameter) override { return inner_->slot(index, parameter); }
  void load_slot(size_t index, const std::vector<torch::Tensor>& whole) override { inner_->load_slot(index, whole); }
  std::vector<UpdatedPiece> pieces(const std::vector<torch::Tensor>& trained) override {
    return inner_->pieces(trained);
  }

 private:
  std::unique_ptr<Update> inner_;
};
const auto kSliceNotGathered = mutant_of_parts(
    "slice-not-gathered", "each rank of zero has the new parameters of its slice alone", [](BrokenMode& c) {
      c.plan.sharded.optimizer = true;
      c.own.update = [](const UpdateContext& context) { return std::make_unique<SliceNotGathered>(context); };
    });

/// The sum of --exact, in which each shard is the next leaf of its rank's part of the tree.
class LeavesShifted final : public GradientSync {
 public:
  explicit LeavesShifted(const SyncContext& sync) : inner_(make_tree_sync(sync)), leaf_count_(sync.backward_count) {}
  void begin() override { inner_->begin(); }
  void finish() override { inner_->finish(); }
  void begin_backward(int micro_batch) override { inner_->begin_backward((micro_batch + 1) % leaf_count_); }
  void end_backward() override { inner_->end_backward(); }
  std::vector<torch::Tensor> buffers() const override { return inner_->buffers(); }

 private:
  std::unique_ptr<GradientSync> inner_;
  int leaf_count_;
};
const Registered<StrategyKind> kLeavesShifted{
    "leaves-shifted",
    {},
    "with --exact the shards of a rank are added in another order",
    [](const Spec& spec, const StrategyContext& context) {
      OwnParts own;
      if (context.micro_shards > 0)
        own.sync = [](const SyncContext& sync) { return std::make_unique<LeavesShifted>(sync); };
      return std::make_unique<Engine>(context, plan_of(spec, request_of(context)), own);
    },
    {.plan =
         [](const Spec&, const MeshRequest& request) {
           StepPlan plan{.mesh = {.data = request.ranks > 0 ? request.ranks : request.default_ranks,
                                  .micro_shards = request.micro_shards},
                         .sums_gradients = true};
           if (request.micro_shards > 0) plan.schedule.micro_batches = request.micro_shards / plan.mesh.data;
           return plan;
         },
     .exact = StrategyKind::Exact::kAlways}};

const auto kBackwardEarly = mutant_of_pipeline(
    "backward-early", "the last rank of a pipeline runs a backward before the forward whose activation it needs", {},
    [](const StrategyContext&) {},
    [](StepPlan& plan) {
      plan.operations = placed_schedules(plan);
      auto& last = plan.operations->ranks.back();
      std::swap(last[0], last[1]);
    });

}  // namespace
}  // namespace penstock::detail
