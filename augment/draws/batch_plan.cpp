// BatchPlan: draws the partners, the weight from Beta(alpha, alpha) and the rectangle of cutmix.
#include "augment/draws/batch_plan.h"

#include <algorithm>
#include <cmath>

#include "augment/draws/log_gamma_draw.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr uint16_t kBatchStream = 0xFFFF;  // a number that no transform's stream has

/// A draw of Beta(alpha, alpha), rounded to a multiple of 2^-16. The last bits of log() and exp() differ between
/// machines; with this rounding they change the result about once in 10^10 draws.
double beta(double alpha, Rng& rng) {
  const double own = detail::log_gamma_draw(alpha, rng), other = detail::log_gamma_draw(alpha, rng);
  return std::nearbyint(0x1p16 / (1 + std::exp(other - own))) * 0x1p-16;
}

}  // namespace

Region detail::cutmix_rect(double mix_weight, int column, int row, int height, int width) {
  const double half = 0.5 * std::sqrt(1 - mix_weight);
  const int half_width = static_cast<int>(half * width), half_height = static_cast<int>(half * height);
  const int left = std::max(column - half_width, 0), right = std::min(column + half_width, width);
  const int top = std::max(row - half_height, 0), bottom = std::min(row + half_height, height);
  return {left, top, right - left, bottom - top};
}

BatchMix batch_mix_of(const Spec& spec) {
  const bool is_mixup = spec.name() == "mixup";
  BatchMix mix{is_mixup ? BatchMix::Kind::kMixup : BatchMix::Kind::kCutmix, spec.get("alpha", is_mixup ? 0.2 : 1.0)};
  if (!(mix.alpha > 0 && mix.alpha <= 1000))
    throw config_error(concat(spec.where(), ": alpha is ", mix.alpha, "; expected more than 0, up to 1000"));
  if (!is_mixup) mix.switch_chance = spec.get("switch", 0.5);
  if (!(mix.switch_chance >= 0 && mix.switch_chance <= 1))
    throw config_error(concat(spec.where(), ": switch is ", mix.switch_chance, "; expected 0 to 1"));
  if (!spec.has("off-epoch")) return mix;
  mix.off_epoch = spec.get("off-epoch", 0);
  if (mix.off_epoch < 1)
    throw config_error(concat(spec.where(), ": off-epoch is ", mix.off_epoch, "; expected 1 or more"));
  return mix;
}

BatchMix switched(const BatchMix& mixup, const BatchMix& cutmix) {
  BatchMix both = mixup;
  both.switch_chance = cutmix.switch_chance, both.switched_alpha = cutmix.alpha;
  return both;
}

BatchPlan batch_plan(const BatchMix& mix, uint64_t seed, uint32_t epoch, uint64_t batch, int64_t count, int height,
                     int width) {
  BatchPlan plan{.kind = mix.kind, .count = count};
  if (mix.kind == BatchMix::Kind::kNone || count < 2 || epoch >= mix.off_epoch) {
    plan.kind = BatchMix::Kind::kNone;
    return plan;
  }
  Rng rng(seed, epoch, batch, kBatchStream);
  plan.shift = rng.between(1, static_cast<int>(std::min<int64_t>(count - 1, INT32_MAX)));
  const bool switches = mix.kind == BatchMix::Kind::kMixup && mix.switch_chance > 0 && rng.chance(mix.switch_chance);
  if (switches) plan.kind = BatchMix::Kind::kCutmix;
  const double mix_weight = beta(switches ? mix.switched_alpha : mix.alpha, rng);
  plan.mix_weight = static_cast<float>(mix_weight);
  if (plan.kind != BatchMix::Kind::kCutmix) return plan;
  const int column = rng.between(0, width - 1), row = rng.between(0, height - 1);
  plan.rect = detail::cutmix_rect(mix_weight, column, row, height, width);
  const double area = static_cast<double>(plan.rect.width) * plan.rect.height;
  plan.mix_weight = static_cast<float>(1 - area / (static_cast<double>(width) * height));
  return plan;
}

}  // namespace penstock
