// ReplicaThreads: one thread for each replica of a model; all of them do the same work at the same time.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <torch/types.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "core/mutex.h"

namespace penstock::detail {

/// The threads start in the constructor and wait for work until the destructor: to wake one costs about 50 us, to start
/// one with its intra-op threads several hundred.
///
/// Errors: the constructor throws device_error if the system does not give so many threads.
/// Thread-safety: run() is for one thread at a time.
class ReplicaThreads {
 public:
  /// `devices`: one entry per replica; it is the current device of its thread. `intra_op_threads` are divided among the
  /// replicas, and each gets one or more.
  ReplicaThreads(const std::vector<torch::Device>& devices, int intra_op_threads);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  /// Calls `body` once for each replica, on its thread and with LibTorch's modes of the caller, and returns when all
  /// calls have. Rethrows what the replica with the lowest number threw.
  void run(const std::function<void(size_t replica)>& body);

 private:
  struct Work {
    const std::function<void(size_t)>* body;
    at::ThreadLocalState modes;
  };
  void serve(size_t replica, const torch::Device& device, int intra_op_threads);

  Mutex mutex_;
  CondVar has_begun_, has_ended_;
  const Work* work_ PENSTOCK_GUARDED_BY(mutex_) = nullptr;
  uint64_t number_ PENSTOCK_GUARDED_BY(mutex_) = 0;  // of the present work
  size_t busy_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  bool is_over_ PENSTOCK_GUARDED_BY(mutex_) = false;
  std::vector<std::exception_ptr> errors_;  // one entry per replica, which writes it while it is busy
  std::vector<std::thread> threads_;
};

}  // namespace penstock::detail
