// ShardedParameters: every rank keeps a slice of the parameters, which are whole only while their blocks run
// (Rajbhandari et al. 2020, "ZeRO", sec. 5.3, stage 3).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "train/parallel/sharding/bucket_gradients.h"
#include "train/parallel/sharding/shard_layout.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/model_part.h"
#include "train/parallel/strategy/parameter_store.h"
#include "train/parallel/sync/pending_collectives.h"

namespace penstock::detail {

// A unit is as small as a gather is still cheap: on a network of 10 GB/s, 1 MiB takes 100 us.
constexpr int64_t kUnitBytes = int64_t{1} << 20;

/// Consecutive blocks whose parameters are gathered together: as few as reach `least_bytes`. Blocks at the end that do
/// not reach it belong to the last unit. `block_bytes`: one entry per block.
std::vector<BlockRange> assign_units(const std::vector<int64_t>& block_bytes, int64_t least_bytes = kUnitBytes);

/// The parameters of consecutive blocks.
struct ShardedUnit {
  BlockRange blocks;
  std::vector<ShardedBucket> buckets = {};  // of the trained parameters, and of the frozen ones, where there are any
  bool is_whole = false;                    // or on its way
  size_t gather_end = 0;                    // works of this step up to and with its gather
};

struct ShardedUnits {
  std::vector<ShardedUnit> units;
  std::vector<ShardedBucket>
      trained;  // the buckets with trained parameters, whose members count as part.trained() does
  std::vector<std::optional<size_t>> trained_of_unit;  // one entry per unit: which of them it has
  std::vector<size_t> unit_of_block;
  /// Where a parameter lies.
  struct Place {
    size_t unit, bucket;  // the bucket counts in its unit
    int64_t offset;       // in the bucket
  };
  std::vector<Place> places;  // one entry per parameter of the part
};

/// Moves the parameters of `part` into units, of which this rank keeps its slices: zeros of those without memory.
/// `alignment`: of parameters and slices.
ShardedUnits make_units(const ModelPart& part, Comm& comm, int64_t alignment = 1);

/// How often a step runs through the model, and where gradients go. The default is one pass, whose gradients are
/// reduce-scattered in any order.
struct Passes {
  using MakeGradients = std::function<std::unique_ptr<BucketGradients>(const std::vector<ShardedBucket>& trained,
                                                                       PendingCollectives& works)>;
  int count = 1;                      // per step
  int64_t alignment = 1;              // of parameters and slices, in elements
  MakeGradients make_gradients = {};  // empty: ReduceScatterGradients
};

/// The parameters of a model of U units. G: gather, R: reduce-scatter of gradients; `-`: memory is given back.
///
///     time ->        forward                                  backward
///     compute        F0         F1         F2        B2             B1              B0
///     communication  G0 G1      -0 G2      -1           G1          R2 -2 G0        R1 -1           R0 -0
///
/// While one unit computes, the next one is gathered, so that two are whole at a time. The last one stays from its
/// forward to its backward. Gradients of two units are on their way at most.
///
/// Backward begins with a unit when the gradient of its output is there. As soon as the gradient of its input is there,
/// which is the output of the unit before, its own gradients are complete: autograd accumulates gradients before it
/// goes on with what was computed earlier in forward. All ranks make the collectives of a step in one order, which
/// depends on the units alone. A rank that has no rows in a batch makes them too, after the step of the others, in
/// finish().
///
/// With leaves (--exact) a step has several such passes, one per leaf, and R is in the last one alone: see
/// tree_passes().
///
/// A parameter stays the same tensor with the same storage, which loses its memory and gets memory again: what autograd
/// has saved for backward holds the storage, and finds the same values in it.
class ShardedParameters final : public ParameterStore {
 public:
  /// `comm` and `recorder` outlive this.
  ShardedParameters(const ModelPart& part, Comm& comm, Recorder& recorder, const Passes& passes = {});

  void enter(size_t block) override;
  void leave(size_t block, const torch::Tensor& output) override;
  void gather(size_t block) override;
  void put_back(size_t block) override;
  void load(size_t parameter, const torch::Tensor& value) override;
  std::vector<torch::Tensor> tensors() const override;
  int64_t peak_bytes() const override { return peak_bytes_; }

  /// Around the forward and backward of a step, as in GradientSync.
  void begin();
  void finish();
  /// After each backward but the last of a step, which may also have it.
  void end_pass();
  const BucketGradients& gradients() const { return *gradients_; }
  /// For the update: the slices of the trained parameters and of their gradients.
  const std::vector<ShardedBucket>& trained() const { return all_.trained; }

 private:
  void start_gather(size_t unit);
  void gather_in_step(size_t unit);
  void release(size_t unit);
  void enter_unit(size_t unit);
  void leave_unit(size_t unit);
  void back_to(size_t unit);
  void finish_unit(size_t unit);
  void begin_pass();

  Comm& comm_;
  std::vector<torch::Tensor> parameters_;  // of the part, in its order
  ShardedUnits all_;
  std::vector<ShardedUnit>& units_;
  size_t first_trained_;  // unit; the number of units if nothing is trained
  PendingCollectives works_;
  std::unique_ptr<BucketGradients> gradients_;
  int pass_count_, pass_ = 0;  // of a step; how many of this one have ended
  bool is_in_step_ = false, has_run_forward_ = false;
  size_t backward_unit_ = 0;  // where backward of this pass is; the number of units before it begins
  int64_t peak_bytes_ = 0;
};

/// The gradients of sharded parameters.
std::unique_ptr<GradientSync> make_shard_sync(std::shared_ptr<ShardedParameters> parameters);

}  // namespace penstock::detail
