// CollectiveTimes: how long the collectives of each of the last steps took at a rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace penstock {

/// Milliseconds of one step at one rank.
struct StepCollectives {
  float exposed = 0;         ///< Time in which the rank waited for collectives.
  float all = 0;             ///< Time in which a collective was under way.
  float after_backward = 0;  ///< The part of `all` of those that start after backward, such as a step's last sum.
};

/// The collective times of the last kKeptSteps steps at one rank. They are kept per step because another rank may come
/// last in each step, and only the times of all ranks in the same step tell a sum from waiting for a rank.
/// Thread-safety: none.
class CollectiveTimes {
 public:
  static constexpr size_t kKeptSteps = 4096;  // 48 KB

  /// Adds to the times of step `step`, counted from 0; nothing if they are no longer kept.
  void add(int64_t step, const StepCollectives& more) {
    for (; first_ + static_cast<int64_t>(steps_.size()) <= step; steps_.emplace_back())
      if (steps_.size() > kKeptSteps + 1) forget_first();  // and the newest ones, of which not all is known
    if (step < first_) return;
    auto& sums = steps_[static_cast<size_t>(step - first_)];
    sums.exposed += more.exposed;
    sums.all += more.all;
    sums.after_backward += more.after_backward;
  }

  /// One entry per step before `end`, oldest first; zeros where nothing was added.
  std::vector<StepCollectives> before(int64_t end) const {
    std::vector<StepCollectives> steps;
    for (int64_t step = std::max<int64_t>(0, end - static_cast<int64_t>(kKeptSteps)); step < end; ++step) {
      const int64_t index = step - first_;
      const bool is_known = index >= 0 && index < static_cast<int64_t>(steps_.size());
      steps.push_back(is_known ? steps_[static_cast<size_t>(index)] : StepCollectives());
    }
    return steps;
  }

 private:
  void forget_first() {
    steps_.pop_front();
    ++first_;
  }

  std::deque<StepCollectives> steps_;
  int64_t first_ = 0;  // the step of steps_.front()
};

}  // namespace penstock
