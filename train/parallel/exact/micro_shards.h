// MicroShards: makes a micro-batch the same computation at every rank, and merges what it changes in buffers (--exact).
//
// Lives here: --exact: the same bits at every world size, because a batch is computed in pieces of fixed rows and
// summed in a tree of fixed shape.
// Not here: the sums of two tensors (train/tensor/tree_sum.h), and which kernels are allowed (train/run/exact.h).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "train/comm/comm.h"
#include "train/parallel/strategy/micro_batch_observer.h"
#include "train/parallel/strategy/model_part.h"
#include "train/tensor/random_state.h"

namespace penstock::detail {

class Replicas;

/// With --exact a global batch is cut into a fixed number of micro-shards: shard s holds the same rows in every mode
/// and at every world size. Each shard goes through forward and backward by itself. A rank holds as many of them as it
/// has micro-batches, or micro-batches times replicas:
///
///     s = data rank * shards per rank + micro-batch * replicas + replica
///
/// Buffers, such as BatchNorm's running statistics, must not depend on the order of the shards. So every forward of a
/// step begins with the values b that they had when the step began, and the values b_s that shard s leaves there are
/// put aside. After the step they become
///
///     b + the tree sum, over the shards that have rows, of (b_s - b) / the number of these shards
///
/// Since BatchNorm makes b_s = (1 - momentum) b + momentum m_s, this is one
/// update per step with the mean of the shards' statistics m_s.
///
/// Random numbers: before each block of a shard the generator gets a state that follows from the seed, the epoch, the
/// batch, the shard and the block.
///
/// Errors: after_forward() throws config_error if a model has drawn random numbers on the CPU where several ranks or
/// replicas draw from one generator: threads would get numbers that depend on timing.
/// Thread-safety: the training thread's alone.
class MicroShards final : public MicroBatchObserver {
 public:
  /// `count`: shards of a global batch. `replicas`: null if there are none. From now on `part` calls this object before
  /// each block that it runs.
  MicroShards(ModelPart& part, Comm& data, Replicas* replicas, int count, uint64_t seed, const torch::Device& device,
              bool shares_generator);

  void begin(const DeviceBatch& batch) override;
  /// Collective over the ranks of `data`.
  void finish() override;
  void before_forward(int micro_batch) override;
  void after_forward(int micro_batch, int64_t rows) override;
  void before_recompute(int micro_batch) override { micro_batch_ = micro_batch; }

 private:
  void enter(size_t block) const;
  void put_aside(int64_t shard, const std::vector<torch::Tensor>& buffers);

  Comm& data_;
  Replicas* replicas_;
  int own_count_, replica_count_;  // shards of this rank; replicas, or 1
  uint64_t seed_;
  torch::Device device_;
  bool shares_generator_;
  std::vector<torch::Tensor> buffers_, before_;  // the model's, and their values when the step began
  int64_t element_count_ = 0;                    // of all buffers
  torch::Tensor changes_;  // f64, own shards x (elements + 1): b_s - b, and whether the shard has rows
  int64_t epoch_ = 0, batch_ = 0;
  int micro_batch_ = 0;
  RandomState random_;
};

}  // namespace penstock::detail
