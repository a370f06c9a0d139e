// Policy: a transform that draws operations of picture_op.h: trivial-augment, rand-augment, auto-augment,
// timm-rand-augment.
#pragma once

#include <optional>

#include "augment/draws/picture_op.h"
#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/filter_choice.h"

namespace penstock::detail {

class Policy : public Transform {
 public:
  /// Reads the keys `interpolation` or `filter` (nearest unless given) and `fill`, one level.
  Policy(const Spec& spec, const DataStatistics& statistics) : filter_(filter(spec, "nearest", false)) {
    if (const auto level = fill(spec, statistics)) fill_ = {*level, *level, *level};
  }
  /// `filter` is that of operations that move pixels. Without a fill the plan keeps its own.
  Policy(FilterChoice filter, std::optional<std::array<float, 3>> fill) : filter_(filter), fill_(fill) {}

  void edit(Plan& plan, Rng& rng) const final {
    const Filter before = plan.filter;
    draw(plan, rng);
    // Drawn after the operations, which then do not depend on it. Those that move pixels have asked for the first one.
    const bool takes_other = filter_.is_random() && rng.chance(0.5);
    if (takes_other && plan.filter != before) plan.filter = better_filter(before, filter_.other);
    if (fill_) plan.fill = *fill_;
  }

 protected:
  /// Draws the operations of one sample and takes them.
  virtual void draw(Plan& plan, Rng& rng) const = 0;

  /// Applies an operation at `part` of its full magnitude, negated where `is_negative` and the operation has a sign.
  void take(PictureOp op, double part, bool is_negative, const FullMagnitude& full, Plan& plan) const {
    apply(op, is_negative && has_sign(op) ? -part : part, full, plan);
    if (is_geometric(op)) use_filter(plan, filter_.filter);
  }

  Filter moving_filter() const { return filter_.filter; }

 private:
  FilterChoice filter_;
  std::optional<std::array<float, 3>> fill_;  // levels
};

}  // namespace penstock::detail
