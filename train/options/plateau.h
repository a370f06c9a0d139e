// plateau: a learning rate that falls when evaluations no longer get better.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

class Spec;

/// What a plateau remembers from one evaluation to the next; checkpoints have it.
struct PlateauState {
  double factor = 1;           // of the learning rate
  std::optional<double> best;  // the value that was better than all before it; nothing: no finite one came yet
  int64_t bad_epochs = 0;      // in succession, whose values were not better than `best`
  int64_t cooldown = 0;        // epochs from here on that do not count as bad
};

/// The rule of torch.optim.lr_scheduler.ReduceLROnPlateau, with its defaults: after more than `patience=10` epochs in
/// succession whose value was not better than the best one, the rate is multiplied by `factor=0.1`, and `cooldown=0`
/// epochs do not count as bad. A value is better if it is beyond the best one by the share `threshold=0.0001` of it, or
/// with threshold-mode=abs by that number. The value is the loss of evaluations, or with on=score their first score.
///
/// Deviations: the rate stops at `floor=0` times --lr, which there is min_lr; and it falls however small it has become,
/// there by 1e-8 or more.
///
/// Errors: the constructor throws config_error. Thread-safety: immutable.
class PlateauRule {
 public:
  static std::vector<std::string> keys();
  explicit PlateauRule(const Spec& spec);

  bool is_on_score() const { return is_on_score_; }
  /// After an evaluation; a NaN is not better than anything. Returns whether the factor has fallen.
  bool after_evaluation(double value, bool smaller_is_better, PlateauState& state) const;

 private:
  bool is_better(double value, bool smaller_is_better, const PlateauState& state) const;

  double factor_, threshold_, floor_;
  int64_t patience_, cooldown_;
  bool is_absolute_, is_on_score_;
};

}  // namespace penstock
