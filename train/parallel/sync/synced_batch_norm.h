// SyncedBatchNorm: BatchNorm over the rows of all ranks that work on a batch.
#pragma once

#include <memory>
#include <vector>

#include "train/comm/comm.h"
#include "train/parallel/sync/pending_collectives.h"

namespace penstock {

class Model;
class BatchNorm2dImpl;

namespace detail {

/// As long as this lives, the BatchNorm layers of `model` take their statistics over the ranks of `data`. Their
/// collectives run in forward and backward, between those of the gradients: every rank runs the same layers in the same
/// order, also if it has no rows.
class SyncedBatchNorm {
 public:
  /// `is_on`: otherwise this has no layers, and does nothing.
  SyncedBatchNorm(const Model& model, Comm& data, Recorder& recorder, bool is_on);
  ~SyncedBatchNorm();
  SyncedBatchNorm(const SyncedBatchNorm&) = delete;
  SyncedBatchNorm& operator=(const SyncedBatchNorm&) = delete;

  bool empty() const { return layers_.empty(); }

 private:
  torch::Tensor gather(const torch::Tensor& mine);

  Comm& data_;
  Recorder& recorder_;
  PendingCollectives works_;  // the one of the layer that is running, and those whose times are not known yet
  std::vector<std::shared_ptr<BatchNorm2dImpl>> layers_;
};

}  // namespace detail
}  // namespace penstock
