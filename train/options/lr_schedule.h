// Learning-rate schedules: pure functions of the step, so that a resumed run needs no state for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// What the learning rate is multiplied by in a step. With t = step / step_count, from 0:
///
///     constant                                1
///     cosine                                  (1 + cos(pi * t)) / 2     (Loshchilov, Hutter 2017, eq. 5, one period)
///     step                                    1, a tenth from 1/2 of the steps on, a hundredth from 3/4 on
///     triangular(start=0,peak=0.5,end=0)      a straight line from `start` to 1 at t = peak, and one to `end` at t = 1
///     triangular(rest=R)                      the same with `end` at t = 1 - R, and from there on
///     onecycle(peak=0.3,divide=25,final=1e4)  a half cosine from 1/divide up to 1, and one to 1/(divide final)
///
/// triangular is that of Page 2019, "How to train your ResNet", and of Jordan 2024, arXiv:2404.00498; as there, it
/// turns at the step floor(peak * step_count). With peak=0 it falls from the first step on. onecycle is the policy of
/// Smith and Topin 2018, arXiv:1708.07120, with the shape and the steps of torch.optim.lr_scheduler.OneCycleLR; the
/// momentum does not change.
///
/// Errors: the constructor throws config_error for an unknown name or key, and for a value out of its range.
/// Thread-safety: immutable.
class RateSchedule {
 public:
  explicit RateSchedule(const std::string& text);
  /// What the learning rate is multiplied by in step `step` (from 0) of a run of `step_count` steps.
  double factor(int64_t step, int64_t step_count) const;

  static std::vector<std::string> names();

 private:
  double triangular(int64_t step, int64_t step_count) const;
  double one_cycle(int64_t step, int64_t step_count) const;

  std::string name_;
  double start_ = 0, peak_ = 0, end_ = 0;  // of triangular and onecycle: factors, and the share of the steps
  double rest_ = 0;                        // of triangular: the last share of the steps
};

}  // namespace penstock
