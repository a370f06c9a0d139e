// GradientScale: the scale of half-precision gradients that adapts, and the steps that were skipped for it.
#pragma once

#include <cstdint>

namespace penstock {

/// The rule of torch.amp.GradScaler with its factors: a step whose gradients are not all finite is skipped and halves
/// the scale; after `growth_steps` others in succession it doubles. Checkpoints have it, and it is the same at every
/// rank. Thread-safety: a value.
struct GradientScale {
  double scale = 65536;
  int64_t good_steps = 0;     // since the scale changed last
  int64_t skipped_steps = 0;  // of the run

  /// Returns whether the scale has changed. It grows as long as f32 holds it.
  bool after_step(bool was_skipped, int64_t growth_steps);
};

}  // namespace penstock
