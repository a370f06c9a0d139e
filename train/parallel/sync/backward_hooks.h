// Hooks of backward: when the gradient of a parameter is there, and when all those of a bucket are.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace penstock::detail {

/// While this object lives, every backward calls `after(i)` when it has added to the gradient of parameter i. The calls
/// come one at a time, on autograd's thread of the device.
class AccumulationHooks {
 public:
  AccumulationHooks(const std::vector<torch::Tensor>& parameters, std::function<void(size_t parameter)> after);
  ~AccumulationHooks();
  AccumulationHooks(const AccumulationHooks&) = delete;
  AccumulationHooks& operator=(const AccumulationHooks&) = delete;

 private:
  std::function<void(size_t)> after_;
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> hooks_;
};

/// Counts, for each bucket, the additions to its gradients that are still to come in this step: `backward_count` for
/// each parameter. Thread-safety: restart() and is_complete() are for the thread that runs backward; hooks run on
/// autograd's thread of the device, one at a time.
class BucketReadiness {
 public:
  /// `on_complete` is called with the number of a bucket when its last gradient is there; `on_gradient` after every
  /// gradient, and after `on_complete`. Both run on the thread of the hook. `members`: one entry per bucket, indices of
  /// parameters.
  BucketReadiness(
      const std::vector<torch::Tensor>& parameters, std::vector<std::vector<size_t>> members, int backward_count,
      std::function<void(size_t bucket)> on_complete, std::function<void()> on_gradient = [] {});

  void restart();
  bool is_complete(size_t bucket) const { return missing_[bucket] == 0; }
  /// What a hook calls.
  void count(size_t parameter);

 private:
  std::vector<std::vector<size_t>> members_;
  int backward_count_;
  std::function<void(size_t)> on_complete_;
  std::function<void()> on_gradient_;
  std::vector<size_t> missing_;    // one entry per bucket
  std::vector<size_t> bucket_of_;  // one entry per parameter
  AccumulationHooks hooks_;        // last: they use the others
};

}  // namespace penstock::detail
