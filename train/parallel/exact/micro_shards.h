// MicroShards: makes a micro-batch the same computation at every rank, and merges what it changes in buffers (--exact).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "train/comm/comm.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/model_part.h"
#include "train/tensor/device_batch.h"
#include "train/tensor/random_state.h"

namespace penstock::detail {

class Replicas;

/// The virtual shards of a global batch that this rank holds: its micro-batches, or with replicas the rows of each
/// replica in each of them. Every shard goes through forward and backward by itself. Shard s of all ranks is the same
/// rows of the global batch in any mode; s = data rank * shards per rank + micro-batch * replicas + replica.
///
/// Buffers, such as BatchNorm's running statistics: every forward of a step starts from those that the step started
/// with, and what it changes in them is put aside. After the step they are b + the tree sum over all shards of (b_s -
/// b) / shards, where b_s is what shard s has made of b; only shards of two rows or more count. As BatchNorm has b_s =
/// (1 - momentum) b + momentum m_s, that is the update with the mean of the shards' statistics m_s, once per step.
///
/// Random numbers: before each stage of a shard the generator is set to a state that follows from the seed, the epoch,
/// the batch, the shard and the stage.
///
/// Errors: after_forward() throws config_error if a model has drawn random numbers on the CPU where several ranks or
/// replicas draw from one generator: threads would get numbers that depend on timing.
/// Thread-safety: the training thread's alone.
class MicroShards {
 public:
  /// `count`: shards of a global batch. `part` calls this before each of its stages from now on. Null: no replicas.
  MicroShards(ModelPart& part, Comm& data, Replicas* replicas, int count, uint64_t seed, const torch::Device& device,
              bool shares_generator);

  /// Around all forwards and backwards of a step. The end is collective over the ranks of `data`.
  void begin(const DeviceBatch& batch);
  void finish();
  /// Around each forward that is not run again. `rows` of the micro-batch.
  void before_forward(int micro_batch);
  void after_forward(int micro_batch, int64_t rows);
  /// Before each forward that is run again.
  void before_rerun(int micro_batch) { micro_batch_ = micro_batch; }

 private:
  void enter(size_t stage) const;
  void put_aside(int64_t shard, const std::vector<torch::Tensor>& buffers);

  Comm& data_;
  Replicas* replicas_;
  int own_count_, replica_count_;  // shards of this rank; replicas, or 1
  uint64_t seed_;
  torch::Device device_;
  bool shares_generator_;
  std::vector<torch::Tensor> buffers_, before_;  // the model's, and their values when the step began
  int64_t element_count_ = 0;                    // of all buffers
  torch::Tensor changes_;  // f64, own shards x (elements + 1): b_s - b, and whether the shard counts
  int64_t epoch_ = 0, batch_ = 0;
  int micro_batch_ = 0;
  RandomState random_;
};

}  // namespace penstock::detail
