// PendingCollectives: the collectives of a step in the order in which they were started.
#pragma once

#include <torch/types.h>

#include <deque>
#include <memory>
#include <vector>

#include "train/comm/comm.h"
#include "train/measure/recorder.h"

namespace penstock::detail {

/// Which collectives of a step no computation can hide, because they start when there is nothing left to compute.
enum class AfterBackward { kNone, kLast, kAll };

/// Waits for the collectives of a step in the order in which they were started, and tells the recorder how long each
/// was under way. The time that the rank spends in starting them and in waiting counts as communication, wherever in a
/// step it is.
class PendingCollectives {
 public:
  explicit PendingCollectives(Recorder& recorder, AfterBackward after_backward = AfterBackward::kLast)
      : recorder_(recorder), after_backward_(after_backward) {}

  /// A new step. Requires that all were waited for.
  void restart();
  /// Calls `begin`, which starts a collective and returns its Work. That may already take the time of the collective,
  /// where ranks are threads of one process, and counts as communication. `kept` stays in memory until the collective
  /// was waited for.
  template <class Begin>
  void start(const Begin& begin, const torch::Tensor& kept = {}) {
    const Recorder::Communication communication(recorder_);
    add(begin(), kept);
  }
  void add(std::unique_ptr<Comm::Work> work, const torch::Tensor& kept = {});
  size_t count() const { return works_.size(); }
  /// Returns when the first `count` collectives of this step have ended.
  void wait_for(size_t count);
  size_t waited_count() const { return waited_count_; }
  /// The tensors of collectives that were not waited for yet.
  std::vector<torch::Tensor> kept() const {
    return {kept_.begin() + static_cast<std::ptrdiff_t>(waited_count_), kept_.end()};
  }

 private:
  Recorder& recorder_;
  AfterBackward after_backward_;
  std::vector<std::unique_ptr<Comm::Work>> works_;  // of this step
  int64_t step_ = 0;                                // as the recorder counts it, when they were started
  std::vector<torch::Tensor> kept_;                 // one entry per work; undefined once it was waited for
  size_t waited_count_ = 0;
  struct Timed {
    std::unique_ptr<Comm::Work> work;
    bool is_after_backward;
    int64_t step;
  };
  std::deque<Timed> timed_;  // of earlier steps; on a device they may still be under way
};

}  // namespace penstock::detail
