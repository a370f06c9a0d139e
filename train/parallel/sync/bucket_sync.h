// OrderedBuckets: what all gradient syncs in buckets share: when a bucket starts, and what is waited for.
#pragma once

#include <vector>

#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/sync/backward_hooks.h"
#include "train/parallel/sync/pending_collectives.h"

namespace penstock::detail {

/// Starts buckets strictly in order: all ranks must call their collectives in one order, whatever order their hooks
/// came in.
class OrderedBuckets : public GradientSync {
 public:
  OrderedBuckets(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members,
                 Recorder& recorder, int backward_count);

  void begin() override;
  void finish() override;
  void gradient_is_there(size_t parameter) override { countdown_.count(parameter); }

 protected:
  StartedWorks& works() { return works_; }
  /// Starts the buckets that backward left: parameters that got no gradient (unused, or a rank without samples) count
  /// as zeros.
  void start_rest();

 private:
  /// Adds the works of this bucket.
  virtual void start(size_t bucket) = 0;
  /// Backward has added to a gradient, and the buckets that this completed have started.
  virtual void after_gradient() {}
  void start_complete();

  StartedWorks works_;
  size_t bucket_count_, started_count_ = 0;
  BucketCountdown countdown_;  // last: its hooks use the others
};

}  // namespace penstock::detail
