// BucketCountdown: tells when backward has completed all gradients of a bucket.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Counts how often the gradients of each bucket are still to be added to in a step. Thread-safety: restart() and
/// is_complete() on the thread that runs backward; hooks run on autograd's thread of the device, one at a time.
class BucketCountdown {
 public:
  /// `on_complete` hears the number of a bucket, `on_gradient` then or otherwise that a gradient was added to, both on
  /// the thread of the hook. `members`: one entry per bucket, indices of parameters.
  BucketCountdown(
      const std::vector<torch::Tensor>& parameters, std::vector<std::vector<size_t>> members, int backward_count,
      std::function<void(size_t bucket)> on_complete, std::function<void()> on_gradient = [] {});
  ~BucketCountdown();
  BucketCountdown(const BucketCountdown&) = delete;
  BucketCountdown& operator=(const BucketCountdown&) = delete;

  void restart();
  bool is_complete(size_t bucket) const { return missing_[bucket] == 0; }

 private:
  void add_hook(const torch::Tensor& parameter, size_t bucket);

  std::vector<std::vector<size_t>> members_;
  int backward_count_;
  std::function<void(size_t)> on_complete_;
  std::function<void()> on_gradient_;
  std::vector<size_t> missing_;  // one entry per bucket
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> hooks_;
};

}  // namespace penstock::detail
