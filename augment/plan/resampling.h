// Resampling: how render() finds the levels of a plan's output pixels, for renderers of other kinds than render().
#pragma once

#include "augment/pixels/tap_weights.h"
#include "augment/plan/plan.h"

namespace penstock {

struct Resampling {
  enum class Kind { kNearest, kBilinear, kBicubic, kFiltered };

  Kind kind = Kind::kNearest;
  /// The plan with coordinates counted from the corner of its view, which is a picture of its own.
  Plan seen;
  /// kFiltered only: the axes along the output's columns and rows, and whether its columns run along the picture's
  /// rows.
  bool turns = false;
  detail::Axis columns, rows;
};

Resampling resampling_of(const Plan& plan);

}  // namespace penstock
