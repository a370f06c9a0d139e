// BatchPlan: what mixup and cutmix do to one global batch, as data: which positions are mixed with each other, and how
// much.
//
// Lives here: random numbers, and operations with drawn parameters, of which several transforms are made.
// Not here: the transforms, which read keys and edit plans (augment/transforms).
#pragma once

#include <cstdint>

#include "augment/plan/plan.h"
#include "core/spec.h"

namespace penstock {

/// The mix that a user asks for: `mixup(alpha=A)`, `cutmix(alpha=A)`, or both in one list, between which
/// `cutmix(switch=P)` switches from batch to batch.
struct BatchMix {
  enum class Kind : uint8_t { kNone, kMixup, kCutmix };

  Kind kind = Kind::kNone;
  double alpha = 1;  // the parameter of Beta(alpha, alpha); more than 0
  /// The probability that a batch of a list with both is mixed by cutmix, with `switched_alpha`. A list with cutmix
  /// alone does not use it, and with mixup alone it is 0.
  double switch_chance = 0;
  double switched_alpha = 1;
  int64_t off_epoch = INT64_MAX;  // from this epoch on, counted from 0, no batch is mixed
};

/// The mix of a list that has both, in either order. `switch_chance` is that of cutmix. Requires a mixup and a cutmix
/// that are not switched, and with the same off_epoch.
BatchMix switched(const BatchMix& mixup, const BatchMix& cutmix);

/// Reads the spec of mixup or cutmix. The default of alpha is 0.2 for mixup (Zhang et al. 2018, sec. 3.1: 0.1 to 0.4 on
/// ImageNet) and 1 for cutmix (Yun et al. 2019). Requires that spec.name() is one of the two. Throws config_error for
/// values out of range.
BatchMix batch_mix_of(const Spec& spec);

/// The plan of one global batch. Every position is mixed with its partner(position). Mixup blends the pixels:
/// mix_weight times its own plus 1 - mix_weight times the partner's. Cutmix copies the rectangle `rect` from the
/// partner. In both cases the weights of the row's own label and of the partner's label are mix_weight and 1 -
/// mix_weight.
///
/// The partner's sample is rendered by its own plan of this epoch and is not mixed itself. A rank can therefore decode
/// the partner even when the partner's row belongs to another rank.
struct BatchPlan {
  BatchMix::Kind kind = BatchMix::Kind::kNone;
  float mix_weight = 1;  // for cutmix, the share of pixels outside of the rectangle
  Region rect{};         // for cutmix, in pixels of the output; may be empty
  int64_t count = 0;     // samples in the global batch, without padding rows
  int64_t shift = 0;     // 1 to count - 1; 0 in a batch of one sample, which is not mixed

  /// The partner of a position (0 to count - 1) of the global batch: the positions rotated by `shift`, so that every
  /// sample is the partner of exactly one other. torchvision always rotates by 1, which pairs samples of the same class
  /// where they are not shuffled.
  int64_t partner(int64_t position) const { return position < shift ? position - shift + count : position - shift; }
};

/// Draws the plan of a global batch. As in torchvision's MixUp and CutMix (0.26), there is one weight and one rectangle
/// per batch. Determinism: a pure function of its arguments. `batch` is the number of the global batch in its epoch, so
/// that the result does not depend on ranks, workers or restarts.
BatchPlan batch_plan(const BatchMix& mix, uint64_t seed, uint32_t epoch, uint64_t batch, int64_t count, int height,
                     int width);

namespace detail {

/// A rectangle centred at (column, row) whose sides are sqrt(1 - mix_weight) times those of the output, clipped to the
/// output: torchvision's CutMix.make_params (0.26), Yun et al. 2019, eq. 2.
Region cutmix_rect(double mix_weight, int column, int row, int height, int width);

}  // namespace detail
}  // namespace penstock
