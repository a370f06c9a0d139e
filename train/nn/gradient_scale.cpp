// GradientScale: what becomes of it after a step.
#include "train/nn/gradient_scale.h"

#include <limits>

namespace penstock {

bool GradientScale::after_step(bool was_skipped, int64_t growth_steps) {
  constexpr double kGrowth = 2, kBackoff = 0.5;
  if (was_skipped) {
    scale *= kBackoff;
    good_steps = 0;
    ++skipped_steps;
    return true;
  }
  if (++good_steps < growth_steps) return false;
  good_steps = 0;
  if (scale * kGrowth > std::numeric_limits<float>::max()) return false;
  scale *= kGrowth;
  return true;
}

}  // namespace penstock
