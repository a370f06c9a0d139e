// ProgressBar: one line of a terminal, rewritten while an epoch runs.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

namespace penstock {

/// Rewrites its line at most ten times a second; one clock call a step otherwise. Nothing is written when it is off (a
/// pipe). Thread-safety: the training thread's alone.
class ProgressBar {
 public:
  struct State {
    int64_t epoch = 0, epoch_count = 0;  ///< From 1.
    int64_t step = 0, step_count = 0;    ///< Of this epoch.
    std::optional<double> loss = {};     ///< running_loss(); none with an emulated step.
    double images_per_second = 0;
    double load_share = 0;    ///< 0..1
    double seconds_left = 0;  ///< To the end of the last epoch.
  };

  ProgressBar(std::ostream& out, bool is_on) : out_(out), is_on_(is_on) {}
  bool is_due() const;  ///< Whether show() would write now: the caller works out a State only then.
  void show(const State& state);
  void clear();  ///< Before a line is printed.

 private:
  std::ostream& out_;
  bool is_on_;
  bool is_shown_ = false;
  int64_t shown_ns_ = 0;
};

/// Some samples and the sum of their losses.
struct LossSum {
  double loss = 0;
  int64_t sample_count = 0;
};

/// The mean loss of an epoch so far, from its first step on: `read` was summed over all ranks; since then there were
/// `since_count` samples at all ranks, and `own` of this one, which stand for all of them. Nothing before any step.
std::optional<double> running_loss(const LossSum& read, const LossSum& own, int64_t since_count);

/// `[#####.....] 2/10 250/938  loss 0.3121  8123 images/s  load 4 %  1:05 left`
std::string bar_line(const ProgressBar::State& state);

}  // namespace penstock
