// RandomStep: a transform that appends one colour step with probability p. Six transforms are that and nothing more.
#pragma once

#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock::detail {

class RandomStep final : public Transform {
 public:
  RandomStep(ColorStep step, double p) : step_(step), p_(p) {}

  Effect effect() const override { return Effect::kColor; }
  int color_steps() const override { return 1; }
  void edit(Plan& plan, Rng& rng) const override {
    if (rng.chance(p_)) plan.adjust(step_.op, step_.amount);
  }

 private:
  ColorStep step_;
  double p_;
};

/// Reads the key `p` of the spec, which is 0.5 unless given, as in torchvision.
inline std::unique_ptr<Transform> random_step(const Spec& spec, ColorOp op, double amount) {
  return std::make_unique<RandomStep>(ColorStep{op, static_cast<float>(amount)}, probability(spec, "p", 0.5));
}

}  // namespace penstock::detail
