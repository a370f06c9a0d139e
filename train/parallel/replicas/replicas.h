// Replicas: one model on several devices; each runs some rows of every batch, on a thread of its own.
//
// Lives here: `dp`: one rank that runs copies of its model on several devices, in threads.
// Not here: anything that several ranks do together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/nn/row_draws.h"
#include "train/parallel/replicas/replica_threads.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/strategy.h"
#include "train/parallel/strategy/update.h"

namespace penstock {
struct Precision;
}

namespace penstock::detail {

/// Forward and backward of one batch, spread over replicas of a model. The model itself is the replica of the output
/// device, where the logits are gathered and the gradients summed. Everything else that changes the model, such as an
/// update or a checkpoint, deals with that one alone: forward() brings its parameters and buffers to the others.
///
///     time ->      output device  | scatter |            | gather, loss |             |       |
///                  replica 0                | forward r0 |              | backward r0 | sum p | update p
///                  replica 1                | forward r1 |              | backward r1 | sum q | update q
///
/// p and q are shares of the parameters. On GPUs the output device makes the update alone.
///
/// Rows are cut as torch::chunk does it: every replica gets ceil(rows / replicas), the last ones fewer or none. With
/// `has_shards` (--exact) these are the rows of a full batch, and what differs between replicas is left to MicroShards.
///
/// BatchNorm normalises by the rows of one replica. After each backward the running statistics are the mean of the
/// replicas', weighted by their rows, so that all rows count (PyTorch's DataParallel keeps those of replica 0).
///
/// Memory: a replica on the output device, as all are on the CPU, has the same parameters, not a copy. Each has its own
/// gradients, activations and buffers.
/// Threads: while this object lives, the intra-op threads of the thread that made it belong to the replicas, and that
/// thread computes alone. OpenMP's threads spin while they wait for each other, and there are no cores for two sets.
/// Determinism: gradients are summed in the order of the replicas, each by one thread. Only one thing depends on
/// timing: layers that draw from LibTorch's generator on the CPU, as its own dropout does, because all replicas draw
/// from one. penstock::Dropout and DropPath draw by row.
/// Errors: those of the replica with the lowest number, after all have ended.
/// Thread-safety: the training thread's alone.
class Replicas {
 public:
  /// `devices`: one entry per replica; one of them is `output`. `make_model` makes another model like `model`; its
  /// weights do not matter. `log` hears the shapes of each replica's first input and output.
  Replicas(Model& model, const torch::Device& output, const std::vector<torch::Device>& devices,
           const std::function<std::unique_ptr<Model>()>& make_model, std::function<void(const std::string&)> log,
           bool has_shards = false);
  ~Replicas();

  /// Logits of all rows on the output device. Where gradients are enabled they are a leaf, from whose gradient
  /// backward() goes on. Uses training mode where the model is in it. `full_rows`: by which rows are cut, of which
  /// `input` may have fewer. `rows`: which rows those of `input` are, in training.
  torch::Tensor forward(const torch::Tensor& input, int64_t full_rows, const std::optional<BatchRows>& rows);
  /// Adds to each replica's gradients. `gradient`: of the logits that the last forward() gave.
  void backward(const torch::Tensor& gradient);
  /// Leaves every replica's gradients undefined.
  void reset_gradients();
  /// The model's gradients become the sums over the replicas, with shards as PairwiseSum has them; 0 for a parameter
  /// that none has used.
  void sum_gradients();

  /// Calls `body` once for each replica, on its thread, as a part of the update.
  void update(const std::function<void(size_t replica)>& body);

  /// Between two steps: the layers of all of them, as penstock::compute_in() has it.
  void compute_in(const Precision& precision);

  int count() const { return static_cast<int>(replicas_.size()); }
  /// Both are those of the last forward(). With shards, a forward in training mode has changed the buffers of each
  /// replica as that replica's rows do.
  int64_t row_count(int replica) const;
  const std::vector<torch::Tensor>& buffers(int replica) const;

  /// In the order of the replicas. On CUDA it waits for the devices.
  std::vector<ReplicaUse> use();

 private:
  struct Replica;

  void cut(int64_t row_count, int64_t full_rows);
  void bring_parameters(Replica& replica) const;
  void bring_buffers();
  void merge_buffers();
  void sum_gradient(size_t parameter);
  void tell_shapes(const torch::Tensor& input);

  Model& model_;
  torch::Device output_;
  std::function<void(const std::string&)> log_;  // empty: the shapes have been told
  bool has_shards_;
  bool has_statistics_ = false;  // the last forward has changed the replicas' running statistics
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<torch::Tensor> parameters_, buffers_;  // the model's
  std::vector<size_t> sum_begin_;  // replica r's thread sums the gradients of parameters sum_begin_[r] to [r + 1] - 1
  int intra_op_threads_;           // those of the thread that made this, before and after
  ReplicaThreads threads_;
};

/// For an update of the model that `replicas` have run.
std::unique_ptr<GradientSync> make_replica_sync(std::shared_ptr<Replicas> replicas);

/// Each replica's thread updates a share of the parameters, if the optimiser goes tensor by tensor: on the CPU, where
/// all replicas have the same parameters in memory. With any other one the training thread updates all of them.
std::unique_ptr<Update> make_replica_update(const UpdateContext& context, const std::shared_ptr<Replicas>& replicas);

}  // namespace penstock::detail
