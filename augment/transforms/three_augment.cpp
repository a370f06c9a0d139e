// three-augment: makes the picture grey, solarizes it or blurs it, one of the three (Touvron et al. 2022, DeiT III:
// Revenge of the ViT, sec. 3.2), as DeiT's ThreeAugment and timm's policy 3a (1.0). The colour jitter that follows it
// in DeiT is a transform of its own: color-jitter(brightness=0.3,contrast=0.3,saturation=0.3).
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

class ThreeAugment final : public Transform {
 public:
  explicit ThreeAugment(Range deviation) : deviation_(deviation) {}

  Effect effect() const override { return Effect::kColor; }
  int color_steps() const override { return 1; }
  void edit(Plan& plan, Rng& rng) const override {
    switch (rng.between(0, 2)) {
      case 0:
        return plan.adjust(ColorOp::kSaturation, 0);
      case 1:
        return plan.adjust(ColorOp::kSolarize, 128);
      default:
        return plan.adjust(ColorOp::kGaussianBlur, static_cast<float>(rng.uniform(deviation_.low, deviation_.high)));
    }
  }

 private:
  Range deviation_;  // pixels
};

const Registered<TransformKind> kRegistered{
    "three-augment",
    {"sigma"},
    "one of three: make the picture grey, invert the levels from 128 on, or blur it by sigma=low:high pixels (0.1:2)",
    [](const Spec& spec, const DataStatistics&) { return std::make_unique<ThreeAugment>(detail::deviation(spec, 0)); },
    {.test_spec = "three-augment"}};

}  // namespace
}  // namespace penstock
