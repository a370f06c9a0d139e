// SharedGroup: sums and gathers of ranks that are processes of one machine, in memory that all of them see.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "train/comm/busy_time.h"
#include "train/comm/comm.h"
#include "train/comm/shared_memory.h"

namespace penstock::detail {

/// What one rank allocates, every rank maps: rank r's tensor is row r for all of them. A collective meets twice:
///
///     rank 0   here ─┬─ add slice 0 of all rows, write it to all rows ─┬─ done
///     rank 1   here ─┴─ add slice 1 of all rows, write it to all rows ─┴─ done
///
/// So a sum reads and writes each byte once, where sockets copy it four times; and it is a pairwise_sum(), as --exact
/// needs it. A thread of its own runs the collectives, in the order of their calls.
///
/// Errors: the futures throw std::runtime_error when a rank has ended, or has not come within the time; then all later
/// ones do. Thread-safety: one thread at a time.
class SharedGroup {
 public:
  /// Collective over `comm`, which outlives this. Null at every rank unless each of them can see the memory of all
  /// others.
  static std::unique_ptr<SharedGroup> meet(Comm& comm);
  /// Collective: memory of each rank, mapped at all of them, with open files; one entry per rank. Empty at every rank
  /// if one of them cannot see all of it.
  static std::vector<SharedMemory> map_all(Comm& comm, size_t bytes);
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  /// Collective: zeros in one dimension, in memory that all ranks see until the last of them has destroyed its tensor.
  /// Undefined at every rank where the system does not give it to all of them. Requires a count above 0.
  torch::Tensor allocate(int64_t count, const torch::TensorOptions& options);
  /// Whether this is a tensor of allocate(), and not a view of a part of it.
  bool holds(const torch::Tensor& tensor) const { return rows_of(tensor) != nullptr; }

  /// Whether that rank's group, or its process, has ended.
  bool has_left(int rank) const { return !seats_.is_taken(rank); }

  /// What a collective has ended with: milliseconds in which it was under way, as Comm::Work has them.
  using Result = std::future<double>;
  /// In place. It fails if a rank has not come `seconds` after this call, here and below. Requires that this holds the
  /// tensor at every rank. Any number of ranks; with a power of two the sum is that of PairwiseSum over the ranks.
  Result all_reduce_sum(const torch::Tensor& tensor, int seconds);
  /// As Comm has it. Requires that this holds `all` at every rank, and world_size equal parts.
  Result all_gather_into(const torch::Tensor& all, const torch::Tensor& mine, int seconds);

 private:
  using Maps = std::vector<SharedMemory>;  // one entry per rank
  struct Rows {
    Maps maps;
    std::vector<torch::Tensor> tensors;  // one entry per rank
  };
  struct Task {
    std::shared_ptr<Rows> rows;
    torch::Tensor mine;  // undefined: a sum
    int64_t begin_ns, begin_awake_ns;
    int seconds;
    std::promise<double> result;
  };

  SharedGroup(Comm& comm, SharedMemory seats);
  std::shared_ptr<Rows> rows_of(const torch::Tensor& tensor) const;
  Result post(const torch::Tensor& tensor, const torch::Tensor& mine, int seconds);
  void run();
  void perform(const Task& task);
  void meet_all(int64_t deadline_ns);
  std::atomic<uint32_t>& phase(int rank) const;

  Comm& comm_;
  int rank_, world_size_;
  SharedMemory seats_;  // rank 0's, with a phase for each rank, and a seat that tells that the rank lives
  std::map<const void*, std::weak_ptr<Rows>> rows_;  // by the address of this rank's row
  BusyTime busy_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> tasks_ PENSTOCK_GUARDED_BY(mutex_);
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;  // since the first collective
};

}  // namespace penstock::detail
