// Learning-rate schedules: pure functions of the step, so that a resumed run needs no state for them; but for plateau.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/options/plateau.h"

namespace penstock {

class Spec;

/// What the learning rate is multiplied by in a step. With t = step / step_count, from 0:
///
///     constant                                1
///     cosine                                  (1 + cos(pi * t)) / 2     (Loshchilov, Hutter 2017, eq. 5, one period)
///     cosine(floor=F), polynomial(power=1,floor=0)   F + (1 - F) times that, or times (1 - t)^power
///     step                                    1, a tenth from 1/2 of the steps on, a hundredth from 3/4 on
///     step(every=E,gamma=0.1)                 gamma^(epochs / E), rounded down
///     triangular(start=0,peak=0.5,end=0)      a straight line from `start` to 1 at t = peak, and one to `end` at t = 1
///     triangular(rest=R)                      the same with `end` at t = 1 - R, and from there on
///     onecycle(peak=0.3,divide=25,final=1e4)  a half cosine from 1/divide up to 1, and one to 1/(divide final)
///     plateau                                 1; the run multiplies it by PlateauState::factor
///
/// triangular is that of Page 2019, "How to train your ResNet", and of Jordan 2024, arXiv:2404.00498; as there, it
/// turns at the step floor(peak * step_count). With peak=0 it falls from the first step on. onecycle is the policy of
/// Smith and Topin 2018, arXiv:1708.07120, with the shape and the steps of torch.optim.lr_scheduler.OneCycleLR; the
/// momentum does not change.
///
/// All others may begin with a warm-up of `warmup=W` epochs, or a part of one. With warmup-kind=linear it is a straight
/// line from warmup-start=0.01 to 1, with constant it is warmup-start throughout. The schedule itself then has the
/// steps after it, as in torchvision's reference scripts (SequentialLR of LinearLR or ConstantLR and of
/// CosineAnnealingLR or StepLR for classification, PolynomialLR for segmentation), and in timm's CosineLRScheduler,
/// StepLRScheduler and PolyLRScheduler with warmup_prefix; with warmup-inside=true it counts all steps and the warm-up
/// hides its first ones, as timm does without warmup_prefix. With per=epoch every step of an epoch has the factor of
/// its first step.
///
/// Errors: the constructor throws config_error for an unknown name or key, and for a value out of its range.
/// Thread-safety: immutable.
class RateSchedule {
 public:
  explicit RateSchedule(const std::string& text);
  /// What the learning rate is multiplied by in step `step` (from 0) of a run of `step_count` steps, of which an epoch
  /// has `epoch_steps`. The latter counts only with keys that are in epochs: warmup, every and per.
  double factor(int64_t step, int64_t step_count, int64_t epoch_steps = 1) const;
  double warmup_epochs() const { return warmup_.epochs; }
  const PlateauRule* plateau() const { return plateau_ ? &*plateau_ : nullptr; }  ///< Null in other schedules.
  /// Whether a plateau takes the evaluation after epoch `epoch` (from 0): not in the warm-up, as in timm, unless it is
  /// inside.
  bool counts_epoch(int64_t epoch) const { return warmup_.is_inside || static_cast<double>(epoch) >= warmup_.epochs; }

  static std::vector<std::string> names();

 private:
  struct WarmUp {
    double epochs = 0, start = 0;
    bool is_constant = false, is_inside = false;
  };

  void read_warm_up(const Spec& spec);
  /// In a step after the warm-up. Steps are counted from its end, and need not be whole where it ends within one.
  double factor_after_warm_up(double step, double step_count, int64_t epoch_steps) const;
  double triangular(double at, double last) const;
  double one_cycle(double at, double step_count) const;

  std::string name_;
  double start_ = 0, peak_ = 0, end_ = 0;  // of triangular and onecycle: factors, and the share of the steps
  double rest_ = 0;                        // of triangular: the last share of the steps
  double floor_ = 0, power_ = 1;           // of cosine and polynomial
  double every_ = 0, gamma_ = 0;           // of step; epochs, 0: by shares of the run
  std::optional<PlateauRule> plateau_;
  WarmUp warmup_;
  bool is_per_epoch_ = false;
};

}  // namespace penstock
