// ProgressBar: one line on a terminal, which is rewritten while an epoch runs.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

namespace penstock {

/// Rewrites its line at most ten times per second; other steps cost one clock call each. Writes nothing if it is off,
/// because the output is no terminal. Thread-safety: for the training thread only.
class ProgressBar {
 public:
  struct State {
    int64_t epoch = 0, epoch_count = 0;  ///< From 1.
    int64_t step = 0, step_count = 0;    ///< In this epoch.
    std::optional<double> loss = {};     ///< From running_loss(); nothing with an emulated step.
    double images_per_second = 0;
    double load_share = 0;    ///< 0..1
    double seconds_left = 0;  ///< Until the end of the last epoch.
  };

  ProgressBar(std::ostream& out, bool is_on) : out_(out), is_on_(is_on) {}
  bool is_due() const;  ///< Whether show() would write now; otherwise the caller need not make a State.
  void show(const State& state);
  void clear();  ///< To be called before another line is printed.

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

/// The mean loss of an epoch so far. `read` is the sum over all ranks when it was last read. Since then all ranks
/// together had `since_count` samples; `own` is the sum over those of this rank, which stand for the samples of all
/// ranks. Nothing before the first step.
std::optional<double> running_loss(const LossSum& read, const LossSum& own, int64_t since_count);

/// `[#####.....] 2/10 250/938  loss 0.3121  8123 images/s  load 4 %  1:05 left`
std::string bar_line(const ProgressBar::State& state);

}  // namespace penstock
