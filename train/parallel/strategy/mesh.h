// Mesh: the ranks of a run as a grid, and which of them a mode takes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/spec.h"
#include "loader/order/partition.h"
#include "train/optimizers/clip.h"

namespace penstock {

/// Ranks along two axes: there are `data` copies of the model, each divided over `pipe` ranks. The ranks of one copy
/// are neighbours: rank = data_rank * pipe + pipe_rank.
struct Mesh {
  int data = 1, pipe = 1;
  int replicas = 1;      ///< Copies of the model in each rank, each with a thread of its own that computes.
  int micro_shards = 0;  ///< Of --exact: pieces of a global batch that are computed one by one; 0: without it.
  /// On CUDA: the GPU that a rank's batches go to, one entry per rank of a machine; empty: local rank i takes GPU i.
  std::vector<int> gpus = {};

  int size() const { return data * pipe; }
  int data_rank(int rank) const { return rank / pipe; }
  int pipe_rank(int rank) const { return rank % pipe; }
  int rank(int data_rank, int pipe_rank) const { return data_rank * pipe + pipe_rank; }
  bool operator==(const Mesh&) const = default;
};

/// How ranks divide a short batch. With `micro_shards` (--exact) a shard is the same rows in every batch, at the same
/// rank.
constexpr ShortBatch short_batch_of(int micro_shards) {
  return micro_shards > 0 ? ShortBatch::kInPlace : ShortBatch::kEvenly;
}

/// What a mode needs to know in order to lay itself over the ranks, before anything is opened.
struct MeshRequest {
  int ranks = 0;           ///< As the user or a launcher says; 0: the mode may choose.
  int default_ranks = 2;   ///< What is usual here: one for each visible GPU, 2 on the CPU.
  int64_t batch_size = 0;  ///< Rows per step, over all ranks; 0: not known.
  int micro_shards = 0;    ///< As Mesh::micro_shards: a power of two that divides the batch.
  int gpus = -1;           ///< Those that are visible, where the run is on CUDA; 0: it is on the CPU; -1: not known.
  std::optional<Spec> optimizer = {};  ///< What --optimizer says; none: it is not known.
  ClipOptions clip = {};
  int local_ranks = 0;  ///< Those of `ranks` that are on this machine; 0: not known.
};

namespace detail {

/// The kinds of tensors of which a rank keeps only a slice, by the formula of its mode.
struct ShardedKinds {
  bool parameters = false, gradients = false, optimizer = false;

  /// As stages of ZeRO: 0 to 3 (Rajbhandari et al. 2020, "ZeRO", sec. 5.1 to 5.3).
  static ShardedKinds of_stage(int stage) {
    return {.parameters = stage >= 3, .gradients = stage >= 2, .optimizer = stage >= 1};
  }
  int stage() const { return parameters ? 3 : gradients ? 2 : optimizer ? 1 : 0; }
  bool operator==(const ShardedKinds&) const = default;
};

}  // namespace detail
}  // namespace penstock
