// Bucket sync: gradients summed in buckets under backward, and what all syncs in buckets share (OrderedBuckets).
//
// Lives here: gradients that are summed over ranks while backward runs (ddp's overlap), plain and compressed;
// BatchNorm over ranks; parameters of ranks that take steps alone.
// Not here: gradients of which a rank keeps a slice (sharding), and sums of a fixed order (exact).
#pragma once

#include <vector>

#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/sync/backward_hooks.h"
#include "train/parallel/sync/pending_collectives.h"

namespace penstock::detail {

/// Starts buckets strictly in order, each as soon as all its gradients are there: all ranks must call their collectives
/// in one order, whatever order their hooks came in. `members`: one entry per bucket, indices of parameters.
/// Thread-safety: begin() and finish() are for the thread that runs backward; hooks run on autograd's thread of the
/// device, one at a time.
class OrderedBuckets : public GradientSync {
 public:
  OrderedBuckets(const std::vector<torch::Tensor>& parameters, std::vector<std::vector<size_t>> members,
                 Recorder& recorder, int backward_count);

  void begin() override;
  void finish() override;
  /// What a hook calls.
  void gradient_is_there(size_t parameter) override;

 protected:
  PendingCollectives& works() { return works_; }
  const std::vector<std::vector<size_t>>& members() const { return members_; }
  /// Starts the buckets that backward left: parameters that got no gradient (unused, or a rank without samples) count
  /// as zeros.
  void start_rest();

 private:
  /// Adds the works of this bucket.
  virtual void start(size_t bucket) = 0;

  PendingCollectives works_;
  std::vector<std::vector<size_t>> members_;
  size_t backward_count_;
  std::vector<size_t> missing_;    // one entry per bucket: additions to its gradients that are still to come
  std::vector<size_t> bucket_of_;  // one entry per parameter
  size_t started_count_ = 0;
  AccumulationHooks hooks_;  // last: they use the others
};

/// Sums gradients in flat buckets while backward still runs (Li et al. 2020, "PyTorch Distributed", sec. 3.2):
///
///     time ->        backward completes gradients in reverse order of registration; b0 holds the last layers
///     compute        | forward | grad b0 | grad b1 | grad b2 | wait | update
///     communication                      | sum b0  | sum b1  | sum b2 |
///                                                            ^^^^^^ exposed: Phase::kCommunication
///
/// A bucket starts when each of its gradients has been added to `backward_count` times, once by each backward of the
/// step. Deviation from the paper: the sum is not divided by the world size, because the loss was divided by the global
/// sample count before. Requires that a parameter's gradient stays the tensor that this makes it.
std::unique_ptr<GradientSync> make_bucket_sync(const SyncContext& context);

}  // namespace penstock::detail
