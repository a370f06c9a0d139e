// BatchPlan: what mixup and cutmix do to one global batch, as data: which position is blended with which, and how much.
#pragma once

#include <cstdint>

#include "augment/plan.h"
#include "augment/render.h"
#include "core/spec.h"

namespace penstock {

/// What a user asks for: `mixup(alpha=A)` or `cutmix(alpha=A)`.
struct BatchMix {
  enum class Kind : uint8_t { kNone, kMixup, kCutmix };

  Kind kind = Kind::kNone;
  double alpha = 1;  // of Beta(alpha, alpha); more than 0
};

/// alpha is 0.2 for mixup (Zhang et al. 2018, sec. 3.1: 0.1 to 0.4 on ImageNet) and 1 for cutmix (Yun et al. 2019)
/// unless given. Requires spec.name() to be one of the two. Throws config_error for alpha.
BatchMix batch_mix_of(const Spec& spec);

/// One global batch: every position takes `mix_weight` of itself and the rest of partner(position), pixels (mixup: a
/// blend; cutmix: the rectangle is the partner's) and labels alike. The weights of a row's two labels are mix_weight
/// and 1 - mix_weight.
///
/// The partner's sample comes through its own plan of this epoch, unmixed, so a rank decodes it itself wherever it
/// stands.
struct BatchPlan {
  BatchMix::Kind kind = BatchMix::Kind::kNone;
  float mix_weight = 1;  // cutmix: the share of pixels outside the rectangle
  Region rect{};         // cutmix: of the output; may be empty
  int64_t count = 0;     // samples of the global batch, padding not counted
  int64_t shift = 0;     // 1 to count - 1; 0 in a batch of one sample, which is left alone

  /// Of position 0 to count - 1 in the global batch. A rotation by `shift`: every sample is the partner of exactly one
  /// other. torchvision always rotates by 1, which pairs like with like where samples are not shuffled.
  int64_t partner(int64_t position) const { return position < shift ? position - shift + count : position - shift; }
};

/// Determinism: a pure function of its arguments; `batch` is the index of the global batch in its epoch, so ranks,
/// workers and restarts do not matter. The draws are those of torchvision's MixUp and CutMix (0.26): one weight and one
/// rectangle a batch.
BatchPlan batch_plan(const BatchMix& mix, uint64_t seed, uint32_t epoch, uint64_t batch, int64_t count, int height,
                     int width);

/// Makes `row` the mixture of itself and `partner`, two rendered samples of this layout and extent. f32 arithmetic,
/// rounded to nearest even in f16, bf16 and u8. The same bits on every instruction set. Requires plan.kind != kNone;
/// rows that do not overlap.
void mix_row(const BatchPlan& plan, Layout layout, const Extent& extent, const void* partner, void* row);

}  // namespace penstock
